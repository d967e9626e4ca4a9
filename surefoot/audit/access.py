"""Who a request comes from: a person, or somebody who is not let in. By a local token, or by a JWT of an issuer.

    made = await Tokens(connection, schema).create("Ada", "OPERATOR", lifetime=timedelta(days=30), by="root")
    made.token  # sft_…, to be handed over

Local tokens are for teams without an issuer of their own. Only a token's hash is kept; the token is shown once. They
are random, 32 bytes: a plain SHA-256 of such a thing cannot be turned back, and can be looked up.
"""

import hashlib
import secrets
import unicodedata
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, get_args
from uuid import UUID

from uuid_utils.compat import uuid7

from surefoot.audit.people import Person, Role
from surefoot.audit.record import Act, record
from surefoot.audit.settings import AccessSettings
from surefoot.database.connection import Connection, Pool, close_quietly, connect
from surefoot.database.schema import checked_schema
from surefoot.errors import ConfigurationError, SurefootError
from surefoot.events.text import has_forbidden
from surefoot.http.listening import refuse_others
from surefoot.http.middleware import Refusal, bearer_token

if TYPE_CHECKING:
    from surefoot.audit.jwts import Jwts

LONGEST_HEADER = 20_000
PREFIX = "sft_"
BYTES = 32
LONGEST_NAME = 200
LONGEST_LIFETIME = timedelta(days=366)
ANONYMOUS = "anonymous"
"""The audit log's word for somebody nobody knows."""
ANYBODY = "anybody"
"""Whoever reaches a service that was started open."""
RESERVED = (ANONYMOUS, ANYBODY, "surefoot")
"""Names that the audit log has for what is no person; the last is what the service does by itself."""


class Access:
    def __init__(self, settings: AccessSettings, *, open_: bool = False) -> None:
        self.settings = settings
        self.is_open = open_
        """Whoever reaches it may do everything, as one and the same person: nobody could approve a discard."""
        self._jwts = _jwts(settings)

    async def who(self, authorization: str | None, pool: Pool, schema: str) -> Person | Refusal:
        """By the value of the Authorization header. While the database is away its error is raised: nobody gets in."""
        if self.is_open:
            return Person(ANYBODY, "SUPER_ADMIN")
        token = bearer_token(authorization, called="token", longest=LONGEST_HEADER)
        if isinstance(token, Refusal):
            return token
        if token.startswith(PREFIX):
            async with pool.acquire() as connection:
                return await Tokens(connection, schema).whose(token)
        if self._jwts is None:
            return Refusal("not_accepted", "Tokens of this kind are not accepted here: no issuer is configured.")
        return await self._jwts.whose(token)


def _jwts(settings: AccessSettings) -> "Jwts | None":
    if not settings.accepts_jwt:
        return None
    from surefoot.audit.jwts import jwts_of  # PyJWT and httpx take their time to load: local tokens go without

    return jwts_of(settings)


async def check_access(url: str, schema: str, settings: AccessSettings, *, host: str, open_: bool) -> Access:
    """Whether the service may be started like this: not if it would be open to strangers, and not if to nobody.

    Open means: without tokens, to whoever reaches it, at an address of this machine alone."""
    if open_:
        refuse_others(
            host,
            "without tokens whoever reaches the service could replay and discard. --open goes with a loopback address "
            "only: 127.0.0.1.",
        )
        return Access(settings, open_=True)
    access = Access(settings)
    if not settings.accepts_jwt and not await _has_tokens(url, schema):
        raise ConfigurationError(
            "Nobody could use the service: no issuer of JWTs is configured (SUREFOOT_DLQ_JWT_JWKS, _JWT_PUBLIC_KEY or "
            "_JWT_SECRET), and there is no local token. Make one with `surefoot dlq token create`; or say --open, on "
            "this machine alone."
        )
    return access


async def _has_tokens(url: str, schema: str) -> bool:
    connection = await connect(url, name="surefoot dlq access")
    try:
        return await Tokens(connection, schema).any_usable()
    finally:
        await close_quietly(connection)


class NoSuchToken(SurefootError):
    def __init__(self, token_id: object) -> None:
        super().__init__(f"There is no token {token_id} that could be revoked: look at the id.")


