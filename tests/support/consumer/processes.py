"""Consumers for tests: in this process, or as a process of its own that can be killed and frozen."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import asyncpg

from surefoot.consumer import Consumer
from surefoot.consumer_runtime.runtime import ConsumerRuntime
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.events import Event, EventData, encode, encode_data, event_type_of, new_event
from surefoot.log.port import EventLog, Record, TopicPartition, key_hash, partition_of
from tests.support.relay.processes import RelayProcess, as_environment, spec, start_process

# Everything compressed: a handler that hangs is ended in seconds, what is away is asked for again at once.
QUICK = {
    "handler_timeout": timedelta(seconds=20),
    "lock_timeout": timedelta(seconds=1),
    "handover": timedelta(seconds=1),
    "commit_interval": timedelta(milliseconds=100),
    "outage_max": timedelta(milliseconds=500),
    "housekeeping": timedelta(milliseconds=200),
    "batch_first": 1000,  # large batches from the beginning: what hurts a batch is what is tested
}
ConsumerProcess = RelayProcess
"""The same handle: a process with a log, that can be signalled and waited for."""


@asynccontextmanager
async def consumer_running(
    consumer: Consumer, url: str, log: EventLog, **changes: object
) -> AsyncIterator[ConsumerRuntime]:
    runtime = ConsumerRuntime(consumer, url, log, ConsumerSettings(**{**QUICK, **changes}))  # type: ignore[arg-type]
    running = asyncio.create_task(runtime.run())
    try:
        yield runtime
    finally:
        runtime.stop()
        await running


async def create_topics(log: EventLog, *names: str, partitions: int = 8) -> None:
    """Topics with their dead-letter topics."""
    await log.create([spec(name + suffix, partitions, 1 << 20) for name in names for suffix in ("", ".dlq")])


def record_of(event: Event[EventData]) -> Record:
    body = encode_data(event)
    return Record(event.key.encode(), body, encode(event, body))


async def publish(log: EventLog, *data: EventData | Event[EventData], partitions: int = 8) -> list[Event[EventData]]:
    """Put events straight into the log, as a relay would; in order."""
    events = [one if isinstance(one, Event) else new_event(one) for one in data]
    batches: dict[TopicPartition, list[Record]] = {}
    for event in events:
        topic = event_type_of(event.data).topic.name
        where = TopicPartition(topic, partition_of(key_hash(event.key.encode()), partitions))
        batches.setdefault(where, []).append(record_of(event))
    await publish_records(log, batches)
    return events


async def publish_records(log: EventLog, batches: Mapping[TopicPartition, Sequence[Record]]) -> None:
    publisher = await log.publisher()
    try:
        for where, records in batches.items():
            for at in range(0, len(records), 500):
                await publisher.publish(where, records[at : at + 500])
    finally:
        await publisher.close()


async def outcomes(connection: asyncpg.Connection, consumer: str) -> dict[str, int]:
    rows = await connection.fetch(
        "SELECT outcome::text, count(*) FROM surefoot.processed_events WHERE consumer = $1 GROUP BY 1", consumer
    )
    return {row[0]: row[1] for row in rows}


async def start_consumer(
    reference: str,
    url: str,
    kafka: str | None,
    log: Path,
    *,
    failpoints: str = "",
    weakened: str = "",
    environment: Mapping[str, str] | None = None,
) -> ConsumerProcess:
    """Start `surefoot consume`, or one with a protection taken out (see tests/support/weakened/consumer.py)."""
    module = ["tests.support.weakened", "consumer", weakened] if weakened else ["surefoot"]
    arguments = ["consume", reference, "--database", url, *(["--kafka", kafka] if kafka else [])]
    ours = {
        **as_environment("SUREFOOT_CONSUMER", QUICK),
        "SUREFOOT_KAFKA_SESSION_TIMEOUT": "PT2S",
        "SUREFOOT_LOG_LEASE": "PT2S",
        "SUREFOOT_FAILPOINTS": failpoints,
        **(environment or {}),
    }
    return await start_process([*module, *arguments], log, ours)
