"""What a relay tells Prometheus."""

from prometheus_client import Counter, Gauge, Histogram

PUBLISHED = Counter("surefoot_relay_published_total", "Rows published and marked.", ["topic"])
REFUSED = Counter("surefoot_relay_refused_total", "Records the log refused.", ["topic", "reason"])
FAILED = Counter("surefoot_relay_failed_total", "Rows given up on; their keys are held.", ["topic", "reason"])
LOG_OUTAGES = Counter("surefoot_relay_log_outages_total", "Times the event log stopped answering.")
DATABASE_OUTAGES = Counter("surefoot_relay_database_outages_total", "Times the database stopped answering.")
LEASES_LOST = Counter("surefoot_relay_leases_lost_total", "Shards lost to another relay while working on them.")
SHARDS_OWNED = Gauge("surefoot_relay_shards_owned", "Shards this relay owns.")
HEARTBEAT = Gauge("surefoot_relay_heartbeat_timestamp_seconds", "When this relay last renewed its leases.")
OLDEST_UNPUBLISHED = Gauge(
    "surefoot_relay_oldest_unpublished_seconds", "Age of the oldest unpublished row of the shards this relay owns."
)
REMOVED = Counter("surefoot_relay_removed_total", "Published rows removed after their retention.")
ROUND_SECONDS = Histogram(
    "surefoot_relay_round_seconds",
    "Time of a round's parts.",
    ["part"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)
