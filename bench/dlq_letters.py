"""A queue full of dead letters, as a month of bad deploys leaves it: bulk rows, written by COPY.

12 consumers, 40 event types, 400 groups, 50,000 keys. A group lives for some hours of the month, and few groups have
most of the letters. One letter in twenty is settled.
"""

import base64
import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from schemas import catalogue
from surefoot.database.connection import Connection

CONSUMERS = tuple(f"service-{number:02}" for number in range(12))
TYPES = tuple(sorted(each.name for each in catalogue)[:40])
GROUPS = 400
KEYS = 50_000
MONTH = timedelta(days=30)
NOW = datetime.now(UTC).replace(microsecond=0)
AT_ONCE = 10_000
COLUMNS = (
    "id", "consumer", "source", "event_id", "event_type", "topic", "partition", "log_offset", "key", "correlation_id",
    "saga_id", "recorded_at", "record_key", "value", "headers", "reason", "error_type", "error", "stack",
    "fingerprint", "failures", "attempts", "held", "letter_id", "first_failed_at", "failed_at", "received_at", "status",
    "resolution", "resolved_at",
)  # fmt: skip
ERRORS = tuple(f"shop.errors.{name}" for name in ("NoSuchArticle", "PriceMissing", "BadAddress", "Overbooked", "Gone"))
REASONS = ("permanent", "out_of_attempts", "invalid_data")
SETTLED = (("REPLAYED", 0.035), ("DISCARDED", 0.01), ("SUPERSEDED", 0.005))
_STACK = "".join(
    f'  File "/srv/shop/handlers/stock.py", line {40 + 7 * depth}, in reserve_{depth}\n    return self._next(order)\n'
    for depth in range(12)
)
_ORDER = {
    "order_id": "o",
    "customer_id": "customer-0123456789",
    "lines": [{"sku": "A-1", "quantity": 2, "unit_price": {"minor_units": 1999, "currency": "EUR"}}],
    "ship_to": {"name": "Ada", "street": "1 Main St", "postal_code": "1", "city": "London", "country": "GB"},
}


@dataclass(frozen=True, slots=True)
class Cause:
    """A group, and when it was there."""

    fingerprint: str
    consumer: str
    event_type: str
    error_type: str
    reason: str
    begins: float
    lasts: float
    weight: float


def causes(chance: random.Random) -> list[Cause]:
    made = []
    for number in range(GROUPS):
        lasts = chance.uniform(0.01, 0.2)
        made.append(
            Cause(
                fingerprint=hashlib.sha256(str(number).encode()).hexdigest()[:16],
                consumer=CONSUMERS[number % len(CONSUMERS)],
                event_type=TYPES[number % len(TYPES)],
                error_type=ERRORS[number % len(ERRORS)],
                reason=REASONS[number % len(REASONS)],
                begins=chance.uniform(0, 1 - lasts),
                lasts=lasts,
                weight=1 / (1 + number % 97),
            )
        )
    return made


def rows(many: int, seed: int = 6) -> Iterator[list[tuple[Any, ...]]]:
    """In the order in which they were taken in, some thousand at a time."""
    chance = random.Random(seed)
    all_causes = causes(chance)
    chosen = chance.choices(all_causes, [cause.weight for cause in all_causes], k=many)
    moments = sorted((cause.begins + cause.lasts * chance.random(), number) for number, cause in enumerate(chosen))
    for start in range(0, many, AT_ONCE):
        yield [
            _row(chance, start + at, chosen[number], NOW - MONTH + moment * MONTH)
            for at, (moment, number) in enumerate(moments[start : start + AT_ONCE])
        ]


async def seed(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    await connection.copy_records_to_table("dlq_events", records=rows, columns=COLUMNS, schema_name="surefoot")


def _row(chance: random.Random, number: int, cause: Cause, at: datetime) -> tuple[Any, ...]:
    key = f"order-{chance.randrange(KEYS)}"
    event_id = f"{number:08x}-7c41-7000-9d0a-6f1f0d6f3b11"
    status, settled_at = _status(chance, at)
    return (
        dlq_id(at, number), cause.consumer, "/bench", event_id, cause.event_type, "bench.events", number % 8, number,
        key, f"flow-{key}-{number % 4}", f"saga-{key}" if number % 3 == 0 else None, at, key.encode(),
        json.dumps({**_ORDER, "order_id": key}).encode(), _headers(event_id, cause.event_type, key), cause.reason,
        cause.error_type, f"The order {key} cannot be handled: article {number % 1000} is not known.",
        _STACK + f"{cause.error_type}: the order {key} cannot be handled\n", cause.fingerprint,
        json.dumps([[at.isoformat(), "it failed"]] * 3), 5, number % 2 == 0, f"letter-{number}", at, at, at, status,
        None if settled_at is None else "Ada decided it: the fix is deployed.", settled_at,
    )  # fmt: skip


def _status(chance: random.Random, at: datetime) -> tuple[str, datetime | None]:
    drawn = chance.random()
    for status, share in SETTLED:
        if drawn < share:
            return status, at + timedelta(hours=1)
        drawn -= share
    return "OPEN", None


def _headers(event_id: str, event_type: str, key: str) -> str:
    attributes = {
        "ce_specversion": "1.0",
        "ce_id": event_id,
        "ce_source": "/bench",
        "ce_type": event_type,
        "ce_time": "2026-11-16T12:34:56.000000Z",
        "ce_dataschema": f"urn:surefoot:{event_type}:1",
        "ce_partitionkey": key,
        "ce_correlationid": f"flow-{key}",
        "content-type": "application/json",
    }
    return json.dumps([[name, base64.b64encode(value.encode()).decode()] for name, value in attributes.items()])


def dlq_id(at: datetime, number: int) -> UUID:
    """A UUID of version 7, as the intake draws them: its time first."""
    return UUID(int=(int(at.timestamp() * 1000) << 80) | (7 << 76) | (2 << 62) | number)
