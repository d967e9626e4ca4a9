"""What stands before an app: who asks is found out before anything else of a request is looked at, and a body that is
too large is refused before anything reads it. What is said in headers is checked here.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from surefoot.http.listening import LOOPBACK

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request

JSON = "application/json"
NOT_JSON = f"The body must be JSON, and say so: Content-Type: {JSON}."
RefusalReason = Literal[
    "no_token",
    "not_a_token",
    "unknown_token",
    "expired",
    "revoked",
    "no_role",
    "bad_signature",
    "wrong_audience",
    "wrong_issuer",
    "not_valid",
    "not_accepted",
    "keys_away",
]
"""In a word, for metrics and the audit log."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Not let in. The sentence never quotes the token."""

    reason: RefusalReason
    sentence: str


def said_authorization(request: "Request", *, is_open: bool, service: str) -> str | Refusal | None:
    """The value of the Authorization header. `is_open`: no token is needed, on this machine alone."""
    if is_open and (request.url.hostname or "") not in LOOPBACK:
        # A name that was made to point here, in somebody's browser, is no way in.
        return Refusal("not_accepted", f"This {service} is open on its own machine alone: ask it as 127.0.0.1.")
    said = request.headers.getlist("authorization")
    if len(said) > 1:
        return Refusal("not_a_token", "Say who you are once: there is more than one Authorization header.")
    return said[0] if said else None


def bearer_token(authorization: str | None, *, called: str, longest: int) -> str | Refusal:
    """The token in the value of the header; `called` is the app's word for it."""
    if authorization is None or not authorization.strip():
        return Refusal("no_token", f"Say who you are: Authorization: Bearer <{called}>.")
    scheme, _, token = authorization.strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > longest or not token.isascii():
        sentence = f"This says nobody's name in a way known here: Authorization: Bearer <{called}>."
        return Refusal("not_a_token", sentence)
    return token


Authenticate = Callable[[Scope], Awaitable[ASGIApp | None]]
"""Puts who asks into the scope's state; or gives the answer to a request that is not let in."""


class BearerAuth:
    """Middleware. A path that `is_public` needs no token: it guards itself, or tells nothing of anybody. Every answer
    gets those of the `headers` that it does not have itself."""

    def __init__(
        self,
        app: ASGIApp,
        authenticate: Authenticate,
        is_public: Callable[[str], bool],
        headers: Mapping[str, str],
    ) -> None:
        self._app = app
        self._authenticate = authenticate
        self._is_public = is_public
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            send = self._with_headers(send)
            refused = None if self._is_public(scope["path"]) else await self._authenticate(scope)
            await (self._app if refused is None else refused)(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})  # nothing we have

    def _with_headers(self, send: Send) -> Send:
        async def also(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = list(message.get("headers", []))
                named = {name.lower() for name, _ in kept}
                message = {**message, "headers": [*kept, *(one for one in self._headers if one[0] not in named)]}
            await send(message)

        return also


def require_bearer(
    app: "FastAPI",
    authenticate: Authenticate,
    is_public: Callable[[str], bool],
    headers: Mapping[str, str],
    scheme: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Put `BearerAuth` before the app, and say so in its OpenAPI document; `scheme` are further members of what is said
    there."""
    app.add_middleware(BearerAuth, authenticate=authenticate, is_public=is_public, headers=headers)
    written = app.openapi

    def described() -> dict[str, Any]:
        document = written()
        schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes["bearer"] = {"type": "http", "scheme": "bearer", **scheme}
        for path, operations in document["paths"].items():
            for operation in operations.values():
                operation["security"] = [] if is_public(path) else [{"bearer": []}]
        return document

    app.openapi = described  # type: ignore[method-assign]


def too_large(most_bytes: int) -> str:
    return (
        f"The request's body is larger than {most_bytes // 1024} KiB, which nothing that can be asked for here is. "
        "Nothing was changed by it; ask for less at once."
    )


class BodyLimit:
    """Middleware; `refusal` is the answer to a body that is too large: none is kept in memory without a bound.

    What says its length is refused at once. What does not (a chunked body) is counted as it comes, and refused at the
    first byte too many. The app is asked only when the whole body is there."""

    def __init__(self, app: ASGIApp, refusal: ASGIApp, most_bytes: int) -> None:
        self._app = app
        self._refusal = refusal
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif _said_length(scope) > self._most_bytes or (body := await _read(receive, self._most_bytes)) is None:
            await self._refusal(scope, receive, send)
        else:
            await self._app(scope, _first(body, receive), send)


def _said_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


async def _read(receive: Receive, most_bytes: int) -> Message | None:
    """The whole body as one message, or that the sender has gone; None if it is too large."""
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return message
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most_bytes:
            return None
        more = message.get("more_body", False)
    return {"type": "http.request", "body": b"".join(parts), "more_body": False}


def _first(message: Message, receive: Receive) -> Receive:
    """As `receive`, but this message comes first."""
    waiting = [message]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_again


def says_json(request: "Request") -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == JSON
