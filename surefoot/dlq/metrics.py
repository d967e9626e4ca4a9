"""What the dead-letter service tells Prometheus."""

from prometheus_client import Counter, Gauge

LETTERS = Counter(
    "surefoot_dlq_letters_total", "Letters taken in: new, again, duplicate, old or unreadable.", ["topic", "result"]
)
OPEN = Gauge("surefoot_dlq_open", "Open letters, measured by every service for all.", ["consumer"])
ANSWERS = Counter("surefoot_dlq_answers_total", "Answers of consumers that a job waited for.", ["action", "answer"])
CONTROLS = Counter("surefoot_dlq_controls_total", "Control records sent, repeats counted.", ["action"])
UNASKED = Counter("surefoot_dlq_answers_unasked_total", "Answers that no job waited for, or that cannot be read.")
GONE = Counter("surefoot_dlq_records_gone_total", "Records that the log removed before they were read.", ["topic"])
OUTAGES = Counter("surefoot_dlq_outages_total", "Times something it needs was away.", ["part", "what"])
HEARTBEAT = Gauge("surefoot_dlq_heartbeat_timestamp_seconds", "When it last asked for records.", ["part"])
