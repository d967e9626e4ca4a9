"""What the tests of failures look at: parked events, dead letters in the outbox, how far the consumer has got."""

import base64
import json
from datetime import timedelta
from itertools import count, islice
from typing import Any

import asyncpg

from surefoot.consumer import Retry
from surefoot.log.port import key_hash, partition_of
from tests.support.consumer.processes import outcomes
from tests.support.waiting import LONG_ENOUGH_S, eventually

AT_ONCE = Retry(attempts=3, first=timedelta(milliseconds=10), longest=timedelta(milliseconds=40))
"""Three attempts within a tenth of a second."""
NOT_SOON = Retry(attempts=3, first=timedelta(hours=1), longest=timedelta(hours=1))
"""Parked, and not tried again while the test looks."""


def keys_together(how_many: int, partition: int = 0) -> list[str]:
    """Different keys in one partition, so that their events are in one batch."""
    keys = (f"key-{n}" for n in count())
    return list(islice((key for key in keys if partition_of(key_hash(key.encode()), 8) == partition), how_many))


async def worked_off(connection: asyncpg.Connection, records: int, *, within_s: float = LONG_ENOUGH_S) -> None:
    """Wait until so many records are behind the consumer, with an effect or parked."""

    async def look() -> bool:
        found = await connection.fetchval("SELECT sum(next_offset) FROM surefoot.consumer_partitions")
        return found is not None and found >= records

    await eventually(look, what=f"{records} records are worked off", within_s=within_s)


async def settled(connection: asyncpg.Connection, consumer: str = "warehouse", **expected: int) -> None:
    """Wait until the inbox has these outcomes, and no others."""

    async def look() -> bool:
        return await outcomes(connection, consumer) == expected

    try:
        await eventually(look, what=f"the inbox says {expected}")
    except AssertionError:
        found, rows = await outcomes(connection, consumer), await parked(connection)
        raise AssertionError(f"The inbox says {found}, not {expected}. Parked: {rows}") from None


async def parked(connection: asyncpg.Connection, key: str | None = None) -> list[asyncpg.Record]:
    """The parked rows, in order."""
    found: list[asyncpg.Record] = await connection.fetch(
        "SELECT state::text, key, attempts, reason, last_error, fingerprint, failures, holds, record_key, value, "
        "headers, event_type, source, event_id, log_offset FROM surefoot.parked_events "
        "WHERE $1::text IS NULL OR key = $1 ORDER BY topic, partition, log_offset",
        key,
    )
    return found


async def states(connection: asyncpg.Connection, key: str | None = None) -> list[str]:
    return [row["state"] for row in await parked(connection, key)]


def raw_headers(row: asyncpg.Record) -> list[tuple[str, bytes | None]]:
    """A parked record's headers, as they were read from the log."""
    return [(name, None if value is None else base64.b64decode(value)) for name, value in json.loads(row["headers"])]


async def letters(connection: asyncpg.Connection) -> list[dict[str, Any]]:
    """The dead letters in the outbox: their headers, and `topic`, `key` and `body`."""
    rows = await connection.fetch(
        "SELECT topic, key, body, headers FROM surefoot.outbox_events WHERE topic LIKE '%.dlq' ORDER BY position"
    )
    return [
        {**dict(json.loads(row["headers"])), "topic": row["topic"], "key": row["key"], "body": row["body"]}
        for row in rows
    ]
