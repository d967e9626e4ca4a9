"""Locks and deadlocks are nobody's fault: they cost an event no attempt, up to a point. And what a handler may do."""

import asyncio
from contextlib import suppress
from datetime import timedelta

import asyncpg
from prometheus_client import REGISTRY
from sqlalchemy import select, text

from surefoot.consumer import Consumer, Retry, Transaction
from surefoot.events import Event
from surefoot.log.postgres.log import PostgresLog
from tests.integration.consumers.test_batches import Effect
from tests.support.consumer.effects import effects, have_effect
from tests.support.consumer.failures import AT_ONCE, keys_together, parked, settled
from tests.support.consumer.processes import consumer_running, publish
from tests.support.event_types import ThingHappened
from tests.support.waiting import eventually

SHELVES = "CREATE TABLE shelves (n int PRIMARY KEY, used int NOT NULL DEFAULT 0); INSERT INTO shelves VALUES (1), (2)"
USE = text("UPDATE shelves SET used = used + 1 WHERE n = :n")


async def test_batches_that_deadlock_are_taken_again_and_no_attempt_is_counted(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, topic_name: str
) -> None:
    await connection.execute(SHELVES)
    consumer = Consumer(f"deadlock-{topic_name}", retry=AT_ONCE)
    first_locked = {1: asyncio.Event(), 2: asyncio.Event()}

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        mine = event.data.number
        other = 3 - mine
        await tx.session.execute(USE, {"n": mine})
        first_locked[mine].set()
        with suppress(TimeoutError):  # later there is nobody to wait for
            await asyncio.wait_for(first_locked[other].wait(), 1)
        await tx.session.execute(USE, {"n": other})
        await have_effect(event, tx)

    one, other = keys_together(1, partition=0)[0], keys_together(1, partition=1)[0]
    await publish(log, ThingHappened(thing_id=one, number=1), ThingHappened(thing_id=other, number=2))
    async with consumer_running(consumer, database_url, log, lock_timeout=timedelta(seconds=5)):
        await settled(connection, consumer.name, PROCESSED=2)
    assert await connection.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") >= 1
    assert sorted(await effects(connection)) == [1, 2]
    assert await connection.fetchval("SELECT sum(used) FROM shelves") == 4
    assert attempts_counted(consumer) == 0


async def test_a_lock_that_somebody_holds_for_a_while_costs_no_attempt(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, topic_name: str
) -> None:
    await connection.execute(SHELVES)
    consumer = Consumer(f"lock-{topic_name}", retry=AT_ONCE)
    tries = using_shelf_one(consumer)
    holder = await asyncpg.connect(database_url)
    await holder.execute("BEGIN")
    await holder.execute("SELECT FROM shelves FOR UPDATE")
    await publish(log, ThingHappened(thing_id="a", number=1))
    async with consumer_running(consumer, database_url, log, lock_timeout=timedelta(milliseconds=50)):
        await eventually(lambda: reached(tries, 4), what="it is tried again")
        await holder.close()
        await settled(connection, consumer.name, PROCESSED=1)
    assert await connection.fetchval("SELECT used FROM shelves WHERE n = 1") == 1
    assert attempts_counted(consumer) == 0


async def test_a_lock_that_is_never_let_go_counts_from_the_tenth_try_on(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, topic_name: str
) -> None:
    await connection.execute(SHELVES)
    consumer = Consumer(f"locked-{topic_name}", retry=Retry(2, timedelta(milliseconds=10), timedelta(milliseconds=10)))
    tries = using_shelf_one(consumer)
    holder = await asyncpg.connect(database_url)
    try:
        await holder.execute("BEGIN")
        await holder.execute("SELECT FROM shelves FOR UPDATE")
        await publish(log, ThingHappened(thing_id="a", number=1))
        async with consumer_running(consumer, database_url, log, lock_timeout=timedelta(milliseconds=20)):
            await settled(connection, consumer.name, DEAD=1)
    finally:
        await holder.close()
    assert attempts_counted(consumer) == 2
    assert tries[0] == 20
    (row,) = await parked(connection)
    assert row["attempts"] == 2
    assert "lock timeout" in row["last_error"]


HARMLESS = [
    "SELECT 'COMMIT'",
    "/* COMMIT */ SELECT 1",
    "-- ROLLBACK\nSELECT 1",
    "SELECT 1 AS commit",
    "CREATE TEMP TABLE ends (n int) ON COMMIT DROP",
    "SAVEPOINT mine",
    "ROLLBACK TO SAVEPOINT mine",
    "rollback to mine",
    "RELEASE SAVEPOINT mine",
]


async def test_sql_that_only_looks_like_an_end_is_let_through(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse", retry=AT_ONCE)

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        for statement in HARMLESS:
            await tx.session.execute(text(statement))
        await have_effect(event, tx)

    await publish(log, ThingHappened(thing_id="a", number=1))
    async with consumer_running(consumer, database_url, log):
        await settled(connection, PROCESSED=1)
    assert await effects(connection) == [1]


async def test_one_handler_does_not_see_the_objects_of_a_batch_that_was_rolled_back(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse", retry=AT_ONCE)
    seen: list[list[int]] = []

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        tx.session.add(Effect(event_id=event.id, key=event.key, number=event.data.number))
        found = await tx.session.scalars(select(Effect.number).order_by(Effect.n))
        seen.append(list(found))
        if event.data.number == 2:
            raise ValueError("no")

    keys = keys_together(3)
    await publish(log, *(ThingHappened(thing_id=keys[n - 1], number=n) for n in (1, 2, 3)))
    async with consumer_running(consumer, database_url, log):
        await settled(connection, PROCESSED=2, DEAD=1)
    assert await effects(connection) == [1, 3]
    assert seen[:2] == [[1], [1, 2]]
    assert [1, 3] in seen
    assert [1, 2, 3] not in seen


def using_shelf_one(consumer: Consumer) -> list[int]:
    tries = [0]

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        tries[0] += 1
        await tx.session.execute(USE, {"n": 1})

    return tries


async def reached(tries: list[int], wanted: int) -> bool:
    return tries[0] >= wanted


def attempts_counted(consumer: Consumer) -> float:
    labels = {"consumer": consumer.name, "event_type": "thing.happened"}
    return REGISTRY.get_sample_value("surefoot_consumer_failed_attempts_total", labels) or 0.0
