"""An issuer of JWTs for the tests: keys of several kinds, and tokens good and bad."""

import base64
import hashlib
import hmac
import json
import time
from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

AUDIENCE = "surefoot-dlq"
ISSUER = "https://issuer.example"


@dataclass(frozen=True, slots=True)
class Issuer:
    """One key, under a name."""

    private: Any
    algorithm: str
    kid: str = "k1"

    @property
    def public_pem(self) -> bytes:
        pem: bytes = self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return pem

    @property
    def jwk(self) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(jwt.get_algorithm_by_name(self.algorithm).to_jwk(self.private.public_key()))
        return {**made, "kid": self.kid, "use": "sig", "alg": self.algorithm}

    def token(self, role: object = "OPERATOR", *, algorithm: str | None = None, **changed: Any) -> str:
        """For somebody of this role; a claim that is None is left out."""
        header = {"kid": self.kid}
        return jwt.encode(claims(role, **changed), self.private, algorithm or self.algorithm, header)


def rsa_issuer(kid: str = "k1") -> Issuer:
    return Issuer(rsa.generate_private_key(public_exponent=65537, key_size=2048), "RS256", kid)


def curve_issuer(kid: str = "k1") -> Issuer:
    return Issuer(ec.generate_private_key(ec.SECP256R1()), "ES256", kid)


def edwards_issuer(kid: str = "k1") -> Issuer:
    return Issuer(ed25519.Ed25519PrivateKey.generate(), "EdDSA", kid)


def claims(role: object = "OPERATOR", **changed: Any) -> dict[str, Any]:
    made = {"sub": "otto", "role": role, "aud": AUDIENCE, "iss": ISSUER, "exp": int(time.time()) + 600, **changed}
    return {name: value for name, value in made.items() if value is not None}


def by_hand(header: dict[str, Any], payload: dict[str, Any], secret: bytes | None = None) -> str:
    """As an attacker writes it: unsigned, or signed with HMAC under whatever bytes."""
    signed = f"{_part(header)}.{_part(payload)}"
    signature = b"" if secret is None else hmac.new(secret, signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{_encoded(signature)}"


def _part(value: dict[str, Any]) -> str:
    return _encoded(json.dumps(value).encode())


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
