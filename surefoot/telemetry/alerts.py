"""What a person should know now: a log line, a metric and, if configured, a webhook.

An alert never gets in the way of the work it tells about: one task posts to the webhook, in the background. A flood of
alerts with one cause (every event of a missing topic) is logged and counted one by one, but posted once per interval.
"""

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx
import structlog
from prometheus_client import Counter

log = structlog.get_logger("surefoot.alert")
ALERTS = Counter("surefoot_alerts_total", "Alerts raised.", ["code"])
WEBHOOK_FAILURES = Counter("surefoot_alert_webhook_failures_total", "Alerts whose webhook never answered with success.")
WEBHOOK_DROPPED = Counter("surefoot_alert_webhook_dropped_total", "Alerts not posted: too many waited, or it stopped.")
WEBHOOK_TIMEOUT_S = 5.0
WEBHOOK_TRIES = 3
WEBHOOK_INTERVAL_S = 10.0
WEBHOOK_QUEUE = 1000


@dataclass(frozen=True, slots=True)
class Alert:
    code: str
    sentence: str
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Group:
    """Alerts that have one cause, and are mended together."""

    code: str
    topic: str
    reason: str


@dataclass(slots=True)
class _Pace:
    next_post_at: float = 0.0
    suppressed: int = 0
    """Alerts since the last post that were not posted."""


@dataclass(frozen=True, slots=True)
class _Post:
    alert: Alert
    suppressed: int


class Alerts:
    """Raises alerts. Close it to wait for webhooks under way."""

    def __init__(self, webhook: str | None = None, *, interval_s: float = WEBHOOK_INTERVAL_S) -> None:
        self._webhook = webhook
        self._interval_s = interval_s
        self._paces: defaultdict[_Group, _Pace] = defaultdict(_Pace)
        self._waiting: asyncio.Queue[_Post] = asyncio.Queue(WEBHOOK_QUEUE)
        self._worker: asyncio.Task[None] | None = None
        self._client: httpx.AsyncClient | None = None

    async def raise_alert(self, alert: Alert) -> None:
        ALERTS.labels(alert.code).inc()
        log.error(alert.sentence, alert=alert.code, **alert.details)
        if self._webhook is not None:
            self._enqueue(alert)
            if self._worker is None:
                self._worker = asyncio.create_task(self._work(self._webhook))

    async def close(self) -> None:
        worker = self._worker
        if worker is None:
            return
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WEBHOOK_TIMEOUT_S):
                    await self._waiting.join()
        finally:
            worker.cancel()
            await asyncio.wait([worker])
            self._worker = None
            self._drop_waiting()
            client, self._client = self._client, None
            if client is not None:
                await client.aclose()

    def _enqueue(self, alert: Alert) -> None:
        """Hand the alert to the worker, unless one of its group was, a moment ago."""
        pace = self._paces[_Group(alert.code, alert.details.get("topic", ""), alert.details.get("reason", ""))]
        now = time.monotonic()
        if now < pace.next_post_at:
            pace.suppressed += 1
            return
        try:
            self._waiting.put_nowait(_Post(alert, pace.suppressed))
        except asyncio.QueueFull:
            # The pace stays as it is: the group's next alert is posted if there is room by then, and tells of this one.
            pace.suppressed += 1
            WEBHOOK_DROPPED.inc()
            return
        pace.next_post_at, pace.suppressed = now + self._interval_s, 0

    def _drop_waiting(self) -> None:
        count = self._waiting.qsize()
        if count:
            WEBHOOK_DROPPED.inc(count)
            log.warning("stopped before the alert webhook took them", alerts=count)
            self._waiting = asyncio.Queue(WEBHOOK_QUEUE)

    async def _work(self, webhook: str) -> None:
        while True:
            post = await self._waiting.get()
            try:
                await self._post(webhook, post)
            except asyncio.CancelledError:
                WEBHOOK_DROPPED.inc()
                raise
            finally:
                self._waiting.task_done()

    async def _post(self, webhook: str, post: _Post) -> None:
        alert = post.alert
        body = {
            "code": alert.code,
            "sentence": alert.sentence,
            "details": dict(alert.details),
            "suppressed": post.suppressed,
        }
        for attempt in range(WEBHOOK_TRIES):
            try:
                async with asyncio.timeout(WEBHOOK_TIMEOUT_S):  # httpx bounds each read, not a body that trickles in
                    response = await (await self._connected()).post(webhook, json=body)
                response.raise_for_status()
            except (
                Exception
            ) as error:  # whatever it is (a bad URL, a bad certificate file), the next alert gets its try
                said = str(error) or type(error).__name__
                log.warning("the alert webhook did not take it", alert=alert.code, error=said, attempt=attempt + 1)
                await asyncio.sleep(2**attempt)
            else:
                return
        WEBHOOK_FAILURES.inc()

    async def _connected(self) -> httpx.AsyncClient:
        if self._client is None:
            # In a thread: reading the certificate authorities takes tens of milliseconds, even for an http:// URL.
            self._client = await asyncio.to_thread(httpx.AsyncClient, timeout=WEBHOOK_TIMEOUT_S)
        return self._client
