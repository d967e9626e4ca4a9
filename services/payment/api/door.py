"""The door: nothing is looked at before it is known whose request it is. The tenant is in `request.state.tenant` then.

A request that the completer makes again has no key with it: its tenant is the one it was claimed for. Only the layer
itself can say so, because a scope does not come over the network.
"""

from collections.abc import Callable
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.payment.api.access import Access, Refusal
from services.payment.api.problems import answer

LOOPBACK = ("127.0.0.1", "::1", "localhost")
SECURITY = {
    b"cache-control": b"no-store",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
}
"""With every answer that says nothing else of it: it is data, for whoever asked."""
Resumed = Callable[[Scope], str | None]


class Door:
    """Middleware. `opened` are beginnings of paths that need no key: they guard themselves, or tell nothing."""

    def __init__(self, app: ASGIApp, access: Access, opened: tuple[str, ...], resumed: Resumed) -> None:
        self._app = app
        self._access = access
        self._opened = opened
        self._resumed = resumed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, _guarded(send))
        else:
            await send({"type": "websocket.close", "code": 1008})  # nothing we have

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith(self._opened):
            await self._app(scope, receive, send)
            return
        who = self._resumed(scope) or self._who(Request(scope))
        if isinstance(who, Refusal):
            refused = answer(
                HTTPStatus.UNAUTHORIZED,
                "not_let_in",
                who.sentence,
                headers={"WWW-Authenticate": 'Bearer realm="payments"'},
            )
            await refused(scope, receive, send)
            return
        scope.setdefault("state", {})["tenant"] = who
        await self._app(scope, receive, send)

    def _who(self, request: Request) -> str | Refusal:
        if self._access.is_open and (request.url.hostname or "") not in LOOPBACK:
            # A name that was made to point here, in somebody's browser, is no way in.
            return Refusal("This API is open on its own machine alone: ask it as 127.0.0.1.")
        said = Headers(scope=request.scope).getlist("authorization")
        if len(said) > 1:
            return Refusal("Say who you are once: there is more than one Authorization header.")
        return self._access.tenant_of(said[0] if said else None)


def tenant_in(scope: Scope) -> str:
    """Whose request it is, once it has come through the door."""
    tenant: str = scope["state"]["tenant"]
    return tenant


def _guarded(send: Send) -> Send:
    async def also(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = list(message.get("headers", []))
            named = {name.lower() for name, _ in kept}
            message = {**message, "headers": [*kept, *(one for one in SECURITY.items() if one[0] not in named)]}
        await send(message)

    return also
