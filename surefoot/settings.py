"""Which settings are for users, and which names were settings once.

docs/settings.md lists every setting of every model, except the internal ones. A test compares the two.
"""

from typing import Annotated, TypeVar

T = TypeVar("T")
INTERNAL = "internal"
Internal = Annotated[T, INTERNAL]
"""Not documented: tests and benchmarks set it, or a command sets it from an option. It may become a constant."""

RETIRED = {
    "SUREFOOT_CHECKOUT_HOLD": "PT15M",
    "SUREFOOT_CONSUMER_DRAIN_EVENTS": "200",
    "SUREFOOT_CONSUMER_REPLAY_WINDOW": "P14D",
    "SUREFOOT_DLQ_JWKS_ASKED_AT_MOST_EVERY": "PT10S",
    "SUREFOOT_DLQ_JWKS_FRESH_FOR": "PT5M",
    "SUREFOOT_DLQ_JWKS_KEPT_FOR": "PT1H",
    "SUREFOOT_DLQ_JWT_LEEWAY": "PT10S",
    "SUREFOOT_KAFKA_CLIENT_ID": "surefoot",
    "SUREFOOT_KAFKA_REPLICATION_FACTOR": "3",
    "SUREFOOT_KAFKA_TOPIC_CACHE": "PT5S",
    "SUREFOOT_ORCHESTRATOR_CONCURRENCY": "1",
    "SUREFOOT_ORCHESTRATOR_TIMER_BATCH": "500",
    "SUREFOOT_PAYMENT_API_CONNECTIONS": "20",
    "SUREFOOT_PAYMENT_CONNECT_WITHIN": "PT2S",
    "SUREFOOT_PAYMENT_WEBHOOK_TOLERANCE": "PT5M",
    "SUREFOOT_RELAY_BATCH_BYTES": "8388608",
    "SUREFOOT_WAREHOUSE_DAMAGED_PERCENT": "20",
    "SUREFOOT_WAREHOUSE_EXPIRY_INTERVAL": "PT1S",
    "SUREFOOT_WAREHOUSE_REJECTED_PERCENT": "10",
}
"""Names that are no settings any more, and the values in force. Each is a constant beside the code that it governs."""
