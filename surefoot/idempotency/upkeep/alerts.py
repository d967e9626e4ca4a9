"""What people are told of: requests that were tried as often as they may be, and keys used for other requests.

Many of the latter within a minute mean that a client makes its keys wrongly. Their counter has a label for each tenant,
up to a bound.
"""

import time
from collections import OrderedDict, deque

from surefoot.idempotency import metrics
from surefoot.idempotency.values import Claim
from surefoot.telemetry.alerts import Alert, Alerts

MOST_TENANTS = 1_000
OTHER = "other"
"""The label of every tenant beyond those."""
MOST_A_MINUTE = 10
WINDOW_S = 60.0
MOST_WATCHED = 10_000


async def say_exhausted(alerts: Alerts, claim: Claim, error: str, resource: str | None) -> None:
    metrics.EXHAUSTED.labels(claim.asked.route).inc()
    details = {
        "tenant": claim.asked.tenant,
        "route": claim.asked.route,
        "key_hash": claim.asked.key_hash.hex(),
        "resource": resource or "",
        "attempts": str(claim.attempt),
        "error": error,
    }
    sentence = (
        f"A request was tried {claim.attempt} times and is not finished. It goes on slowly; somebody should look what "
        "the provider did: surefoot idempotency stuck."
    )
    await alerts.raise_alert(Alert("idempotency_exhausted", sentence, details, cause=claim.asked.route))


class MismatchWatch:
    def __init__(self, alerts: Alerts) -> None:
        self._alerts = alerts
        self._labels = TenantLabels()
        self._seen: OrderedDict[str, deque[float]] = OrderedDict()

    async def seen(self, tenant: str) -> None:
        metrics.MISMATCHES.labels(self._labels.label(tenant)).inc()
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


class TenantLabels:
    """Tenants as label values, up to a bound: each value is a time series for ever."""

    def __init__(self, most: int = MOST_TENANTS) -> None:
        self._most = most
        self._known: set[str] = set()

    def label(self, tenant: str) -> str:
        if tenant not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(tenant)
        return tenant
