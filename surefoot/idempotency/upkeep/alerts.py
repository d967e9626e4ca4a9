"""Telling people of a request that was tried as often as it may be."""

from surefoot.idempotency import metrics
from surefoot.idempotency.values import Claim
from surefoot.telemetry.alerts import Alert, Alerts


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
