"""A batch is one transaction; a failure in it costs only its own event."""

import asyncio
import gc
from datetime import timedelta
from decimal import Decimal
from functools import partial

import asyncpg
import pytest
from sqlalchemy import BigInteger, FetchedValue, Integer, Text, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from surefoot.consumer import Consumer, Permanent, Transaction
from surefoot.consumer_runtime.worker import Worker
from surefoot.database.guard import GuardedSession
from surefoot.events import Event, Money
from surefoot.log.port import TopicPartition
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.effects import effects, have_effect
from tests.support.consumer.failures import NOT_SOON, keys_together, settled, worked_off
from tests.support.consumer.processes import consumer_running, publish
from tests.support.event_types import ThingHappened, ThingPaid
from tests.support.waiting import eventually


class Base(DeclarativeBase):
    pass


class Effect(Base):
    __tablename__ = "effects"

    n: Mapped[int] = mapped_column(BigInteger, FetchedValue(), primary_key=True)
    event_id: Mapped[str] = mapped_column(Text)
    key: Mapped[str] = mapped_column(Text)
    number: Mapped[int] = mapped_column(Integer)


def happened(*numbers: int, key: str = "a") -> list[ThingHappened]:
    return [ThingHappened(thing_id=key, number=number) for number in numbers]


async def test_a_batch_is_one_transaction(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse")
    consumer.on(ThingHappened)(have_effect)
    await publish(log, *happened(*range(50)))
    async with consumer_running(consumer, database_url, log):
        await worked_off(connection, 50)
    assert await effects(connection) == list(range(50))
    assert await transactions(connection) == 1


async def test_a_batch_that_is_over_leaves_nothing_in_memory(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    """Sessions were once remembered for ever: after 60,000 batches, the collector stopped all work for a second."""
    before = sessions_in_memory()  # an error that an earlier test keeps may have one in its traceback
    consumer = Consumer("warehouse")
    consumer.on(ThingHappened)(have_effect)
    await publish(log, *happened(*range(30)))
    async with consumer_running(consumer, database_url, log, batch_records=1):
        await worked_off(connection, 30)
        assert await transactions(connection) == 30
        assert [one for one in sessions_in_memory() if one not in before] == []


def sessions_in_memory() -> list[GuardedSession]:
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, GuardedSession)]


