"""The keys that JWTs are signed with: which algorithms each kind of key allows, and where keys come from.

The algorithm is the key's to say, not the token's: what a token claims in `alg` must be on the list of its key. So
there is no way to `none`, and none from a public key to a shared secret.

Keys are one that never changes, or a set that its issuer changes while we run. A set is asked for again when it has
grown old, and when a token names a key that is not in it, but never more often than the settings say: made-up names do
not make us a nuisance to the issuer. While it cannot be had, the last one counts, for a bounded time.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import httpx
import orjson
import structlog
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from surefoot.audit.settings import AccessSettings
from surefoot.errors import ConfigurationError, SurefootError, words_of

log = structlog.get_logger("surefoot.dlq.access")
HMAC = ("HS256", "HS384", "HS512")
RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
CURVES = {"secp256r1": ("ES256",), "secp384r1": ("ES384",), "secp521r1": ("ES512",)}
SMALLEST_RSA_BITS = 2048
MOST_KEYS = 100
FETCH_TIMEOUT_S = 5.0
MOST_BYTES = 1024 * 1024
FRESH_FOR = timedelta(minutes=5)
"""How long keys are used before they are asked for again."""
ASKED_AT_MOST_EVERY = timedelta(seconds=10)
"""Keys are not asked for more often, whoever sends tokens of unknown keys."""
KEPT_FOR = timedelta(hours=1)
"""How long the last keys count while new ones cannot be had."""

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


class KeysAway(SurefootError):
    """The keys that tokens are checked with cannot be had now: try again in a while."""


class KeySource(Protocol):
    async def find(self, kid: str | None) -> Key | None:
        """The key of this name. A token that names none may have the only one there is."""


class OneKey:
    """Whatever a token calls it."""

    def __init__(self, key: Key) -> None:
        self._key = key

    async def find(self, kid: str | None) -> Key | None:
        return self._key


class KeySet:
    def __init__(
        self,
        fetch: Callable[[], Awaitable[bytes]],
        *,
        fresh_for: timedelta,
        asked_at_most_every: timedelta,
        kept_for: timedelta,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._fresh_for_s = fresh_for.total_seconds()
        self._every_s = asked_at_most_every.total_seconds()
        self._kept_for_s = kept_for.total_seconds()
        self._clock = clock
        self._keys: dict[str, Key] = {}
        self._had_at: float | None = None
        self._asked_at: float | None = None
        self._one_at_a_time = asyncio.Lock()

    async def find(self, kid: str | None) -> Key | None:
        found = self._named(kid)
        if found is None or self._is_older_than(self._fresh_for_s):
            await self._ask_again()
            found = self._named(kid)
        if self._is_older_than(self._kept_for_s):
            raise KeysAway
        return found

    def _named(self, kid: str | None) -> Key | None:
        if kid is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(kid)

    def _is_older_than(self, seconds: float) -> bool:
        return self._had_at is None or self._clock() - self._had_at > seconds

    async def _ask_again(self) -> None:
        asked_before = self._asked_at
        async with self._one_at_a_time:
            if self._asked_at != asked_before:
                return  # somebody asked while we waited for our turn
            if self._asked_at is not None and self._clock() - self._asked_at < self._every_s:
                return
            self._asked_at = self._clock()
            try:
                self._keys = key_set(await self._fetch())
            except (httpx.HTTPError, OSError, TimeoutError, SurefootError) as error:
                log.warning("the keys that tokens are checked with cannot be had", error=words_of(error))
            else:
                self._had_at = self._clock()


def key_source(settings: AccessSettings) -> KeySource | None:
    """What the settings name; None if JWTs are not accepted. What is wrong with a file is told now."""
    if settings.jwt_secret is not None:
        return OneKey(shared_secret(settings.jwt_secret.get_secret_value()))
    if settings.jwt_public_key is not None:
        where = settings.jwt_public_key
        return OneKey(public_key(_read(where), str(where)))
    if settings.jwt_jwks is None:
        return None
    if settings.jwt_jwks.lower().startswith(("https://", "http://")):
        fetch = _from_url(settings.jwt_jwks)
    else:
        path = Path(settings.jwt_jwks)
        key_set(_read(path))
        fetch = _from_file(path)
    return KeySet(
        fetch,
        fresh_for=FRESH_FOR,
        asked_at_most_every=ASKED_AT_MOST_EVERY,
        kept_for=KEPT_FOR,
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"The keys for JWTs cannot be read: {error}.") from error


def _from_file(path: Path) -> Callable[[], Awaitable[bytes]]:
    async def fetch() -> bytes:
        return await asyncio.to_thread(path.read_bytes)

    return fetch


def _from_url(url: str) -> Callable[[], Awaitable[bytes]]:
    async def fetch() -> bytes:
        # Redirects are not followed: they could lead to where nobody meant to take keys from.
        async with asyncio.timeout(FETCH_TIMEOUT_S), await _client() as client, client.stream("GET", url) as response:
            if response.status_code != httpx.codes.OK:
                raise KeysAway(f"{url} answered with {response.status_code}.")
            body = bytearray()
            async for part in response.aiter_bytes():
                body += part
                if len(body) > MOST_BYTES:
                    raise KeysAway(f"What {url} answers is larger than a key set is.")
            return bytes(body)

    return fetch


async def _client() -> httpx.AsyncClient:
    # In a thread: reading the certificate authorities takes tens of milliseconds.
    return await asyncio.to_thread(httpx.AsyncClient, timeout=FETCH_TIMEOUT_S)
