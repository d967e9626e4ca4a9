"""One HTTP request on its way through the layer: what was sent, who works on it, and what is sent back.

Until the handler starts, everything passes through as it comes. From the claim on the response is held back until it is
durable; and an answer of the layer's own goes out at once, whatever the framework makes of the exception that ends the
handler.
"""

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

import structlog
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from surefoot.failpoints import failpoint
from surefoot.idempotency.request.storing import BODILESS_STATUSES, sent_headers, with_length
from surefoot.idempotency.request.waiting import Flight
from surefoot.idempotency.request.work import Layer
from surefoot.idempotency.values import Answer, Claim, StoredRequest

log = structlog.get_logger("surefoot.idempotency")

SCOPE_KEY = "surefoot.idempotency"
KEY_HEADER = b"idempotency-key"


class Interrupted(HTTPException):
    """Ends a handler whose answer the layer gives. An HTTPException, because frameworks take those for granted."""


@dataclass(frozen=True, slots=True)
class Response:
    """What the app answered, whole."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    is_too_large: bool = False
    """Its body was larger than may be kept, and is not here."""


class Work(Protocol):
    """Whoever holds a claim, or a transaction, until the answer is there."""

    async def answered(self, response: Response) -> Answer | None:
        """Make it durable. None: the response may go out; otherwise this goes out in its place."""

    async def broke(self, error: BaseException) -> Answer | None:
        """The app raised. None: the error goes on to whoever answers for it."""


@dataclass(slots=True)
class Resumed:
    """A request that is made again by us, with the claim that was taken over for it."""

    claim: Claim
    request: StoredRequest
    flight: Flight | None = None
    """Set when the handler is reached: until then, the claim is still with whoever makes the request."""


class Exchange:
    def __init__(self, layer: Layer, scope: Scope, receive: Receive, send: Send) -> None:
        self.layer = layer
        self.scope = scope
        self.path = _raw_path(scope)
        self.root_path: str = scope.get("root_path", "")  # as it is now: routers below change it
        self.query: str = scope.get("query_string", b"").decode("latin-1")
        self.key_lines = [value for name, value in scope["headers"] if name == KEY_HEADER]
        self.resumed: Resumed | None = scope.get(SCOPE_KEY)
        self.work: Work | None = None
        self._is_recorded = bool(self.key_lines) or self.resumed is not None
        self._receive = receive
        self._send = send
        self._largest_body = layer.settings.largest_body
        self._body: list[bytes] = []
        self._body_size = 0
        self._is_read = False
        self._unread: list[Message] = []
        self._start: Message | None = None
        self._parts: list[bytes] = []
        self._parts_size = 0
        self._is_answered = False
        self._is_sent = asyncio.Event()

    @property
    def is_protected(self) -> bool:
        """Whether it is worked on to its end even if the client leaves."""
        return self._is_recorded

    def header(self, name: bytes) -> str | None:
        for found, value in self.scope["headers"]:
            if found == name:
                return str(value.decode("latin-1"))
        return None

    # -- the request --------------------------------------------------------------------------------------------------

    async def receive(self) -> Message:
        """As the server's, for the app. Once it is claimed, nobody in the app learns that the client has left."""
        if self._unread:
            return self._unread.pop(0)
        if self.work is not None and self._is_read:
            await self._is_sent.wait()
            return {"type": "http.disconnect"}
        return await self._received()

    async def read_body(self) -> bytes | None:
        """The whole body, whoever has read how much of it; None if it is too large."""
        while not self._is_read and self._body_size <= self._largest_body:
            message = await self._received()
            self._unread.append(message)
            if message["type"] == "http.disconnect":
                raise Interrupted(400, "The client left before its request was complete.")
        if self._body_size > self._largest_body:
            return None
        return b"".join(self._body)

    async def _received(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            if self._is_recorded:
                self._record(message.get("body", b""))
            self._is_read = not message.get("more_body", False)
        return message

    def _record(self, part: bytes) -> None:
        self._body_size += len(part)
        if self._body_size <= self._largest_body:
            self._body.append(part)
        else:
            self._body.clear()

    # -- the response -------------------------------------------------------------------------------------------------

    async def send(self, message: Message) -> None:
        """As the server's, for the app."""
        if self._is_answered:
            return
        if self.work is None:
            await self._send(message)
            return
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body":
            self._hold(message.get("body", b""))
            if not message.get("more_body", False):
                await self._answered(self.work)
        elif message["type"] == "http.response.debug":
            await self._send(message)

    async def give(self, answer: Answer) -> None:
        """Send this; what the app sends after it is dropped."""
        self._is_answered = True
        await self._sent(answer.status, sent_headers(answer), answer.body)

    def ended(self) -> None:
        """The app returned. One that has not answered by then will not."""
        if self.work is not None and not self._is_answered:
            raise RuntimeError("The app returned before its answer was complete.")

    async def broke(self, error: BaseException) -> bool:
        """The app raised this. Whether that is dealt with."""
        if self._is_answered:
            return is_ours(error)
        if self.work is None:
            return False
        self._is_answered = True
        try:
            answer = await self.work.broke(error)
        except Exception as trouble:  # the first error is the one to tell
            log.error("a failed request could not be written down", error=type(trouble).__name__)
            return False
        if answer is None:
            return False
        await self.give(answer)
        return is_ours(error)

    def leave(self) -> None:
        """Nobody listens any more: the work goes on, and nothing is sent."""
        self._send = _nowhere

    def _hold(self, part: bytes) -> None:
        self._parts_size += len(part)
        if self._parts_size <= self._largest_body:
            self._parts.append(part)
        else:
            self._parts.clear()

    async def _answered(self, work: Work) -> None:
        assert self._start is not None, "a body comes after a start"
        self._is_answered = True
        given = tuple((bytes(name), bytes(value)) for name, value in self._start.get("headers", ()))
        status, too_large = self._start["status"], self._parts_size > self._largest_body
        body = b"" if status in BODILESS_STATUSES else b"".join(self._parts)  # servers fail at one, when it is done
        response = Response(status, given, body, too_large)
        try:
            answer = await work.answered(response)
        except Exception:  # an error of the handler's that shows at the commit, perhaps; whoever logs errors sees it
            await self.give(self.layer.problems.failed())
            raise
        if answer is None:
            headers = with_length(response.status, response.headers, response.body)
            await self._sent(response.status, headers, response.body)
        else:
            await self.give(answer)

    async def _sent(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        try:
            await self._send({"type": "http.response.start", "status": status, "headers": headers})
            await self._send({"type": "http.response.body", "body": body, "more_body": False})
        except OSError as error:  # the client has left; what it asked for is done, and kept
            log.info("the client left before its answer", error=type(error).__name__)
        finally:
            self._is_sent.set()
        await failpoint("idempotency.sent")


current: ContextVar[Exchange | None] = ContextVar("surefoot.idempotency", default=None)


def is_ours(error: BaseException) -> bool:
    """Whether this is the end that the layer put to a handler, also where a framework has wrapped it."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_ours(inner) for inner in error.exceptions)
    return isinstance(error, Interrupted) or isinstance(error.__cause__, Interrupted)


def resumed_tenant(scope: Scope) -> str | None:
    """Whose request this is, if it is one that the layer makes again by itself; None for one that came from outside.

    For the app's authentication, which finds no credentials in such a request: they are not stored."""
    resumed = scope.get(SCOPE_KEY)
    return resumed.request.tenant if isinstance(resumed, Resumed) else None


def _raw_path(scope: Scope) -> str:
    """The path as it was sent, as far as the server tells."""
    raw: bytes | None = scope.get("raw_path")
    return quote(scope["path"]) if not raw else raw.partition(b"?")[0].decode("latin-1")


async def _nowhere(message: Message) -> None:
    """Where messages go when nobody listens."""
