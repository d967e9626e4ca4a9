"""What a person should know now: a log line, a metric and, if configured, a webhook.

An alert never gets in the way of the work it tells about: the webhook is tried a few times in the background.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx
import structlog
from prometheus_client import Counter

log = structlog.get_logger("surefoot.alert")
ALERTS = Counter("surefoot_alerts_total", "Alerts raised.", ["code"])
WEBHOOK_FAILURES = Counter("surefoot_alert_webhook_failures_total", "Alerts whose webhook never answered with success.")
WEBHOOK_TIMEOUT_S = 5.0
WEBHOOK_TRIES = 3


@dataclass(frozen=True, slots=True)
class Alert:
    code: str
    sentence: str
    details: Mapping[str, str] = field(default_factory=dict)


class Alerts:
    """Raises alerts. Close it to wait for webhooks under way."""

    def __init__(self, webhook: str | None = None) -> None:
        self._webhook = webhook
        self._posting: set[asyncio.Task[None]] = set()

    async def raise_alert(self, alert: Alert) -> None:
        ALERTS.labels(alert.code).inc()
        log.error(alert.sentence, alert=alert.code, **alert.details)
        if self._webhook is not None:
            task = asyncio.create_task(self._post(self._webhook, alert))
            self._posting.add(task)
            task.add_done_callback(self._posting.discard)

    async def close(self) -> None:
        if self._posting:
            await asyncio.wait(self._posting, timeout=WEBHOOK_TIMEOUT_S)

    async def _post(self, webhook: str, alert: Alert) -> None:
        body = {"code": alert.code, "sentence": alert.sentence, "details": dict(alert.details)}
        async with httpx.AsyncClient(timeout=WEBHOOK_TIMEOUT_S) as client:
            for attempt in range(WEBHOOK_TRIES):
                try:
                    response = await client.post(webhook, json=body)
                    response.raise_for_status()
                except httpx.HTTPError as error:
                    log.warning(
                        "the alert webhook did not take it", alert=alert.code, error=str(error), attempt=attempt + 1
                    )
                    await asyncio.sleep(2**attempt)
                else:
                    return
        WEBHOOK_FAILURES.inc()