async def test_a_batch_has_no_more_records_than_the_settings_say(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse")
    consumer.on(ThingHappened)(have_effect)
    await publish(log, *happened(*range(50)))
    async with consumer_running(consumer, database_url, log, batch_records=20):
        await worked_off(connection, 50)
    assert await effects(connection) == list(range(50))
    assert await transactions(connection) == 3


async def test_what_comes_while_a_partition_waits_for_its_turn_is_in_its_batch(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    """One connection; while its batch goes on, events of another partition come one by one."""
    consumer = Consumer("warehouse")
    begun, may_end = asyncio.Event(), asyncio.Event()
    (busy,), (waiting,) = keys_together(1, partition=0), keys_together(1, partition=1)

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        if event.key == busy:
            begun.set()
            await may_end.wait()
        await have_effect(event, tx)

    await publish(log, *happened(0, key=busy))
    patience = timedelta(minutes=5)  # the batch that has to wait is no reason to take smaller ones
    async with consumer_running(consumer, database_url, log, concurrency=1, batch_time=patience) as runtime:
        await asyncio.wait_for(begun.wait(), 60)
        worker = runtime.partitions.workers[TopicPartition(topic, 1)]
        for number in range(1, 6):
            await publish(log, *happened(number, key=waiting))
            await eventually(partial(_holds, worker, number), what=f"{number} events wait")
        may_end.set()
        await worked_off(connection, 6)
    assert await effects(connection, waiting) == [1, 2, 3, 4, 5]
    assert await transactions(connection) == 2


async def _holds(worker: Worker, count: int) -> bool:
    return len(worker.buffer) == count


async def test_the_second_of_two_deliveries_in_one_batch_is_a_duplicate(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse")
    consumer.on(ThingHappened)(have_effect)
    (first,) = await publish(log, *happened(1))
    async with consumer_running(consumer, database_url, log):
        await worked_off(connection, 1)
    (second,) = await publish(log, *happened(2))
    await publish(log, first, second, *happened(3), second, first)
    async with consumer_running(consumer, database_url, log):
        await worked_off(connection, 7)
    assert await effects(connection) == [1, 2, 3]
    assert await transactions(connection) == 2


async def test_a_handler_that_fails_in_the_middle_costs_only_its_own_event(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse", retry=NOT_SOON)
    failing = {3, 11, 12}

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        await have_effect(event, tx)
        if event.data.number in failing:
            raise ValueError("not today")

    keys = keys_together(20)
    await publish(log, *(ThingHappened(thing_id=keys[n], number=n) for n in range(20)))
    async with consumer_running(consumer, database_url, log):
        await settled(connection, PROCESSED=17, PARKED=3)
    assert await effects(connection) == [n for n in range(20) if n not in failing]


async def test_what_a_failed_handler_published_is_not_in_the_outbox(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse", retry=NOT_SOON)

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        tx.publish(ThingHappened(thing_id="told", number=event.data.number))
        if event.data.number == 1:
            raise ValueError("not today")

    keys = keys_together(3)
    await publish(log, *(ThingHappened(thing_id=keys[n], number=n) for n in range(3)))
    async with consumer_running(consumer, database_url, log):
        await settled(connection, PROCESSED=2, PARKED=1)
    assert await published_numbers(connection) == [0, 2]


async def test_a_batch_handler_gets_runs_of_its_type_in_order(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse")
    calls: list[list[int]] = []

    @consumer.on_batch(ThingHappened)
    async def together(events: list[Event[ThingHappened]], tx: Transaction) -> None:
        calls.append([event.data.number for event in events])
        for event in events:
            await have_effect(event, tx)
            tx.publish(ThingHappened(thing_id="told", number=event.data.number), caused_by=event)

    @consumer.on(ThingPaid)
    async def paid(event: Event[ThingPaid], tx: Transaction) -> None:
        calls.append([-1])

    price = Money(Decimal("1.00"), "EUR")
    await publish(log, *happened(1, 2, 3), ThingPaid(thing_id="a", price=price), *happened(4, 5))
    async with consumer_running(consumer, database_url, log):
        await worked_off(connection, 6)
    assert calls == [[1, 2, 3], [-1], [4, 5]]
    assert await effects(connection) == [1, 2, 3, 4, 5]
    assert await published_numbers(connection) == [1, 2, 3, 4, 5]


async def test_a_batch_handler_that_fails_is_tried_with_fewer_until_the_culprit_stands_alone(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse")

    @consumer.on_batch(ThingHappened)
    async def together(events: list[Event[ThingHappened]], tx: Transaction) -> None:
        for event in events:
            await have_effect(event, tx)
        if any(event.data.number == 13 for event in events):
            raise Permanent("thirteen is not sold")

    keys = keys_together(32)
    events = await publish(log, *(ThingHappened(thing_id=keys[n], number=n) for n in range(32)))
    async with consumer_running(consumer, database_url, log):
        await settled(connection, PROCESSED=31, DEAD=1)
    assert await effects(connection) == [n for n in range(32) if n != 13]
    dead = await connection.fetchval("SELECT event_id FROM surefoot.parked_events")
    assert dead == events[13].id


async def test_what_is_added_to_the_session_is_flushed_before_the_end(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse")

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        tx.session.add(Effect(event_id=event.id, key=event.key, number=event.data.number))

    await publish(log, *happened(1, 2, 3))
    async with consumer_running(consumer, database_url, log):
        await worked_off(connection, 3)
    assert await effects(connection) == [1, 2, 3]


async def test_an_object_that_cannot_be_flushed_costs_only_its_own_event(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    """The database refuses it long after its handler has returned, or while another's is running."""
    await connection.execute("ALTER TABLE effects ADD CHECK (number <> 5)")
    consumer = Consumer("warehouse", retry=NOT_SOON)

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        tx.session.add(Effect(event_id=event.id, key=event.key, number=event.data.number))
        if event.data.number % 4 == 0:
            await tx.session.execute(text("SELECT 1 FROM effects"))

    keys = keys_together(12)
    events = await publish(log, *(ThingHappened(thing_id=keys[n], number=n) for n in range(12)))
    async with consumer_running(consumer, database_url, log):
        await settled(connection, PROCESSED=11, PARKED=1)
    assert sorted(await effects(connection)) == [n for n in range(12) if n != 5]
    assert await connection.fetchval("SELECT event_id FROM surefoot.parked_events") == events[5].id


async def test_a_savepoint_that_is_rolled_back_takes_its_rows_and_events_with_it(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse")

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        await have_effect(event, tx)
        tx.publish(ThingHappened(thing_id="told", number=event.data.number))
        async with tx.session.begin_nested() as savepoint:
            await have_effect(event, tx)
            tx.publish(ThingHappened(thing_id="told", number=-event.data.number))
            await savepoint.rollback()
        with pytest.raises(DBAPIError, match="division by zero"):
            async with tx.session.begin_nested():
                tx.publish(ThingHappened(thing_id="told", number=-100))
                await tx.session.execute(text("SELECT 1 / 0"))
        async with tx.session.begin_nested():
            await have_effect(event, tx)
            tx.publish(ThingHappened(thing_id="told", number=1000 + event.data.number))

    await publish(log, *happened(1, 2))
    async with consumer_running(consumer, database_url, log):
        await settled(connection, PROCESSED=2)
    assert await effects(connection) == [1, 1, 2, 2]
    assert await published_numbers(connection) == [1, 1001, 2, 1002]


async def transactions(connection: asyncpg.Connection) -> int:
    """In how many transactions the effects were written."""
    found: int = await connection.fetchval("SELECT count(DISTINCT xmin::text) FROM effects")
    return found


async def published_numbers(connection: asyncpg.Connection) -> list[int]:
    rows = await connection.fetch("SELECT (payload ->> 'number')::int FROM surefoot.outbox ORDER BY position")
    return [row[0] for row in rows]
