"""Which settings are for users, and which names were settings once.

docs/settings.md lists every setting of every model, except the internal ones. A test compares the two.
"""

import os
from collections.abc import Iterator
from importlib import import_module
from typing import Annotated, TypeVar

T = TypeVar("T")
INTERNAL = "internal"
Internal = Annotated[T, INTERNAL]
"""Not documented: tests and benchmarks set it, or a command sets it from an option. It may become a constant."""

RETIRED = {
    "SUREFOOT_CHECKOUT_HOLD": "services.checkout.http:HOLD",
    "SUREFOOT_CONSUMER_DRAIN_EVENTS": "surefoot.consumer_runtime.worker:DRAIN_EVENTS",
    "SUREFOOT_CONSUMER_REPLAY_WINDOW": "surefoot.consumer_runtime.housekeeping:REPLAY_WINDOW",
    "SUREFOOT_DLQ_JWKS_ASKED_AT_MOST_EVERY": "surefoot.audit.keys:ASKED_AT_MOST_EVERY",
    "SUREFOOT_DLQ_JWKS_FRESH_FOR": "surefoot.audit.keys:FRESH_FOR",
    "SUREFOOT_DLQ_JWKS_KEPT_FOR": "surefoot.audit.keys:KEPT_FOR",
    "SUREFOOT_DLQ_JWT_LEEWAY": "surefoot.audit.jwts:LEEWAY",
    "SUREFOOT_KAFKA_CLIENT_ID": "surefoot.log.kafka.aiokafka_typed:CLIENT_ID",
    "SUREFOOT_KAFKA_REPLICATION_FACTOR": "surefoot.log.kafka.client:REPLICATION_FACTOR",
    "SUREFOOT_KAFKA_TOPIC_CACHE": "surefoot.log.kafka.publisher:TOPIC_CACHE",
    "SUREFOOT_ORCHESTRATOR_CONCURRENCY": "surefoot.cli.workers:DECIDED_AT_ONCE",
    "SUREFOOT_ORCHESTRATOR_TIMER_BATCH": "surefoot.orchestrator.timers:TIMER_BATCH",
    "SUREFOOT_PAYMENT_API_CONNECTIONS": "services.payment.api.command:CONNECTIONS",
    "SUREFOOT_PAYMENT_CONNECT_WITHIN": "services.payment.http_gateway:CONNECT_WITHIN",
    "SUREFOOT_PAYMENT_WEBHOOK_TOLERANCE": "surefoot.webhooks:TOLERANCE",
    "SUREFOOT_RELAY_BATCH_BYTES": "surefoot.relay.lane:BATCH_BYTES",
    "SUREFOOT_WAREHOUSE_DAMAGED_PERCENT": "consumers.warehouse:SHARES",
    "SUREFOOT_WAREHOUSE_EXPIRY_INTERVAL": "services.warehouse.expiry:INTERVAL",
    "SUREFOOT_WAREHOUSE_REJECTED_PERCENT": "consumers.warehouse:SHARES",
}
"""Names that are no settings any more, and the constants in their place."""


def retired_but_set() -> Iterator[str]:
    """A sentence for each variable of the environment that was a setting once."""
    for name in sorted(RETIRED.keys() & os.environ.keys()):
        module, _, constant = RETIRED[name].partition(":")
        try:
            value = getattr(import_module(module), constant)
        except ModuleNotFoundError:  # of the shop, which is not installed
            continue
        yield f"{name} is set, but is no setting any more: the value in force is {value}."
