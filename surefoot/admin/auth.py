"""The door: nothing is looked at before it is known who asks. Then so much a second, and bodies of bounded size.

What is open (whether the service is well) is named here, and everything else needs a token, also what is not there.
"""

from typing import Any

import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from surefoot.admin.limits import Buckets
from surefoot.admin.refusing import Refusals
from surefoot.audit.access import Access
from surefoot.audit.people import Person, Refusal
from surefoot.audit.settings import LOOPBACK
from surefoot.database.connection import DRIVER_ERRORS, Pool, explain, is_outage
from surefoot.errors import SurefootError
from surefoot.http.problems import problem

log = structlog.get_logger("surefoot.dlq.http")
SECURITY = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
"""With every answer: it is data, for whoever asked, and not to be kept, guessed at, framed or run."""


class Door:
    """Middleware. `state` is the app's: it has the database from when the app has started."""

    def __init__(self, app: ASGIApp, url: str, schema: str, access: Access, state: Any, opened: frozenset[str]) -> None:
        self._app = app
        self._url = url
        self._schema = schema
        self._access = access
        self._state = state
        self._open = opened
        limits = access.settings
        self._buckets = Buckets(limits.requests_per_second, limits.requests_at_once)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, _with_security(send))
        else:
            await send({"type": "websocket.close", "code": 1008})  # nothing we have

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        if scope["path"] in self._open:
            await self._app(scope, receive, send)
            return
        try:
            who = await self._who(request)
        except (*DRIVER_ERRORS, SurefootError) as error:
            ours = error if isinstance(error, SurefootError) else explain(error, self._url)
            log.warning("who asks cannot be found out", error=str(ours))
            told = "It cannot be found out now who you are: the database does not answer. Try again in a while."
            await problem(503, told, {"Retry-After": "1"} if is_outage(error) else None)(scope, receive, send)
            return
        refusals: Refusals = self._state.refusals
        if isinstance(who, Refusal):
            await (await _turned_away(refusals, request, who))(scope, receive, send)
            return
        request.state.person = who
        wait_s = self._buckets.take(who.name)
        if wait_s:
            told = f"{who.name} asks more often than one person may: ask again in {wait_s} s."
            refused = await refusals.refuse(
                request, 429, told, reason="rate", headers={"Retry-After": str(wait_s)}, sparingly=True
            )
            await refused(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _who(self, request: Request) -> Person | Refusal:
        if self._access.is_open and (request.url.hostname or "") not in LOOPBACK:
            # A name that was made to point here, in somebody's browser, is no way in.
            return Refusal("not_accepted", "This service is open on its own machine alone: ask it as 127.0.0.1.")
        said = request.headers.getlist("authorization")
        if len(said) > 1:
            return Refusal("not_a_token", "Say who you are once: there is more than one Authorization header.")
        pool: Pool = self._state.pool
        return await self._access.who(said[0] if said else None, pool, self._schema)


async def _turned_away(refusals: Refusals, request: Request, refusal: Refusal) -> ASGIApp:
    if refusal.reason == "keys_away":
        return problem(503, refusal.sentence, {"Retry-After": "5"})
    return await refusals.refuse(
        request,
        401,
        refusal.sentence,
        reason=refusal.reason,
        headers={"WWW-Authenticate": 'Bearer realm="surefoot dlq"'},
        sparingly=True,
    )


def _with_security(send: Send) -> Send:
    async def also(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = list(message.get("headers", []))
            named = {name.lower() for name, _ in kept}
            added = [(name.lower().encode(), value.encode()) for name, value in SECURITY.items()]
            message = {**message, "headers": [*kept, *(one for one in added if one[0] not in named)]}
        await send(message)

    return also
