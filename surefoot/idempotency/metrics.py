"""What the layer counts. Labels are bounded: a tenant beyond the thousandth is "other"."""

from prometheus_client import Counter, Gauge, Histogram

CLAIMS = Counter("surefoot_idempotency_claims_total", "Keys claimed.", ["route"])
CONFLICTS = Counter("surefoot_idempotency_conflicts_total", "Requests answered with 409: in flight.", ["route"])
REPLAYS = Counter("surefoot_idempotency_replays_total", "Answers given again.", ["route"])
MISMATCHES = Counter("surefoot_idempotency_mismatches_total", "Keys used for another request.", ["tenant"])
EXPIRED = Counter("surefoot_idempotency_expired_total", "Requests answered with 410: the key has expired.", ["route"])
MISSING = Counter("surefoot_idempotency_missing_keys_total", "Requests without a key.", ["route", "mode"])
MALFORMED = Counter("surefoot_idempotency_malformed_keys_total", "Requests whose key cannot be read.", ["route"])
UNKNOWN = Counter("surefoot_idempotency_outcome_unknown_total", "Requests answered with outcome-unknown.", ["route"])
FENCE_LOST = Counter("surefoot_idempotency_fence_lost_total", "Attempts that another one had taken over.", ["route"])
FAIL_CLOSED = Counter("surefoot_idempotency_fail_closed_total", "Requests refused: the store was away.", ["route"])
FAIL_OPEN = Counter("surefoot_idempotency_fail_open_total", "Requests done without protection.", ["route"])
EXHAUSTED = Counter("surefoot_idempotency_exhausted_total", "Keys tried as often as they may be.", ["route"])
COMPLETED = Counter("surefoot_idempotency_completer_total", "Requests the completer made again.", ["outcome"])
WAITED = Histogram(
    "surefoot_idempotency_wait_seconds",
    "How long requests waited for one in flight.",
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
RUNNING = Gauge("surefoot_idempotency_running", "Requests with a key that are under way in this process.")
STUCK = Gauge("surefoot_idempotency_stuck", "Keys in flight whose lease ran out more than a minute ago.")
OLDEST_PENDING_S = Gauge(
    "surefoot_idempotency_oldest_pending_call_seconds", "Age of the oldest call without an answer."
)
STORE_OUTAGES = Counter("surefoot_idempotency_store_outages_total", "Times requests lost the store.")
COMPLETER_OUTAGES = Counter("surefoot_idempotency_completer_outages_total", "Times the completer lost the store.")
HOUSEKEEPING_OUTAGES = Counter("surefoot_idempotency_housekeeping_outages_total", "Times housekeeping lost the store.")
REAPED = Counter("surefoot_idempotency_reaped_total", "Keys deleted when their windows had passed.")
