"""Locks, cancelled statements and a server that takes no writes cost no attempt, and do not end the consumer."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

import asyncpg
import pytest
from structlog.testing import capture_logs

from surefoot.consumer import Consumer, Retry, Transaction
from surefoot.events import Event
from surefoot.log.port import key_hash
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.controls import settled_as
from tests.support.consumer.effects import effects, have_effect
from tests.support.consumer.failures import NOT_SOON, keys_together, letters, parked, settled
from tests.support.consumer.processes import consumer_running, publish
from tests.support.event_types import ThingHappened
from tests.support.waiting import eventually

KEY, OTHER = keys_together(2)
ONCE = Retry(attempts=1)
AGAIN_AND_AGAIN = Retry(attempts=1000, first=timedelta(milliseconds=10), longest=timedelta(milliseconds=40))
TWICE = Retry(attempts=2, first=timedelta(milliseconds=10), longest=timedelta(milliseconds=10))
HASTY = {"lock_timeout": timedelta(milliseconds=50)}
LOCKED_TIMES = 12
"""So many statements of the consumer meet the lock; nine lock timeouts of an event's own are free."""
READ_ONLY_S = 2.0
WAITS = "application_name LIKE 'warehouse-%' AND wait_event_type = 'Lock' AND datname = current_database()"
LOCK_IS_AWAY = "a lock in the database that the consumer needs is away"


@asynccontextmanager
async def foreign_transaction(url: str, statement: str, *values: object) -> AsyncIterator[None]:
    """Somebody else's, open while the block runs, with what the statement locks."""
    other = await asyncpg.connect(url)
    try:
        async with other.transaction():
            await other.execute(statement, *values)
            yield
    finally:
        await other.close()


async def lock_is_met(connection: asyncpg.Connection) -> None:
    """Wait until so many statements of the consumer have waited for a lock."""
    met: set[tuple[int, object]] = set()

    async def often_enough() -> bool:
        met.update(map(tuple, await connection.fetch(f"SELECT pid, query_start FROM pg_stat_activity WHERE {WAITS}")))
        return len(met) >= LOCKED_TIMES

    await eventually(often_enough, what=f"{LOCKED_TIMES} statements have met the lock")


def warehouse(retry: Retry = ONCE) -> Consumer:
    consumer = Consumer("warehouse", retry=retry)
    consumer.on(ThingHappened)(have_effect)
    return consumer


@pytest.mark.parametrize("table", ["processed_events", "consumer_partitions"])
async def test_a_locked_table_of_ours_costs_no_attempt(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, table: str
) -> None:
    """With one attempt, the first that is counted would be the last."""
    (before,) = await publish(log, ThingHappened(thing_id=KEY, number=0))
    async with consumer_running(warehouse(), database_url, log, **HASTY):
        await settled_as(connection, [before], "PROCESSED")
        async with foreign_transaction(database_url, f"LOCK TABLE surefoot.{table} IN SHARE MODE"):
            await publish(log, *(ThingHappened(thing_id=key, number=1) for key in (KEY, OTHER)))
            await lock_is_met(connection)
        await settled(connection, PROCESSED=3)
    assert await effects(connection) == [0, 1, 1]
    assert await letters(connection) == []


@pytest.mark.parametrize("table", ["processed_events", "parked_events", "consumer_partitions"])
async def test_a_locked_table_of_ours_costs_a_parked_event_no_attempt(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, table: str
) -> None:
    """The lock comes while its last attempt is under way."""
    consumer = Consumer("warehouse", retry=TWICE)
    under_way, locked = asyncio.Event(), asyncio.Event()
    tried = 0

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        nonlocal tried
        tried += 1
        if tried == 1:
            raise RuntimeError("the first attempt fails")
        under_way.set()
        await locked.wait()
        await have_effect(event, tx)

    await publish(log, ThingHappened(thing_id=KEY, number=1))
    async with consumer_running(consumer, database_url, log, **HASTY):
        await under_way.wait()
        async with foreign_transaction(database_url, f"LOCK TABLE surefoot.{table} IN SHARE MODE"):
            locked.set()
            await lock_is_met(connection)
            assert [row["attempts"] for row in await parked(connection)] == [1]
        await settled(connection, PROCESSED=1)
    assert tried > 2
    assert await effects(connection) == [1]
    assert await letters(connection) == []


