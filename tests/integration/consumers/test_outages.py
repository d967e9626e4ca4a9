"""What a consumer needs is away for a while: nothing is lost, counted or dead, and it goes on by itself."""

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import asyncpg
import psycopg
import pytest
from prometheus_client import REGISTRY

from surefoot.consumer import Consumer, Transaction, Transient
from surefoot.consumer_runtime.runtime import ConsumerRuntime
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.database.embedded import EmbeddedPostgres
from surefoot.database.migrate import migrate
from surefoot.events import Event
from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.postgres.log import PostgresLog
from surefoot.testing.kafka import Broker
from tests.support.consumer.effects import EFFECTS, effects, have_effect
from tests.support.consumer.failures import (
    AT_ONCE,
    letters,
    parked,
    worked_off,
)
from tests.support.consumer.processes import QUICK, consumer_running, create_topics, publish
from tests.support.event_types import ThingHappened, ThingPaid, things_on
from tests.support.postgres_servers import postgres
from tests.support.waiting import eventually

AWAY_S = 15.0 if os.environ.get("SUREFOOT_SOAK") else 5.0


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    """A server that these tests may stop."""
    with postgres() as server:
        yield server


@pytest.fixture
async def own_url(server: EmbeddedPostgres) -> AsyncIterator[str]:
    """A migrated database with the table of effects, on the server that may be stopped."""
    await asyncio.to_thread(server.start)
    name = f"test_{uuid.uuid4().hex[:16]}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url = server.url.removesuffix("/postgres") + f"/{name}"
    await migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(EFFECTS)
    yield url
    await asyncio.to_thread(server.start)


@pytest.mark.crowd
@pytest.mark.parametrize("immediate", [False, True], ids=["shut down", "crashed"])
async def test_the_database_is_away_for_some_seconds(
    own_url: str, server: EmbeddedPostgres, log: PostgresLog, topic: str, topic_name: str, immediate: bool
) -> None:
    """The log is elsewhere, so that new records come while the database is away."""
    consumer = Consumer(f"away-{topic_name}", retry=AT_ONCE)
    failing = {100, 101}

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        await have_effect(event, tx)
        if event.data.number in failing:
            raise Transient("not yet")
        await asyncio.sleep(0.01)

    await publish(log, *(ThingHappened(thing_id=f"key-{n % 10}", number=n) for n in range(200)))
    async with consumer_running(consumer, own_url, log, batch_records=10):
        await have_effects(own_url, 20)
        failing.clear()  # whatever is parked by now is due while the database is away
        await asyncio.to_thread(server.stop, immediate=immediate)
        await publish(log, *(ThingHappened(thing_id=f"key-{n % 10}", number=n) for n in range(200, 300)))
        await asyncio.sleep(AWAY_S)  # the outage itself
        await asyncio.to_thread(server.start)
        await have_effects(own_url, 300)
        await publish(log, *(ThingHappened(thing_id=f"key-{n % 10}", number=n) for n in range(300, 310)))
        await have_effects(own_url, 310)

    connection = await asyncpg.connect(own_url)
    try:
        for key in range(10):
            assert await effects(connection, f"key-{key}") == list(range(key, 310, 10))
        assert await letters(connection) == []
        assert await parked(connection) == []
    finally:
        await connection.close()
    assert (attempts_counted(consumer) or 0) <= 2  # of 100 and 101, before
    assert outages(consumer, "the database") >= 1


@pytest.mark.slow
async def test_the_database_with_the_log_in_it_is_away(own_url: str, server: EmbeddedPostgres, topic_name: str) -> None:
    consumer = Consumer(f"all-away-{topic_name}", retry=AT_ONCE)
    consumer.on(ThingHappened)(have_effect)
    log = PostgresLog(own_url)
    await create_topics(log, topic_name)
    with things_on(topic_name):
        async with consumer_running(consumer, own_url, log):
            await publish(log, *(ThingHappened(thing_id=f"key-{n % 10}", number=n) for n in range(100)))
            await have_effects(own_url, 100)
            await asyncio.to_thread(server.stop)
            await asyncio.sleep(2)  # the outage itself
            await asyncio.to_thread(server.start)
            await publish(log, *(ThingHappened(thing_id=f"key-{n % 10}", number=n) for n in range(100, 200)))
            await have_effects(own_url, 200)
    await log.close()
    assert attempts_counted(consumer) is None