@dataclass(frozen=True, slots=True)
class TokenMade:
    id: UUID
    token: str
    """Nowhere else: whoever loses it gets a new one."""
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class TokenLine:
    id: UUID
    person: str
    role: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None
    is_usable: bool


class Tokens:
    """The verbs over `admin_tokens`. Those that write run in the caller's transaction, and are recorded in it."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._schema = checked_schema(schema)
        self._table = f"{self._schema}.admin_tokens"

    async def create(self, person: str, role: Role, *, lifetime: timedelta, by: str, reason: str = "") -> TokenMade:
        name = checked_name(person)
        if name is None:
            raise ConfigurationError(
                f"{person!r} cannot be the name of a person: up to {LONGEST_NAME} characters, none of them invisible, "
                f"and none of {', '.join(RESERVED)}."
            )
        if role not in get_args(Role):
            raise ConfigurationError(f"{role!r} is no role: take one of {', '.join(get_args(Role))}.")
        if not timedelta(0) < lifetime <= LONGEST_LIFETIME:
            raise ConfigurationError(f"A token is good for up to {LONGEST_LIFETIME.days} days, and not for {lifetime}.")
        token_id, token = uuid7(), PREFIX + secrets.token_urlsafe(BYTES)
        expires_at: datetime = await self._connection.fetchval(
            f"""INSERT INTO {self._table} (id, person, role, token_hash, expires_at)
                VALUES ($1::uuid, $2::text, $3::text, $4::bytea, now() + $5::interval) RETURNING expires_at""",
            token_id,
            name,
            role,
            hash_of(token),
            lifetime,
        )
        details = {"person": name, "role": role, "expires_at": expires_at.isoformat()}
        await record(self._connection, self._schema, Act(by, "token_made", "done", str(token_id), reason, details))
        return TokenMade(token_id, token, expires_at)

    async def revoke(self, token_id: UUID, *, by: str, reason: str = "") -> None:
        """From now on it opens nothing. Revoking twice changes nothing."""
        row = await self._connection.fetchrow(
            f"""UPDATE {self._table} SET revoked_at = coalesce(revoked_at, now()) WHERE id = $1::uuid
                RETURNING person, role""",
            token_id,
        )
        if row is None:
            raise NoSuchToken(token_id)
        details = {"person": row["person"], "role": row["role"]}
        await record(self._connection, self._schema, Act(by, "token_revoked", "done", str(token_id), reason, details))

    async def list(self) -> list[TokenLine]:
        rows = await self._connection.fetch(
            f"""SELECT id, person, role, created_at, expires_at, revoked_at,
                    revoked_at IS NULL AND expires_at > now() AS is_usable
                FROM {self._table} ORDER BY id"""
        )
        return [TokenLine(*(row[place] for place in range(len(row)))) for row in rows]

    async def any_usable(self) -> bool:
        found: bool = await self._connection.fetchval(
            f"SELECT EXISTS (SELECT 1 FROM {self._table} WHERE revoked_at IS NULL AND expires_at > now())"
        )
        return found

    async def whose(self, token: str) -> Person | Refusal:
        row = await self._connection.fetchrow(
            f"""SELECT person, role, revoked_at IS NOT NULL AS is_revoked, expires_at <= now() AS is_expired
                FROM {self._table} WHERE token_hash = $1::bytea""",
            hash_of(token),
        )
        if row is None:
            return Refusal("unknown_token", "Nobody was given this token: look whether it was copied whole.")
        if row["is_revoked"]:
            return Refusal("revoked", "This token was revoked: ask for a new one.")
        if row["is_expired"]:
            return Refusal("expired", "This token has expired: ask for a new one.")
        if row["role"] not in get_args(Role):
            return Refusal("no_role", "This token gives no role that is known here: ask for a new one.")
        return Person(row["person"], row["role"])


def hash_of(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def checked_name(name: object) -> str | None:
    """The name that decisions are kept under; None if it is none. Two that look alike should not be two people, who
    could approve what the other asked for: it is kept composed, and without spaces around it."""
    if not isinstance(name, str):
        return None
    kept = unicodedata.normalize("NFC", name).strip()
    if not kept or len(kept) > LONGEST_NAME or has_forbidden(kept) or kept.casefold() in RESERVED:
        return None
    return kept
