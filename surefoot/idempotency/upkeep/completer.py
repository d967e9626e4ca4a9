"""Goes on with requests that were abandoned: their process died, or the outcome of a call was not known.

Each is made again against the app in this process, from its recovery point, under its provider key and for the tenant
it was first made for. A request that somebody works on is left alone: its lease is alive, and a client that retries has
a moment (the grace) to be faster.
"""

import asyncio
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import structlog
from starlette.types import ASGIApp, Message, Scope

from surefoot.errors import words_of
from surefoot.idempotency import metrics
from surefoot.idempotency.request.work import SCOPE_KEY, Resumed
from surefoot.idempotency.settings import IdempotencySettings
from surefoot.idempotency.store import Store
from surefoot.idempotency.upkeep.alerts import say_exhausted
from surefoot.idempotency.upkeep.service import Upkeep
from surefoot.idempotency.values import Answered, Claim, FenceLost, StoreAway, StoredRequest, Unknown
from surefoot.retry import backoff
from surefoot.telemetry.alerts import Alert, Alerts

log = structlog.get_logger("surefoot.idempotency")
CONCURRENCY = 8
FIRST_REDIRECT = 300
LONGEST_OUTAGE_REST = timedelta(seconds=30)


class Completer(Upkeep):
    """`app` is the one that has the Idempotency middleware. Its authentication asks `resumed_tenant(scope)`; `state` is
    what the server would have given it from its lifespan."""

    def __init__(
        self,
        app: ASGIApp,
        store: Store,
        settings: IdempotencySettings,
        *,
        alerts: Alerts | None = None,
        concurrency: int = CONCURRENCY,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        every = settings.complete_every
        super().__init__("completer", metrics.COMPLETER_OUTAGES, shortest=every, longest=LONGEST_OUTAGE_REST)
        self._app = app
        self._store = store
        self._settings = settings
        self._alerts = alerts or Alerts()
        self._concurrency = concurrency
        self._state = state or {}
        self._under_way: dict[bytes, asyncio.Task[None]] = {}
        self._left_until: dict[bytes, float] = {}
        """What could not be taken over, and until when it is left alone."""

    async def round(self) -> timedelta:
        await self.start_overdue()
        self.store_away.over()
        return self._settings.complete_every

    async def close(self) -> None:
        """Finish what is under way."""
        await self.settled()

    async def start_overdue(self) -> int:
        """Begin with what is overdue, as far as there is room; how many that are."""
        room = self._concurrency - len(self._under_way)
        if room <= 0:
            return 0
        now = time.monotonic()
        self._left_until = {key_hash: until for key_hash, until in self._left_until.items() if until > now}
        # Some of the first may be under way here already, or left alone, and must not hide those behind them.
        found = await self._store.overdue(self._concurrency + len(self._left_until), self._settings.grace)
        aside = self._under_way.keys() | self._left_until.keys()
        new = [key_hash for key_hash in found if key_hash not in aside][:room]
        for key_hash in new:
            task = asyncio.create_task(self._complete(key_hash), name=key_hash.hex())
            self._under_way[key_hash] = task
            task.add_done_callback(self._ended)
        return len(new)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(bytes.fromhex(task.get_name()), None)

    async def settled(self) -> None:
        """Wait for what is under way."""
        while self._under_way:
            await asyncio.wait(list(self._under_way.values()))

    async def _complete(self, key_hash: bytes) -> None:
        try:
            taken = await self._store.take_over(key_hash, self._settings.grace)
            if taken is None:  # somebody has it in hands
                self._leave(key_hash, self._settings.retry_first)
            else:
                await self._make_again(*taken)
        except StoreAway:
            metrics.COMPLETED.labels("away").inc()
        except FenceLost:
            metrics.COMPLETED.labels("lost").inc()
        except Exception as error:
            metrics.COMPLETED.labels("broken").inc()
            self._leave(key_hash, self._settings.retry_longest)
            await self._say_broken(key_hash, error)

    def _leave(self, key_hash: bytes, pause: timedelta) -> None:
        self._left_until[key_hash] = time.monotonic() + pause.total_seconds()

    async def _make_again(self, claim: Claim, request: StoredRequest) -> None:
        resumed = Resumed(claim, request)
        sender = _Sender(request)
        try:
            async with asyncio.timeout(self._settings.longest_lease.total_seconds()) as patience:
                await self._app(_scope(resumed, self._state), sender.receive, sender.send)
        except Exception as error:  # as from any handler; the layer has written it down
            if patience.expired():  # it hangs, and the claim is lost: others are not to wait for it
                self._leave(claim.asked.key_hash, self._settings.retry_longest)
            log.warning("a resumed request raised", route=claim.asked.route, error=type(error).__name__)
        if resumed.flight is None:
            metrics.COMPLETED.labels("refused").inc()
            await self._refused(claim, sender.status)
            return
        match resumed.flight.found:
            case Answered():
                metrics.COMPLETED.labels("answered").inc()
                log.info("an abandoned request was finished", route=claim.asked.route, attempt=claim.attempt)
            case Unknown():
                metrics.COMPLETED.labels("unknown").inc()
            case _:
                metrics.COMPLETED.labels("failed").inc()

    async def _refused(self, claim: Claim, status: int | None) -> None:
        """The app did not let it come as far as its handler, which it once did."""
        error = f"The app answered {status} before the handler, when the request was made again."
        log.warning("a resumed request was refused by the app", route=claim.asked.route, status=status)
        if status is not None and status < FIRST_REDIRECT:
            await self._say_unprotected(claim, status)
            await self._store.fail(claim, error=error, unknown=True, retry_in=None)
            return
        settings = self._settings
        rest = backoff(claim.attempt - 1, shortest=settings.retry_first, longest=settings.retry_longest)
        if await self._store.fail(claim, error=error, unknown=False, retry_in=rest):
            await say_exhausted(self._alerts, claim, error, None)

    async def _say_unprotected(self, claim: Claim, status: int) -> None:
        """It may have been done a second time, and would be again."""
        await self._alerts.raise_alert(
            Alert(
                "idempotency_completer",
                f"An abandoned request was made again and answered {status} by a handler that is not @idempotent any "
                "more. It is not made again: look what it did, and give the handler its protection back.",
                {"key_hash": claim.asked.key_hash.hex(), "route": claim.asked.route},
            )
        )

    async def _say_broken(self, key_hash: bytes, error: Exception) -> None:
        await self._alerts.raise_alert(
            Alert(
                "idempotency_completer",
                f"An abandoned request cannot be gone on with: {words_of(error)}",
                {"key_hash": key_hash.hex(), "error": type(error).__name__},
            )
        )


class _Sender:
    """The client's side of a request that is made again: it has sent everything, and listens to the status alone."""

    def __init__(self, request: StoredRequest) -> None:
        self._unsent = [request.body]
        self._is_answered = asyncio.Event()
        self.status: int | None = None

    async def receive(self) -> Message:
        if self._unsent:
            return {"type": "http.request", "body": self._unsent.pop(), "more_body": False}
        await self._is_answered.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self._is_answered.set()


def _scope(resumed: Resumed, state: Mapping[str, Any]) -> Scope:
    request = resumed.request
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers]
    headers.append((b"content-length", str(len(request.body)).encode()))
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(request.path),
        "raw_path": request.path.encode("latin-1"),
        "query_string": request.query.encode("latin-1"),
        "root_path": "",
        "headers": headers,
        "client": None,
        "server": None,
        "state": dict(state),
        SCOPE_KEY: resumed,
    }
