"""A slow handler: what waits for it stays in the log, not in memory, and nobody takes the consumer for dead."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest
from sqlalchemy import text

from surefoot.consumer import Consumer, Transaction
from surefoot.consumer_runtime.runtime import ConsumerRuntime
from surefoot.events import Event
from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import TopicPartition, key_hash, partition_of
from surefoot.log.postgres.log import PostgresLog
from surefoot.testing.kafka import Broker
from tests.support.consumer.effects import effects, have_effect
from tests.support.consumer.failures import settled, worked_off
from tests.support.consumer.processes import consumer_running, create_topics, publish
from tests.support.event_types import ThingHappened, things_on

WAITING = 20_000
HELD = 300
INSERT = text(
    "INSERT INTO effects (event_id, key, number) "
    "SELECT * FROM unnest(CAST(:ids AS text[]), CAST(:keys AS text[]), CAST(:numbers AS int[]))"
)


@pytest.mark.crowd
async def test_the_buffer_stays_bounded_while_many_records_wait(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse")
    sizes: list[int] = []
    paused: list[bool] = []
    running: list[ConsumerRuntime] = []

    @consumer.on_batch(ThingHappened)
    async def handle(events: list[Event[ThingHappened]], tx: Transaction) -> None:
        workers = running[0].partitions.workers.values()
        sizes.append(max(len(worker.buffer) for worker in workers))
        paused.append(any(worker.is_paused for worker in workers))
        columns = {
            "ids": [event.id for event in events],
            "keys": [event.key for event in events],
            "numbers": [event.data.number for event in events],
        }
        await tx.session.execute(INSERT, columns)
        await asyncio.sleep(0.02)

    await publish(log, *(ThingHappened(thing_id="a", number=n) for n in range(WAITING)))
    async with consumer_running(consumer, database_url, log, batch_records=100, buffer_records=HELD) as runtime:
        running.append(runtime)
        await worked_off(connection, WAITING)
    assert max(sizes) <= HELD + HELD  # one poll asks for no more than the buffer is to hold
    assert any(paused)
    assert await effects(connection) == list(range(WAITING))


@pytest.mark.slow
@pytest.mark.kafka
async def test_a_handler_longer_than_kafkas_patience_has_one_effect_and_keeps_its_partition(
    database_url: str, connection: asyncpg.Connection, kafka: Broker, topic_name: str
) -> None:
    log = KafkaLog(
        KafkaSettings(
            bootstrap_servers=kafka.address,
            session_timeout=timedelta(seconds=2),
            max_poll_interval=timedelta(seconds=3),
        )
    )
    await create_topics(log, topic_name)
    consumer = Consumer(f"slow-{topic_name}")
    began: list[int] = []

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        began.append(event.data.number)
        if event.data.number == 1:
            await asyncio.sleep(5)
        await have_effect(event, tx)

    with things_on(topic_name):
        await publish(log, ThingHappened(thing_id="a", number=1), ThingHappened(thing_id="a", number=2))
        async with consumer_running(consumer, database_url, log, batch_records=1):
            await settled(connection, consumer.name, PROCESSED=2)
    await log.close()
    assert began == [1, 2]
    assert await effects(connection) == [1, 2]
    assert await connection.fetchval("SELECT max(fence) FROM surefoot.consumer_partitions") == 1


async def test_records_larger_than_a_batch_may_be_are_taken_one_by_one(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse")
    consumer.on(ThingHappened)(have_effect)
    await publish(log, *(ThingHappened(thing_id="a", number=n, note="x" * 5000) for n in range(5)))
    async with consumer_running(consumer, database_url, log, batch_bytes=1024, buffer_bytes=1024):
        await worked_off(connection, 5)
    assert await effects(connection) == [0, 1, 2, 3, 4]
    assert await connection.fetchval("SELECT count(DISTINCT xmin::text) FROM effects") == 5


async def test_a_slow_key_does_not_keep_another_partition_waiting(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse")
    let_go = asyncio.Event()
    slow, quick = "a", next(key for key in "bcdef" if where(key, topic) != where("a", topic))

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        if event.key == slow:
            await let_go.wait()
        await have_effect(event, tx)

    await publish(log, ThingHappened(thing_id=slow, number=1), ThingHappened(thing_id=quick, number=2))
    async with consumer_running(consumer, database_url, log):
        await settled(connection, PROCESSED=1)
        assert await effects(connection) == [2]
        let_go.set()
        await settled(connection, PROCESSED=2)
    assert await effects(connection) == [2, 1]


def where(key: str, topic: str) -> TopicPartition:
    return TopicPartition(topic, partition_of(key_hash(key.encode()), 8))
