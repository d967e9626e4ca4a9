"""Letters for the tests, as a consumer writes them, and what became of them."""

import base64
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
from uuid_utils import uuid7

from surefoot.log.port import EventLog, Record, TopicPartition, key_hash, partition_of
from tests.support.consumer.processes import publish_records
from tests.support.waiting import eventually

DIED_AT = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)


def letter_record(
    event_id: str,
    *,
    topic: str = "test.things",
    letter_id: str | None = None,
    after_s: float = 0,
    key: str = "t-1",
    value: bytes | None = b'{"thing_id":"t-1"}',
    without: Iterable[str] = (),
    **told: str,
) -> Record:
    """A letter by the consumer `warehouse`, written out by hand as docs/dead-letters.md has it. `told` are its other
    `surefoot-` headers, with _ for -; `after_s` is when it died."""
    origin = [["ce_id", event_id], ["ce_source", "/tests"], ["ce_type", "thing.happened"], ["ce_sagaid", "saga-7"]]
    headers = {
        "ce_specversion": "1.0",
        "ce_id": letter_id or str(uuid7()),
        "ce_source": "/surefoot/consumers/warehouse",
        "ce_type": "dlq.dead_letter",
        "ce_time": (DIED_AT + timedelta(seconds=after_s)).isoformat(),
        "ce_partitionkey": key,
        "content-type": "application/octet-stream",
        "ce_correlationid": "flow-9",
        "surefoot-consumer": "warehouse",
        "surefoot-reason": "permanent",
        "surefoot-fingerprint": "0123456789abcdef",
        "surefoot-event-source": "/tests",
        "surefoot-event-id": event_id,
        "surefoot-event-type": "thing.happened",
        "surefoot-origin-topic": topic,
        "surefoot-origin-partition": "3",
        "surefoot-origin-offset": "41",
        "surefoot-origin-timestamp": "1793534400000",
        "surefoot-attempts": "1",
        "surefoot-replays": "0",
        "surefoot-held": "true",
        "surefoot-origin-headers-left-out": "0",
        "surefoot-error-type": "shop.NoSuchArticle",
        "surefoot-error": "There is no such article.",
        "surefoot-failures": json.dumps([["2026-11-01T12:00:00.000000Z", "There is no such article."]]),
        "surefoot-origin-key": _base64("t-1"),
        "surefoot-origin-headers": json.dumps([[name, _base64(text)] for name, text in origin]),
        "surefoot-stack": "Traceback: shop.py, line 1",
        **{"surefoot-" + name.replace("_", "-"): text for name, text in told.items()},
    }
    return Record(
        key.encode(), value, [(name, text.encode()) for name, text in headers.items() if name not in set(without)]
    )


async def put(log: EventLog, dlq_topic: str, *records: Record, partitions: int = 8) -> None:
    """Into the dead-letter topic, each into the partition of its key, in order."""
    batches: dict[TopicPartition, list[Record]] = {}
    for record in records:
        where = TopicPartition(dlq_topic, partition_of(key_hash(record.key or b""), partitions))
        batches.setdefault(where, []).append(record)
    await publish_records(log, batches)


async def rows(connection: asyncpg.Connection, *columns: str) -> list[tuple[Any, ...]]:
    """These columns of every dead letter, in the order of their ids."""
    wanted = ", ".join(f"{name}::text" if name == "status" else name for name in columns)
    return [tuple(row) for row in await connection.fetch(f"SELECT {wanted} FROM surefoot.dlq_events ORDER BY id")]


async def count(connection: asyncpg.Connection, condition: str = "true") -> int:
    found: int = await connection.fetchval(f"SELECT count(*) FROM surefoot.dlq_events WHERE {condition}")
    return found


async def there_are(connection: asyncpg.Connection, many: int, condition: str = "true") -> None:
    """Wait until so many dead letters are as the condition says."""

    async def look() -> bool:
        return await count(connection, condition) == many

    await eventually(look, what=f"{many} dead letters where {condition}")


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
