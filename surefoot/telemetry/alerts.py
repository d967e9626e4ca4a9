"""What a person should know now: a log line, a metric and, if configured, a webhook.

An alert never gets in the way of the work it tells about: one task posts to the webhook, in the background. A flood of
alerts with one cause (every event of a missing topic) is logged and counted one by one, but posted once per interval.
"""

import asyncio
import contextlib
import time
import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog
from prometheus_client import Counter

from surefoot.telemetry.webhook import Webhook, body_of

if TYPE_CHECKING:
    import httpx

log = structlog.get_logger("surefoot.alert")
ALERTS = Counter("surefoot_alerts_total", "Alerts raised.", ["code"])
WEBHOOK_FAILURES = Counter("surefoot_alert_webhook_failures_total", "Alerts whose webhook never answered with success.")
WEBHOOK_DROPPED = Counter("surefoot_alert_webhook_dropped_total", "Alerts not posted: too many waited, or it stopped.")
WEBHOOK_TIMEOUT_S = 5.0
WEBHOOK_TRIES = 3
WEBHOOK_INTERVAL_S = 10.0
WEBHOOK_QUEUE = 1000
MOST_PACES = 10_000


@dataclass(frozen=True, slots=True)
class Alert:
    code: str
    sentence: str
    details: Mapping[str, str] = field(default_factory=dict)
    cause: str = ""
    """Sets it apart from others of its code, topic and reason: they are not mended together."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Alerts that have one cause, and are mended together."""

    code: str
    topic: str
    reason: str
    cause: str


@dataclass(slots=True)
class _Pace:
    next_post_at: float = 0.0
    suppressed: int = 0
    """Alerts since the last post that were not posted."""


@dataclass(frozen=True, slots=True)
class _Post:
    alert: Alert
    suppressed: int
    message_id: str = field(default_factory=lambda: f"msg_{uuid.uuid4().hex}")
    """The same for each try: a receiver that took it, and whose answer was lost, knows it again."""


class Alerts:
    """Raises alerts. Close it to wait for webhooks under way."""

    def __init__(self, webhook: str | Webhook | None = None, *, interval_s: float = WEBHOOK_INTERVAL_S) -> None:
        self._webhook = Webhook(webhook) if isinstance(webhook, str) else webhook
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
        now = time.monotonic()
        if len(self._paces) > MOST_PACES:
            self._forget_paces(now)
        details = alert.details
        pace = self._paces[_Group(alert.code, details.get("topic", ""), details.get("reason", ""), alert.cause)]
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

    def _forget_paces(self, now: float) -> None:
        """Those that may post again, and have nothing left to tell."""
        for group, pace in list(self._paces.items()):
            if now >= pace.next_post_at and not pace.suppressed:
                del self._paces[group]

    def _drop_waiting(self) -> None:
        count = self._waiting.qsize()
        if count:
            WEBHOOK_DROPPED.inc(count)
            log.warning("stopped before the alert webhook took them", alerts=count)
            self._waiting = asyncio.Queue(WEBHOOK_QUEUE)

    async def _work(self, webhook: Webhook) -> None:
        while True:
            post = await self._waiting.get()
            try:
                await self._post(webhook, post)
            except asyncio.CancelledError:
                WEBHOOK_DROPPED.inc()
                raise
            finally:
                self._waiting.task_done()

    async def _post(self, webhook: Webhook, post: _Post) -> None:
        alert = post.alert
        body = body_of(
            webhook.shape,
            code=alert.code,
            sentence=alert.sentence,
            details=alert.details,
            suppressed=post.suppressed,
        )
        for attempt in range(WEBHOOK_TRIES):
            try:
                async with asyncio.timeout(WEBHOOK_TIMEOUT_S):  # httpx bounds each read, not a body that trickles in
                    client = await self._connected()
                    headers = webhook.headers(body, message_id=post.message_id, at=int(time.time()))
                    response = await client.post(webhook.url, content=body, headers=headers)
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

    async def _connected(self) -> "httpx.AsyncClient":
        if self._client is None:
            self._client = await asyncio.to_thread(_new_client)
        return self._client


def _new_client() -> "httpx.AsyncClient":
    """Runs in a thread: httpx, and the certificate authorities, also for an http:// URL, take long to load."""
    import httpx

    return httpx.AsyncClient(timeout=WEBHOOK_TIMEOUT_S)
