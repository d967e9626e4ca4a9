"""Counts keys that tenants use for other requests: many within a minute are a client that makes its keys wrongly."""

import time
from collections import OrderedDict, deque

from surefoot.idempotency.metrics import MISMATCHES, TenantLabels
from surefoot.telemetry.alerts import Alert, Alerts

MOST_A_MINUTE = 10
WINDOW_S = 60.0
MOST_WATCHED = 10_000


class MismatchWatch:
    def __init__(self, alerts: Alerts) -> None:
        self._alerts = alerts
        self._labels = TenantLabels()
        self._seen: OrderedDict[str, deque[float]] = OrderedDict()

    async def seen(self, tenant: str) -> None:
        MISMATCHES.labels(self._labels.label(tenant)).inc()
        now = time.monotonic()
        times = self._seen.setdefault(tenant, deque(maxlen=MOST_A_MINUTE))
        self._seen.move_to_end(tenant)
        if len(self._seen) > MOST_WATCHED:
            self._seen.popitem(last=False)
        times.append(now)
        if len(times) == MOST_A_MINUTE and now - times[0] <= WINDOW_S:
            times.clear()
            await self._alerts.raise_alert(
                Alert(
                    "idempotency_mismatches",
                    f"A tenant used {MOST_A_MINUTE} idempotency keys for other requests within a minute. Its client "
                    "probably makes keys that are not random, or changes a request when it retries it.",
                    {"tenant": tenant},
                    cause=tenant,
                )
            )
