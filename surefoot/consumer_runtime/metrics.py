"""What a consumer tells Prometheus."""

from prometheus_client import Counter, Gauge, Histogram

PROCESSED = Counter("surefoot_consumer_processed_total", "Events whose handler was done.", ["consumer", "topic"])
DUPLICATES = Counter("surefoot_consumer_duplicates_total", "Deliveries dropped as seen before.", ["consumer", "topic"])
IGNORED = Counter("surefoot_consumer_ignored_total", "Records without a handler.", ["consumer", "topic"])
PARKED = Counter("surefoot_consumer_parked_total", "Events parked.", ["consumer", "topic"])
DEAD = Counter("surefoot_consumer_dead_total", "Events sent to the dead-letter topic.", ["consumer", "topic", "reason"])
ATTEMPTS = Counter("surefoot_consumer_failed_attempts_total", "Attempts that failed.", ["consumer", "event_type"])
BATCHES = Counter("surefoot_consumer_batches_total", "Transactions.", ["consumer", "result"])
FENCED = Counter("surefoot_consumer_fenced_total", "Transactions refused: the partition had moved.", ["consumer"])
OUTAGES = Counter("surefoot_consumer_outages_total", "Times something it needs was away.", ["consumer", "what"])
CONTROLS = Counter("surefoot_consumer_controls_total", "Control records obeyed.", ["consumer", "action"])
PARTITIONS = Gauge("surefoot_consumer_partitions_owned", "Partitions this member owns.", ["consumer"])
LAG = Gauge("surefoot_consumer_lag_records", "Records not worked off yet.", ["consumer", "topic", "partition"])
PARKED_KEYS = Gauge("surefoot_consumer_parked_keys", "Keys whose events wait.", ["consumer", "topic"])
OLDEST_PARKED = Gauge(
    "surefoot_consumer_oldest_parked_seconds", "How long the first has waited.", ["consumer", "topic"]
)
HEARTBEAT = Gauge("surefoot_consumer_heartbeat_timestamp_seconds", "When it last asked for records.", ["consumer"])
LOOP_STALLS = Counter("surefoot_consumer_loop_stalls_total", "Times a handler blocked the event loop.", ["consumer"])
REMOVED = Counter("surefoot_consumer_removed_total", "Handled events forgotten after their retention.", ["consumer"])
HANDLER_SECONDS = Histogram(
    "surefoot_consumer_handler_seconds",
    "Time of a handler, for one event or one run of them.",
    ["consumer", "event_type"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
)
BATCH_SECONDS = Histogram(
    "surefoot_consumer_batch_seconds",
    "Time of a transaction.",
    ["consumer"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)
