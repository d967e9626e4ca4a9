"""A handler that misuses its transaction: its event is tried again and dead in the end, and nobody else pays for it."""

import asyncio
import json
import random
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta

import asyncpg
import pytest
from sqlalchemy import text

from surefoot.consumer import Consumer, HandlerMisuse, Retry, Transaction
from surefoot.consumer_runtime.runtime import ConsumerRuntime
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.events import Event
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.effects import effects, have_effect
from tests.support.consumer.failures import AT_ONCE, keys_together, letters, parked, settled, worked_off
from tests.support.consumer.misuses import EVERY_MISUSE, Misuse
from tests.support.consumer.processes import QUICK, consumer_running, outcomes, publish
from tests.support.event_types import ThingHappened
from tests.support.waiting import eventually

SHORT = {"handler_timeout": timedelta(milliseconds=600), "lock_timeout": timedelta(milliseconds=300)}


@pytest.mark.parametrize("misuse", EVERY_MISUSE, ids=lambda misuse: misuse.__name__)
async def test_misuse_costs_only_its_own_event_which_is_dead_in_the_end(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, misuse: Misuse
) -> None:
    """Number 3 lets the error out, if there is one; number 5 swallows it."""
    await connection.execute("ALTER TABLE effects ALTER number SET NOT NULL")
    consumer = Consumer("warehouse", retry=AT_ONCE)

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        await have_effect(event, tx)
        tx.publish(ThingHappened(thing_id="told", number=event.data.number))
        if event.data.number == 3:
            await misuse(tx)
        if event.data.number == 5:
            with suppress(Exception):
                await misuse(tx)

    await nobody_else_pays(consumer, database_url, connection, log, misused=[3, 5])


@pytest.mark.parametrize("swallowed", [False, True], ids=["let out", "swallowed"])
async def test_a_handler_that_hangs_is_ended_and_counted(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, swallowed: bool
) -> None:
    retry = Retry(attempts=2, first=timedelta(milliseconds=10), longest=timedelta(milliseconds=10))
    consumer = Consumer("warehouse", retry=retry)

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        await have_effect(event, tx)
        tx.publish(ThingHappened(thing_id="told", number=event.data.number))
        if event.data.number == 3:
            if swallowed:
                with suppress(BaseException):
                    await asyncio.sleep(3600)
                raise RuntimeError("it was ended")
            await tx.session.execute(text("SELECT pg_sleep(3600)"))

    await nobody_else_pays(consumer, database_url, connection, log, attempts=2, **SHORT)  # type: ignore[arg-type]


async def cancel_itself() -> None:
    task = asyncio.create_task(asyncio.sleep(3600))
    task.cancel()
    await task


async def leave_the_program() -> None:
    sys.exit(3)


async def stop_a_generator() -> None:
    raise GeneratorExit


@pytest.mark.parametrize("end", [cancel_itself, leave_the_program, stop_a_generator], ids=lambda end: str(end.__name__))
async def test_a_handler_that_raises_what_is_no_ordinary_error_ends_nothing_but_itself(
    database_url: str,
    connection: asyncpg.Connection,
    log: PostgresLog,
    topic: str,
    end: Callable[[], Awaitable[None]],
) -> None:
    """A cancelled task that a handler waits for looks as if the consumer itself were cancelled."""
    consumer = Consumer("warehouse", retry=AT_ONCE)

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        await have_effect(event, tx)
        tx.publish(ThingHappened(thing_id="told", number=event.data.number))
        if event.data.number == 3:
            await end()

    await nobody_else_pays(consumer, database_url, connection, log)


