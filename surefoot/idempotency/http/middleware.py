"""`Idempotency`: the ASGI middleware. Any framework's app goes into it.

    app.add_middleware(Idempotency, store=store, tenant=tenant_of)

It claims nothing by itself: it lets the framework route, authenticate and validate, and gives idempotent handlers the
exchange they work in. What the framework refuses before that passes through and is never stored. From the claim on the
response is held back until it is durable; and an answer of the layer's own goes out at once, whatever the framework
makes of the exception that ends the handler.

Requests with a key are worked on to their end, also when their client has left. A process that is to end waits for
them first. What is cut off all the same is taken over by others, later.
"""

import asyncio
from collections.abc import Collection, Coroutine
from contextvars import ContextVar
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from surefoot.errors import ConfigurationError
from surefoot.failpoints import failpoint
from surefoot.idempotency import metrics
from surefoot.idempotency.deciding import BODILESS_STATUSES, sent_headers, with_length
from surefoot.idempotency.http.problems import ProblemPages, Problems
from surefoot.idempotency.request.waiting import Absence, Flights
from surefoot.idempotency.request.work import SCOPE_KEY, Interrupted, Layer, Response, Resumed, TenantOf, Work, is_ours
from surefoot.idempotency.settings import IdempotencySettings
from surefoot.idempotency.store import Store
from surefoot.idempotency.upkeep.alerts import MismatchWatch
from surefoot.idempotency.values import Answer
from surefoot.telemetry.alerts import Alerts

log = structlog.get_logger("surefoot.idempotency")
KEY_HEADER = b"idempotency-key"
UNTOUCHED_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
REQUEST_HEADERS = frozenset({"accept", "accept-language", "content-encoding", "content-type", "host"})
"""Of a request with an outside effect, what is stored to make it again."""
CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key", "idempotency-key"})
UNHELD_EXTENSIONS = frozenset({"http.response.pathsend", "http.response.zerocopysend", "http.response.trailers"})
"""Ways of answering that pass us by. A server that has them is not believed so, for requests with a key."""


class Exchange:
    """One HTTP request on its way through the layer: what was sent, who works on it, and what is sent back."""

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


def _raw_path(scope: Scope) -> str:
    """The path as it was sent, as far as the server tells."""
    raw: bytes | None = scope.get("raw_path")
    return quote(scope["path"]) if not raw else raw.partition(b"?")[0].decode("latin-1")


async def _nowhere(message: Message) -> None:
    """Where messages go when nobody listens."""


class Running:
    """The requests that are under way in this process."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        metrics.RUNNING.inc()
        task.add_done_callback(self._ended)
        return task

    async def drained(self, within: timedelta) -> int:
        """Wait for what is under way; how many of them are not over by then."""
        if self._tasks:
            log.info("waiting for requests that are under way", requests=len(self._tasks))
            await asyncio.wait(self._tasks, timeout=within.total_seconds())
        return len(self._tasks)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        metrics.RUNNING.dec()


def report(task: asyncio.Task[None]) -> None:
    """For a task that nobody waits for any more: what it raised is told."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a request whose client had left failed", error=type(error).__name__, exc_info=error)


class Idempotency:
    """`tenant` says whose request it is (see `TenantOf`), `keep_headers` which headers a handler needs besides the
    usual ones when its request is made again (never credentials: see `resumed_tenant`)."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        store: Store,
        tenant: TenantOf,
        settings: IdempotencySettings | None = None,
        alerts: Alerts | None = None,
        running: Running | None = None,
        keep_headers: Collection[str] = (),
        drain_within: timedelta | None = None,
    ) -> None:
        settings = settings or IdempotencySettings()
        alerts = alerts or Alerts()
        self._app = app
        self._pages = ProblemPages(settings.docs)
        self.running = Running() if running is None else running
        self._drain_within = drain_within or settings.call_timeout
        self._layer = Layer(
            store=store,
            settings=settings,
            problems=Problems(settings),
            tenant_of=tenant,
            flights=Flights(store, settings),
            alerts=alerts,
            mismatches=MismatchWatch(alerts),
            absence=Absence(),
            request_headers=REQUEST_HEADERS | _without_credentials(keep_headers),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, self._draining(receive), send)
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["method"] in UNTOUCHED_METHODS:
            page = self._pages.find(scope)
            await (self._app if page is None else page)(scope, receive, send)
        else:
            await self._exchanged(Exchange(self._layer, scope, receive, send))

    async def _exchanged(self, exchange: Exchange) -> None:
        if not exchange.is_protected:
            await self._run(exchange)
            return
        _hold_answers(exchange.scope)
        task = self.running.start(self._run(exchange))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                exchange.leave()
                task.add_done_callback(report)
            raise

    async def _run(self, exchange: Exchange) -> None:
        token = current.set(exchange)
        try:
            await self._app(exchange.scope, exchange.receive, exchange.send)
            exchange.ended()
        except BaseException as error:
            if not await exchange.broke(error):
                raise
        finally:
            current.reset(token)

    def _draining(self, receive: Receive) -> Receive:
        async def receive_drained() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":  # the app is about to close what requests under way need
                await self.running.drained(self._drain_within)
            return message

        return receive_drained


def _hold_answers(scope: Scope) -> None:
    extensions = scope.get("extensions")
    if extensions and not UNHELD_EXTENSIONS.isdisjoint(extensions):
        scope["extensions"] = {name: value for name, value in extensions.items() if name not in UNHELD_EXTENSIONS}


def _without_credentials(names: Collection[str]) -> frozenset[str]:
    wanted = frozenset(name.lower() for name in names)
    if wanted & CREDENTIALS:
        raise ConfigurationError(
            f"{', '.join(sorted(wanted & CREDENTIALS))} cannot be kept with a request: credentials are not stored. Let "
            "the app's authentication ask resumed_tenant(scope) whose request is made again."
        )
    return wanted