# Its row is written by Batches._write outside of `own()`: the lock timeout is taken for the event's own.
async def test_an_event_that_waits_for_its_key_keeps_its_place_while_the_parking_table_is_locked(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse", retry=NOT_SOON)

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        if event.data.number == 1:
            raise RuntimeError("not yet")
        await have_effect(event, tx)

    await publish(log, ThingHappened(thing_id=KEY, number=1))
    async with consumer_running(consumer, database_url, log, **HASTY):
        await settled(connection, PARKED=1)
        async with foreign_transaction(database_url, "LOCK TABLE surefoot.parked_events IN SHARE MODE"):
            await publish(log, ThingHappened(thing_id=KEY, number=2))
            await lock_is_met(connection)
        await settled(connection, PARKED=2)
    assert [(row["state"], row["attempts"]) for row in await parked(connection)] == [("DUE", 1), ("WAITING", 0)]


async def test_a_statement_of_ours_that_is_cancelled_costs_no_attempt(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    """57014, as a statement_timeout or an administrator would have it."""

    async def cancelled() -> list[asyncpg.Record]:
        found: list[asyncpg.Record] = await connection.fetch(
            f"SELECT pid, query_start, pg_cancel_backend(pid) FROM pg_stat_activity WHERE {WAITS}"
        )
        return found

    async def has_ended(statement: asyncpg.Record) -> bool:
        """The consumer may wait with the next statement already."""
        still = f"SELECT count(*) FROM pg_stat_activity WHERE {WAITS} AND (pid, query_start) = ($1, $2)"
        return bool(await connection.fetchval(still, statement["pid"], statement["query_start"]) == 0)

    async with consumer_running(warehouse(), database_url, log, lock_timeout=timedelta(seconds=15)):
        async with foreign_transaction(database_url, "LOCK TABLE surefoot.processed_events IN SHARE MODE"):
            await publish(log, ThingHappened(thing_id=KEY, number=1))
            for _ in range(3):
                for statement in await eventually(cancelled, what="a statement that waits is cancelled"):
                    await eventually(partial(has_ended, statement), what="it has ended")
        await settled(connection, PROCESSED=1)
    assert await effects(connection) == [1]
    assert await letters(connection) == []


async def test_a_key_lock_of_the_outbox_that_somebody_holds_costs_no_attempt(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse", retry=ONCE)

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        await have_effect(event, tx)
        tx.publish(ThingHappened(thing_id="told", number=event.data.number))

    lock = "SELECT pg_advisory_xact_lock(1937076838, $1::int % 512)"
    async with consumer_running(consumer, database_url, log, **HASTY):
        async with foreign_transaction(database_url, lock, key_hash(b"told")):
            await publish(log, ThingHappened(thing_id=KEY, number=1))
            await lock_is_met(connection)
            assert await parked(connection) == []
            assert await effects(connection) == []
        await settled(connection, PROCESSED=1)
    assert await effects(connection) == [1]
    assert await letters(connection) == []


async def test_a_lock_that_keeps_the_consumer_waiting_is_told_of(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    with capture_logs() as lines:

        async def is_told() -> bool:
            return any(line["event"].startswith(LOCK_IS_AWAY) and line["log_level"] == "warning" for line in lines)

        async def is_over() -> bool:
            return any(line["event"] == LOCK_IS_AWAY.removesuffix("away") + "back" for line in lines)

        async with consumer_running(warehouse(), database_url, log):
            async with foreign_transaction(database_url, "LOCK TABLE surefoot.processed_events IN SHARE MODE"):
                await publish(log, ThingHappened(thing_id=KEY, number=1))
                await eventually(is_told, what="a line says that a lock is not to be had")
                assert await effects(connection) == []
            await settled(connection, PROCESSED=1)
            await eventually(is_over, what="a line says that the lock is to be had again")
    assert await effects(connection) == [1]


async def test_a_server_that_takes_no_writes_for_a_while_is_waited_for(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    """As after a switch-over. The log stands for Kafka here: it is not concerned."""
    elsewhere = PostgresLog(database_url + "?options=-c%20default_transaction_read_only%3Doff")
    name = await connection.fetchval("SELECT current_database()")
    with capture_logs() as lines:

        async def is_told() -> bool:
            return any(line["event"].startswith("the database is away") for line in lines)

        async with consumer_running(warehouse(), database_url, elsewhere):
            await publish(elsewhere, ThingHappened(thing_id=KEY, number=1))
            await settled(connection, PROCESSED=1)
            await connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'warehouse-%'"
                " AND datname = current_database()"
            )
            await publish(elsewhere, *(ThingHappened(thing_id=key, number=2) for key in (KEY, OTHER)))
            await eventually(is_told, what="a line says that the database is away")
            await asyncio.sleep(READ_ONLY_S)  # the outage itself
            assert await parked(connection) == []
            await connection.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
            await settled(connection, PROCESSED=3)
    await elsewhere.close()
    assert await effects(connection) == [1, 2, 2]
    assert await letters(connection) == []


@pytest.mark.slow
async def test_parked_keys_that_fail_slowly_do_not_keep_a_healthy_key_waiting(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse", retry=AGAIN_AND_AGAIN)
    healthy, *others = keys_together(21)
    tried: set[int] = set()
    slow = asyncio.Event()

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        if event.key != healthy:
            if event.data.number in tried and len(tried) == len(others):
                slow.set()
                await asyncio.sleep(2)  # it takes so long to fail
            tried.add(event.data.number)
            raise RuntimeError("no")
        await have_effect(event, tx)

    await publish(log, *(ThingHappened(thing_id=key, number=n) for n, key in enumerate(others)))
    async with consumer_running(consumer, database_url, log):
        await settled(connection, PARKED=20)
        await slow.wait()
        began = time.monotonic()
        (event,) = await publish(log, ThingHappened(thing_id=healthy, number=100))
        await settled_as(connection, [event], "PROCESSED")
        assert time.monotonic() - began < 30  # one after the other they take forty seconds, again and again
