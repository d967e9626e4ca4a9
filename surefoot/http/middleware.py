"""Requests that are too large are refused before anybody reads them: a body is never kept in memory without a bound.

What says its length is refused at once. What does not (a chunked body) is counted as it comes, and refused at the first
byte too many. The app is asked only when the whole body is there.
"""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


def too_large(most_bytes: int) -> str:
    return (
        f"The request's body is larger than {most_bytes // 1024} KiB, which nothing that can be asked for here is. "
        "Nothing was changed by it; ask for less at once."
    )


class BodyLimit:
    """Middleware; `refusal` is what those who send too much are answered by."""

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