async def test_a_handler_that_cancels_the_loop_it_runs_in_ends_the_consumer_with_a_sentence(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    """It cannot be told from a consumer that is being ended; what must not be is a partition that stands still."""
    consumer = Consumer("warehouse", retry=AT_ONCE)

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(3600)

    await publish(log, ThingHappened(thing_id="a", number=1))
    runtime = ConsumerRuntime(consumer, database_url, log, ConsumerSettings(**QUICK))  # type: ignore[arg-type]
    with pytest.raises(HandlerMisuse, match="cancelled the task it ran in"):
        await asyncio.wait_for(runtime.run(), 20)


@pytest.mark.slow
async def test_a_handler_that_tells_the_driver_to_commit_costs_nobody_else(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse", retry=AT_ONCE)

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        await have_effect(event, tx)
        tx.publish(ThingHappened(thing_id="told", number=event.data.number))
        if event.data.number == 3:
            raw = await (await tx.session.connection()).get_raw_connection()
            await raw.driver_connection.execute("COMMIT")  # type: ignore[union-attr]

    await nobody_else_pays(consumer, database_url, connection, log)


@pytest.mark.proof
async def test_whatever_handlers_do_each_event_has_one_effect_or_is_dead_without_any(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    """Two members, forty keys, and one in five handlers that misbehaves by chance, some of them every time."""
    await connection.execute("ALTER TABLE effects ALTER number SET NOT NULL")
    dice = random.Random(7)
    hopeless = {n for n in range(400) if dice.random() < 0.05}

    def member() -> Consumer:
        consumer = Consumer("warehouse", retry=AT_ONCE, when_dead="release")

        @consumer.on(ThingHappened)
        async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
            await have_effect(event, tx)
            tx.publish(ThingHappened(thing_id="told", number=event.data.number))
            if event.data.number in hopeless or dice.random() < 0.15:
                with suppress(Exception if dice.random() < 0.5 else KeyboardInterrupt):
                    await dice.choice(EVERY_MISUSE)(tx)

        return consumer

    await publish(log, *(ThingHappened(thing_id=f"key-{n % 40}", number=n) for n in range(400)))
    async with consumer_running(member(), database_url, log), consumer_running(member(), database_url, log):
        await worked_off(connection, 400)

        async def all_settled() -> bool:
            found = await outcomes(connection, "warehouse")
            return found.keys() <= {"PROCESSED", "DEAD"} and sum(found.values()) == 400

        try:
            await eventually(all_settled, what="each event is processed or dead")
        except AssertionError:
            waiting = [dict(row) for row in await parked(connection) if row["state"] != "DEAD"]
            raise AssertionError(f"{await outcomes(connection, 'warehouse')}; these still wait: {waiting}") from None

    dead = {json.loads(row["value"])["number"] for row in await parked(connection)}
    assert sorted(hopeless - dead) == []
    assert len(dead) < 100
    had = await effects(connection)
    assert sorted(had) == [n for n in range(400) if n not in dead]
    told = await connection.fetch("SELECT (payload ->> 'number')::int FROM surefoot.outbox WHERE key = 'told'")
    assert sorted(row[0] for row in told) == sorted(had)
    for key in range(40):
        numbers = await effects(connection, f"key-{key}")
        assert numbers == sorted(numbers)
    assert len(await letters(connection)) == len(dead)


async def test_the_sentence_says_what_the_handler_did(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse", retry=AT_ONCE)

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        with suppress(HandlerMisuse):
            await tx.session.commit()

    await publish(log, ThingHappened(thing_id="a", number=3))
    async with consumer_running(consumer, database_url, log):
        await settled(connection, DEAD=1)
    (row,) = await parked(connection)
    assert row["last_error"].startswith("The handler called commit() on its session")


async def nobody_else_pays(
    consumer: Consumer,
    database_url: str,
    connection: asyncpg.Connection,
    log: PostgresLog,
    *,
    misused: Sequence[int] = (3,),
    attempts: int = AT_ONCE.attempts,
    **settings: object,
) -> None:
    """Seven events in one batch, the handlers of some of which misbehave; and one that comes later."""
    keys = keys_together(7)
    events = await publish(log, *(ThingHappened(thing_id=keys[n], number=n) for n in range(7)))
    others = [n for n in range(7) if n not in misused]
    async with consumer_running(consumer, database_url, log, **settings):
        await settled(connection, PROCESSED=len(others), DEAD=len(misused))
        await publish(log, ThingHappened(thing_id=keys[0], number=7))
        await settled(connection, PROCESSED=len(others) + 1, DEAD=len(misused))
    assert await effects(connection) == [*others, 7]
    told = await connection.fetch("SELECT (payload ->> 'number')::int FROM surefoot.outbox WHERE key = 'told'")
    assert sorted(row[0] for row in told) == [*others, 7]
    rows = await parked(connection)
    assert [row["event_id"] for row in rows] == [events[n].id for n in misused]
    assert {(row["reason"], row["attempts"]) for row in rows} == {("out_of_attempts", attempts)}
    assert all(row["last_error"] for row in rows)
    assert {letter["surefoot-event-id"] for letter in await letters(connection)} == {events[n].id for n in misused}
