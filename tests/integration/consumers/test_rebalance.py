"""Members come and go while events flow: every effect once, in order per key; and a member that stops does it well."""

import asyncio
import time
from datetime import timedelta

import asyncpg
import pytest

from surefoot.consumer import Consumer, Retry, Transaction, Transient
from surefoot.consumer_runtime.runtime import POLL, ConsumerRuntime
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.events import Event
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.effects import effects, have_effect
from tests.support.consumer.failures import AT_ONCE, letters, settled, worked_off
from tests.support.consumer.processes import QUICK, consumer_running, publish
from tests.support.event_types import ThingHappened
from tests.support.waiting import eventually

KEYS = 30
PATIENT = Retry(attempts=1000, first=timedelta(milliseconds=5), longest=timedelta(milliseconds=20))


def members_consumer(failing: bool) -> Consumer:
    """Each member declares its own, as a process would."""
    consumer = Consumer("warehouse", retry=PATIENT)
    failed: set[str] = set()

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        await have_effect(event, tx)
        if failing and event.data.number % 17 == 0 and event.id not in failed:
            failed.add(event.id)
            raise Transient("the first time it fails")

    return consumer


@pytest.mark.crowd
async def test_members_that_join_and_leave_while_events_flow_double_and_reorder_nothing(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    published = 0
    done = asyncio.Event()

    async def write() -> None:
        nonlocal published
        while not done.is_set():
            lot = range(published, published + 30)
            await publish(log, *(ThingHappened(thing_id=f"key-{n % KEYS}", number=n) for n in lot))
            published += 30

    async with consumer_running(members_consumer(True), database_url, log, batch_records=20) as first:
        writing = asyncio.create_task(write())
        for _ in range(3):
            async with consumer_running(members_consumer(True), database_url, log, batch_records=20) as second:

                async def shared(second: ConsumerRuntime = second) -> bool:
                    return len(second.next_offsets) == 4 and len(first.next_offsets) == 4

                await eventually(shared, what="the partitions are shared")
                before = await count(connection)

                async def moves(before: int = before) -> bool:
                    return await count(connection) > before + 100

                await eventually(moves, what="events flow")

            async def alone() -> bool:
                return len(first.next_offsets) == 8

            await eventually(alone, what="the first has all partitions again")
        done.set()
        await writing
        await settled(connection, PROCESSED=published)

    for key in range(KEYS):
        assert await effects(connection, f"key-{key}") == list(range(key, published, KEYS))
    assert await letters(connection) == []


async def test_a_member_that_stops_finishes_the_batch_it_is_in(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse")
    began = asyncio.Event()

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        began.set()
        if event.data.number == 0:
            await asyncio.sleep(2 * POLL.total_seconds())  # longer than it takes to notice that it is to stop
        await have_effect(event, tx)

    await publish(log, *(ThingHappened(thing_id="a", number=n) for n in range(4)))
    async with consumer_running(consumer, database_url, log, batch_records=2, handover=timedelta(seconds=10)):
        await asyncio.wait_for(began.wait(), 60)
    assert await effects(connection) == [0, 1]
    assert await connection.fetchval("SELECT sum(next_offset) FROM surefoot.consumer_partitions") == 2


async def test_a_batch_that_outlasts_the_handover_is_undone_and_done_by_the_next_one(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse", retry=AT_ONCE)
    hanging = asyncio.Event()

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        await have_effect(event, tx)
        if event.data.number == 1 and not hanging.is_set():
            hanging.set()
            await asyncio.sleep(3600)

    await publish(log, ThingHappened(thing_id="a", number=0), ThingHappened(thing_id="a", number=1))
    async with consumer_running(consumer, database_url, log, handover=timedelta(milliseconds=300)):
        await asyncio.wait_for(hanging.wait(), 60)
    assert await effects(connection) == []
    async with consumer_running(consumer, database_url, log):
        await settled(connection, PROCESSED=2)
    assert await effects(connection) == [0, 1]


async def test_an_idle_member_stops_at_once(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse")
    consumer.on(ThingHappened)(have_effect)
    await publish(log, ThingHappened(thing_id="a", number=1))
    runtime = ConsumerRuntime(consumer, database_url, log, ConsumerSettings(**QUICK))  # type: ignore[arg-type]
    running = asyncio.create_task(runtime.run())
    await worked_off(connection, 1)
    began = time.monotonic()
    runtime.stop()
    await running
    assert time.monotonic() - began < 30


async def test_a_key_that_is_parked_goes_on_with_the_next_owner(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    healthy = Consumer("warehouse", retry=PATIENT)
    healthy.on(ThingHappened)(have_effect)
    broken = Consumer("warehouse", retry=PATIENT)

    @broken.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        raise Transient("not here")

    await publish(log, *(ThingHappened(thing_id="a", number=n) for n in range(3)))
    async with consumer_running(broken, database_url, log):
        await settled(connection, PARKED=3)
    await publish(log, ThingHappened(thing_id="a", number=3))
    async with consumer_running(healthy, database_url, log):
        await settled(connection, PROCESSED=4)
    assert await effects(connection) == [0, 1, 2, 3]


async def count(connection: asyncpg.Connection) -> int:
    found: int = await connection.fetchval("SELECT count(*) FROM effects")
    return found