@pytest.mark.slow
async def test_a_consumer_that_starts_while_the_database_is_away_waits_for_it(
    own_url: str, server: EmbeddedPostgres, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse", retry=AT_ONCE)
    consumer.on(ThingHappened)(have_effect)
    await publish(log, ThingHappened(thing_id="a", number=1))
    await asyncio.to_thread(server.stop)
    async with consumer_running(consumer, own_url, log):
        await asyncio.sleep(1)  # the outage itself
        await asyncio.to_thread(server.start)
        await have_effects(own_url, 1)


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.promise("P6b")
async def test_kafka_assigns_partitions_while_the_database_is_away(
    own_url: str, server: EmbeddedPostgres, kafka: Broker, topic_name: str
) -> None:
    log = KafkaLog(KafkaSettings(bootstrap_servers=kafka.address, session_timeout=timedelta(seconds=3)))
    await create_topics(log, topic_name)
    consumer = Consumer(f"kafka-away-{topic_name}", retry=AT_ONCE)
    consumer.on(ThingHappened)(have_effect)
    with things_on(topic_name):
        await publish(log, *(ThingHappened(thing_id=f"key-{n}", number=n) for n in range(20)))
        await asyncio.to_thread(server.stop)
        async with consumer_running(consumer, own_url, log) as runtime:

            async def noticed() -> bool:
                return outages(consumer, "the database") >= 1

            await eventually(noticed, what="it has noticed that the database is away")
            assert runtime.next_offsets == {}
            await asyncio.to_thread(server.start)
            await have_effects(own_url, 20)
            await asyncio.to_thread(server.stop)
            async with consumer_running(consumer, own_url, log):  # all partitions are taken back and shared anew
                await publish(log, *(ThingHappened(thing_id=f"key-{n}", number=n) for n in range(20, 40)))
                await asyncio.to_thread(server.start)
                await have_effects(own_url, 40)
    await log.close()
    assert attempts_counted(consumer) is None


@pytest.mark.slow
async def test_partitions_that_move_while_the_database_is_away_are_worked_on_when_it_is_back(
    own_url: str, server: EmbeddedPostgres, database_url: str, connection: asyncpg.Connection, topic: str
) -> None:
    consumer = Consumer("warehouse", retry=AT_ONCE)
    consumer.on(ThingHappened)(have_effect)
    log = PostgresLog(database_url)
    async with consumer_running(consumer, own_url, log) as first:
        await publish(log, *(ThingHappened(thing_id=f"key-{n % 20}", number=n) for n in range(100)))
        await have_effects(own_url, 100)
        await asyncio.to_thread(server.stop)
        async with consumer_running(consumer, own_url, log):

            async def shared() -> bool:
                return len(first.next_offsets) == 4

            await eventually(shared, what="the first gives half of its partitions to the second")
            await publish(log, *(ThingHappened(thing_id=f"key-{n % 20}", number=n) for n in range(100, 200)))
            await asyncio.to_thread(server.start)
            await have_effects(own_url, 200)
    await log.close()


@pytest.mark.slow
async def test_a_consumer_can_be_stopped_while_the_database_is_away(
    own_url: str, server: EmbeddedPostgres, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse", retry=AT_ONCE)
    consumer.on(ThingHappened)(have_effect)
    runtime = ConsumerRuntime(consumer, own_url, log, ConsumerSettings(**QUICK))  # type: ignore[arg-type]
    running = asyncio.create_task(runtime.run())
    await publish(log, *(ThingHappened(thing_id=f"key-{n}", number=n) for n in range(20)))
    await have_effects(own_url, 20)
    await asyncio.to_thread(server.stop)
    await publish(log, *(ThingHappened(thing_id=f"key-{n}", number=n) for n in range(20, 40)))

    async def noticed() -> bool:
        return outages(consumer, "the database") >= 1

    await eventually(noticed, what="it has noticed that the database is away")
    began = time.monotonic()
    runtime.stop()
    await asyncio.wait_for(running, 60)
    assert time.monotonic() - began < 30
    await asyncio.to_thread(server.start)
    async with consumer_running(consumer, own_url, log):
        await have_effects(own_url, 40)


BREAKS_THREE_TIMES = """
    CREATE SEQUENCE tries;
    CREATE FUNCTION break_off() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF nextval('tries') <= 3 THEN RAISE EXCEPTION 'terminating connection' USING ERRCODE = '57P01'; END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER break_off BEFORE UPDATE OF next_offset ON surefoot.consumer_partitions
        FOR EACH ROW WHEN (OLD.next_offset IS NOT NULL) EXECUTE FUNCTION break_off();
"""


async def test_a_connection_that_breaks_over_a_record_without_a_handler_does_not_end_the_consumer(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    """The database answers when it is asked again, and there is no handler whose fault it could be."""
    await connection.execute(BREAKS_THREE_TIMES)
    consumer = Consumer("warehouse")
    consumer.on(ThingPaid)(have_effect)
    await publish(log, ThingHappened(thing_id="a", number=1))
    async with consumer_running(consumer, database_url, log):
        await worked_off(connection, 1)
    assert await connection.fetchval("SELECT last_value FROM tries") == 4
    assert await connection.fetchval("SELECT sum(ignored) FROM surefoot.consumer_partitions") == 1


async def have_effects(url: str, count: int) -> None:
    async def look() -> bool:
        connection = await asyncpg.connect(url)
        try:
            found: int = await connection.fetchval("SELECT count(*) FROM effects")
        finally:
            await connection.close()
        return found >= count

    await eventually(look, what=f"{count} effects")


def attempts_counted(consumer: Consumer) -> float | None:
    labels = {"consumer": consumer.name, "event_type": "thing.happened"}
    return REGISTRY.get_sample_value("surefoot_consumer_failed_attempts_total", labels)


def outages(consumer: Consumer, what: str) -> float:
    labels = {"consumer": consumer.name, "what": what}
    return REGISTRY.get_sample_value("surefoot_consumer_outages_total", labels) or 0.0
