"""Who a request comes from: a person, or somebody who is not let in."""

from surefoot.audit.jwts import Jwts
from surefoot.audit.key_sets import KeysAway, key_source
from surefoot.audit.people import Person
from surefoot.audit.refusals import Refusal
from surefoot.audit.settings import AccessSettings
from surefoot.audit.tokens import ANYBODY, PREFIX, Tokens
from surefoot.database.connection import Pool, close_quietly, connect
from surefoot.errors import ConfigurationError
from surefoot.http.listening import refuse_others

LONGEST_HEADER = 20_000


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
        if authorization is None or not authorization.strip():
            return Refusal("no_token", "Say who you are: Authorization: Bearer <token>.")
        scheme, _, token = authorization.strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > LONGEST_HEADER or not token.isascii():
            return Refusal("not_a_token", "This says nobody's name in a way known here: Authorization: Bearer <token>.")
        if token.startswith(PREFIX):
            async with pool.acquire() as connection:
                return await Tokens(connection, schema).whose(token)
        if self._jwts is None:
            return Refusal("not_accepted", "Tokens of this kind are not accepted here: no issuer is configured.")
        try:
            return await self._jwts.whose(token)
        except KeysAway as error:
            return Refusal("keys_away", str(error))


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


def _jwts(settings: AccessSettings) -> Jwts | None:
    keys = key_source(settings)
    if keys is None:
        return None
    assert settings.jwt_audience is not None
    assert settings.jwt_issuer is not None
    return Jwts(
        keys,
        audience=settings.jwt_audience,
        issuer=settings.jwt_issuer,
        role_claim=settings.jwt_role_claim,
        name_claim=settings.jwt_name_claim,
        leeway=settings.jwt_leeway,
    )
