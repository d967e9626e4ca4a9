"""Who a request comes from: API keys, each of one tenant. What is kept is their hashes; no key is ever logged or shown.

    access = access_of(ApiSettings(), host="127.0.0.1", open_=False)
    access.tenant_of("Bearer sk_…")

A key is looked for among all of them, in the same time whether it is the first, the last, or none. Whose request it is
stands in `request.state.tenant` before anything else of it is looked at.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

import orjson
from starlette.requests import Request
from starlette.types import ASGIApp, Scope

from services.payment.settings import ApiSettings
from surefoot.errors import ConfigurationError
from surefoot.http.listening import refuse_others
from surefoot.http.middleware import Authenticate, Refusal, bearer_token, said_authorization
from surefoot.http.problems import Problem
from surefoot.idempotency import resumed_tenant

VARIABLE = "SUREFOOT_PAYMENT_API_KEYS"
EXAMPLE = '{"sha256:<64 hex digits>": "acme"}'
SHORTEST_KEY = 20
LONGEST_KEY = 500
LOCAL_TENANT = "local"
"""Of whoever reaches an API that was started open."""
_HASHED = re.compile(r"sha256:([0-9a-f]{64})")
_TENANT = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_KEY = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class Access:
    tenants: Mapping[bytes, str]
    """By the SHA-256 of their keys."""
    is_open: bool = False

    def tenant_of(self, authorization: str | None) -> str | Refusal:
        """By the value of the Authorization header."""
        if self.is_open:
            return LOCAL_TENANT
        key = bearer_token(authorization, called="API key", longest=LONGEST_KEY)
        if isinstance(key, Refusal):
            return key
        given, found = hash_of(key), None
        for known, tenant in self.tenants.items():
            if hmac.compare_digest(known, given):
                found = tenant
        return found or Refusal("unknown_token", "Nobody was given this API key: look whether it was copied whole.")


def authenticator(access: Access) -> Authenticate:
    """A request that the completer makes again has no key with it: its tenant is the one it was claimed for. Only the
    layer itself can say so, because a scope does not come over the network."""

    async def authenticate(scope: Scope) -> ASGIApp | None:
        who = resumed_tenant(scope) or _tenant_of(access, Request(scope))
        if isinstance(who, Refusal):
            headers = {"WWW-Authenticate": 'Bearer realm="payments"'}
            return Problem(HTTPStatus.UNAUTHORIZED, "not_let_in", who.sentence).with_headers(headers).response()
        scope.setdefault("state", {})["tenant"] = who
        return None

    return authenticate


def _tenant_of(access: Access, request: Request) -> str | Refusal:
    said = said_authorization(request, is_open=access.is_open, service="API")
    return said if isinstance(said, Refusal) else access.tenant_of(said)


def tenant_in(scope: Scope) -> str:
    """Whose request it is, once it has come through the door."""
    tenant: str = scope["state"]["tenant"]
    return tenant


def access_of(settings: ApiSettings, *, host: str, open_: bool) -> Access:
    """Whether the API may be started like this: not if it would be open to strangers, and not if to nobody."""
    if open_:
        refuse_others(
            host,
            "without API keys whoever reaches the payments API could charge and refund. --open goes with a loopback "
            "address only: 127.0.0.1.",
        )
        return Access({}, is_open=True)
    if settings.keys is None:
        raise ConfigurationError(
            f"Nobody could use the payments API: {VARIABLE} is not set. Set it to {EXAMPLE}, with the hash of each "
            "API key and its tenant; or say --open, on this machine alone."
        )
    return Access(tenants_by_hash(settings.keys.get_secret_value()))


def tenants_by_hash(text: str) -> Mapping[bytes, str]:
    """What the setting says. What is wrong in it is told without quoting any of it: it may be a key."""
    try:
        said = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConfigurationError(f"{VARIABLE} is no JSON: it should look like {EXAMPLE}.") from error
    if not isinstance(said, dict) or not said:
        raise ConfigurationError(f"{VARIABLE} should be an object with a key in it at least, like {EXAMPLE}.")
    tenants: dict[bytes, str] = {}
    for position, (key, tenant) in enumerate(said.items(), start=1):
        if not isinstance(tenant, str) or _TENANT.fullmatch(tenant) is None:
            raise ConfigurationError(
                f"{VARIABLE}: the tenant of key {position} should have up to 63 characters, of a to z, 0 to 9, '.', "
                "'_' and '-'."
            )
        tenants[_hash_said(key, position)] = tenant
    if len(tenants) < len(said):
        raise ConfigurationError(f"{VARIABLE} has a key twice, as itself and as its hash: leave one.")
    return tenants


def hash_of(key: str) -> bytes:
    """Keys are long and random: a plain hash of such a thing cannot be turned back."""
    return hashlib.sha256(key.encode()).digest()


def _hash_said(key: str, position: int) -> bytes:
    hashed = _HASHED.fullmatch(key)
    if hashed is not None:
        return bytes.fromhex(hashed[1])
    if key.startswith("sha256:"):
        raise ConfigurationError(
            f"{VARIABLE}: key {position} should have 64 hex digits after sha256:, in small letters."
        )
    if _KEY.fullmatch(key) is None or not SHORTEST_KEY <= len(key) <= LONGEST_KEY:
        raise ConfigurationError(
            f"{VARIABLE}: key {position} should have {SHORTEST_KEY} to {LONGEST_KEY} visible ASCII characters, so that "
            "it is not found by trying; or be the hash of such a key, sha256:<64 hex digits>."
        )
    return hash_of(key)
