"""Control records as the dead-letter service sends them, a handler that can be mended, and the answers."""

import base64
import json
from collections.abc import Iterable
from typing import Any

import asyncpg
from uuid_utils import uuid7

from surefoot.consumer import Consumer, Permanent, Transaction
from surefoot.consumer.consumer import WhenDead
from surefoot.events import Event, EventData, encode
from surefoot.events.event import encode_model
from surefoot.log.port import EventLog, Record, TopicPartition, key_hash, partition_of
from tests.support.consumer.effects import have_effect
from tests.support.consumer.processes import publish_records
from tests.support.event_types import ThingHappened
from tests.support.waiting import eventually


class Mendable:
    """A consumer that refuses some numbers, until it is mended."""

    def __init__(self, *broken: int, when_dead: WhenDead = "hold") -> None:
        self.broken = set(broken)
        self.raising: type[Exception] = Permanent
        self.tried: list[int] = []
        self.consumer = Consumer("warehouse", when_dead=when_dead)
        self.consumer.on(ThingHappened)(self.handle)

    async def handle(self, event: Event[ThingHappened], tx: Transaction) -> None:
        self.tried.append(event.data.number)
        if event.data.number in self.broken:
            raise self.raising(f"Number {event.data.number} cannot be had.")
        await have_effect(event, tx)


def control(
    event: Event[Any],
    action: str,
    *,
    consumer: str = "warehouse",
    control_id: str | None = None,
    replacement: Event[EventData] | None = None,
) -> Record:
    data: dict[str, Any] = {
        "action": action,
        "consumer": consumer,
        "source": event.source,
        "event_id": event.id,
        "by": "ada",
        "why": "the catalogue was wrong",
    }
    if replacement is not None:
        body = encode_model(replacement.data, replacement.type)
        headers = [[name, base64.b64encode(value).decode()] for name, value in encode(replacement, body)]
        data["replacement"] = {"value": base64.b64encode(body).decode(), "headers": headers}
    return control_record(event, json.dumps(data).encode(), consumer=consumer, control_id=control_id)


def control_record(
    event: Event[Any], value: bytes, *, consumer: str = "warehouse", control_id: str | None = None
) -> Record:
    headers = {
        "ce_specversion": "1.0",
        "ce_id": control_id or str(uuid7()),
        "ce_source": "/surefoot/dlq",
        "ce_type": "dlq.control",
        "content-type": "application/json",
        "surefoot-target": consumer,
    }
    return Record(event.key.encode(), value, [(name, text.encode()) for name, text in headers.items()])


async def tell(log: EventLog, topic: str, event: Event[Any], *records: Record) -> None:
    """To the event's own topic and partition, in order."""
    where = TopicPartition(topic, partition_of(key_hash(event.key.encode()), 8))
    await publish_records(log, {where: records})


def id_of(record: Record) -> str:
    return next(value.decode() for name, value in record.headers if name == "ce_id" and value is not None)


async def published(connection: asyncpg.Connection, topic: str) -> list[dict[str, Any]]:
    """What was put into the outbox for this topic, in order: the data, and the headers under `_headers`."""
    rows = await connection.fetch(
        "SELECT payload::text, headers::text FROM surefoot.outbox WHERE topic = $1 ORDER BY position", topic
    )
    return [{**json.loads(row["payload"] or "{}"), "_headers": dict(json.loads(row["headers"]))} for row in rows]


async def answers(connection: asyncpg.Connection, count: int) -> list[tuple[str, str]]:
    """(control id, answer) of each outcome told so far, when there are so many."""
    await eventually(
        lambda: _has(connection, "dlq.outcomes", count),
        what=f"{count} answers on dlq.outcomes",
    )
    return [(told["control_id"], told["answer"]) for told in await published(connection, "dlq.outcomes")]


async def _has(connection: asyncpg.Connection, topic: str, count: int) -> bool:
    return len(await published(connection, topic)) >= count


async def outcome(connection: asyncpg.Connection, event: Event[Any], consumer: str = "warehouse") -> str | None:
    found: str | None = await connection.fetchval(
        "SELECT outcome::text FROM surefoot.processed_events WHERE consumer = $1 AND event_id = $2", consumer, event.id
    )
    return found


async def settled_as(
    connection: asyncpg.Connection, events: Iterable[Event[Any]], wanted: str, consumer: str = "warehouse"
) -> None:
    """Wait until the inbox has all of these under this outcome."""

    async def look() -> bool:
        return all([await outcome(connection, event, consumer) == wanted for event in events])

    await eventually(look, what=f"all are {wanted}")
