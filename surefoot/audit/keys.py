"""The keys that tokens are signed with, and which algorithms each kind of key allows.

The algorithm is the key's to say, not the token's: what a token claims in `alg` must be on the list of its key. So
there is no way to `none`, and none from a public key to a shared secret.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import orjson
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from surefoot.errors import ConfigurationError

HMAC = ("HS256", "HS384", "HS512")
RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
CURVES = {"secp256r1": ("ES256",), "secp384r1": ("ES384",), "secp521r1": ("ES512",)}
SMALLEST_RSA_BITS = 2048
MOST_KEYS = 100

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey


@dataclass(frozen=True, slots=True)
class Key:
    value: PublicKey | bytes
    algorithms: tuple[str, ...]


def shared_secret(secret: str) -> Key:
    return Key(secret.encode(), HMAC)


def public_key(pem: bytes, where: str) -> Key:
    try:
        key = _key_of(load_pem_public_key(pem))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigurationError(f"{where} has no public key in PEM: {error}.") from error
    if key is None:
        raise ConfigurationError(
            f"The key in {where} cannot be used: take RSA of {SMALLEST_RSA_BITS} bits or more, a NIST curve or Ed25519."
        )
    return key


def key_set(text: bytes) -> dict[str, Key]:
    """The keys of a JWKS (RFC 7517), by `kid`. Those that cannot be used are passed over: issuers add kinds of them.

    A shared secret is no key for a set that is handed out, and is passed over as well."""
    try:
        listed = orjson.loads(text)["keys"]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError('This is no key set: it must be JSON, {"keys": […]}.') from error
    if not isinstance(listed, list) or len(listed) > MOST_KEYS:
        raise ConfigurationError(f'This is no key set: "keys" must be a list of at most {MOST_KEYS}.')
    found = {_kid(jwk): _from_jwk(jwk) for jwk in listed if isinstance(jwk, dict)}
    return {kid: key for kid, key in found.items() if key is not None}


def _kid(jwk: Mapping[str, object]) -> str:
    kid = jwk.get("kid")
    return kid if isinstance(kid, str) else ""


def _from_jwk(jwk: dict[str, object]) -> Key | None:
    if jwk.get("kty") == "oct" or jwk.get("use", "sig") != "sig" or "d" in jwk:
        return None
    try:
        key = _key_of(PyJWK(jwk).key)
    except (PyJWTError, ValueError, TypeError):
        return None
    said = jwk.get("alg")
    if key is None or said is None:
        return key
    return Key(key.value, (str(said),)) if said in key.algorithms else None


def _key_of(key: object) -> Key | None:
    match key:
        case RSAPublicKey() if key.key_size >= SMALLEST_RSA_BITS:
            return Key(key, RSA)
        case EllipticCurvePublicKey() if key.curve.name in CURVES:
            return Key(key, CURVES[key.curve.name])
        case Ed25519PublicKey():
            return Key(key, ("EdDSA",))
    return None
