"""What the admin service tells Prometheus."""

from prometheus_client import Counter

REFUSALS = Counter("surefoot_dlq_api_refusals_total", "Requests that were refused.", ["status", "reason"])
UNRECORDED = Counter(
    "surefoot_dlq_api_refusals_unrecorded_total",
    "Refusals that the audit log does not have one by one: too many at a time, or the database was away.",
)
REPLAYED_ANSWERS = Counter(
    "surefoot_dlq_api_answers_replayed_total", "Requests under a known Idempotency-Key, answered as before."
)
