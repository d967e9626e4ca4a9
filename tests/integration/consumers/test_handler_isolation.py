"""A handler or a control record that does harm makes its own event dead. The other events are handled as usual."""

import json
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest
from sqlalchemy import text

from surefoot.consumer import Consumer, Transaction
from surefoot.events import Event, new_event
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.controls import control_record, settled_as, tell
from tests.support.consumer.effects import effects, have_effect
from tests.support.consumer.failures import AT_ONCE, keys_together, letters, parked, settled
from tests.support.consumer.processes import consumer_running, publish
from tests.support.event_types import ThingHappened

BEFORE, EVIL, AFTER = keys_together(3)
TENANT = "CREATE SCHEMA tenant; CREATE TABLE tenant.effects (LIKE public.effects INCLUDING IDENTITY)"


def warehouse(misuse: Callable[[Transaction], Any]) -> Consumer:
    """Number 0 misuses its transaction, all others have their effect."""
    consumer = Consumer("warehouse", retry=AT_ONCE)

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        if event.data.number == 0:
            await misuse(tx)
        else:
            await have_effect(event, tx)

    return consumer


def sending(statement: str) -> Consumer:
    return warehouse(lambda tx: tx.session.execute(text(statement)))


def around_the_evil() -> list[ThingHappened]:
    """One batch, the evil one in the middle."""
    return [ThingHappened(thing_id=key, number=n) for key, n in ((BEFORE, 1), (EVIL, 0), (AFTER, 2))]


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("SET search_path TO tenant, public", "SET"),
        ("/* mine */ set SESSION statement_timeout = 10", "SET"),
        ("RESET ALL", "RESET"),
        ("DEALLOCATE ALL", "DEALLOCATE"),
        ("LISTEN things", "LISTEN"),
    ],
)
async def test_a_setting_that_would_outlive_the_transaction_is_refused(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, statement: str, what: str
) -> None:
    await connection.execute(TENANT)
    await publish(log, *around_the_evil())
    async with consumer_running(sending(statement), database_url, log, concurrency=1):
        await settled(connection, PROCESSED=2, DEAD=1)
        for number in (3, 4):  # on the same connection: there is only one
            later = await publish(log, ThingHappened(thing_id=AFTER, number=number))
            await settled_as(connection, later, "PROCESSED")
    assert await effects(connection) == [1, 2, 3, 4]
    (dead,) = await parked(connection)
    assert (dead["key"], dead["state"]) == (EVIL, "DEAD")
    assert dead["last_error"].startswith(f"The handler sent {what}, which would outlive its transaction")


@pytest.mark.parametrize(
    "statement",
    ["SELECT set_config('search_path', 'tenant, public', false)", "SET LOCAL search_path TO tenant, public"],
    ids=["set_config", "SET LOCAL"],
)
async def test_a_setting_that_is_allowed_does_not_leak_into_later_batches(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, statement: str
) -> None:
    await connection.execute(TENANT)
    (evil,) = await publish(log, ThingHappened(thing_id=EVIL, number=0))
    async with consumer_running(sending(statement), database_url, log, concurrency=1):
        await settled_as(connection, [evil], "PROCESSED")
        for number in (1, 2):
            later = await publish(log, ThingHappened(thing_id=AFTER, number=number))
            await settled_as(connection, later, "PROCESSED")
    assert await effects(connection) == [1, 2]
    assert await connection.fetchval("SELECT count(*) FROM tenant.effects") == 0


# SQLAlchemy's wrapper of the driver's error keeps the message and drops the HINT.
async def test_whoever_makes_all_constraints_immediate_is_told_what_to_do_instead(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await publish(log, *around_the_evil())
    async with consumer_running(sending("SET CONSTRAINTS ALL IMMEDIATE"), database_url, log):
        await settled(connection, PROCESSED=2, DEAD=1)
    assert await effects(connection) == [1, 2]
    (dead,) = await parked(connection)
    assert "name its own constraints instead of ALL" in dead["last_error"]


class NothingToAskFor(Exception):
    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


class NoWords(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


@pytest.mark.parametrize(
    "error",
    [
        NothingToAskFor("x"),
        NoWords(),
        SyntaxError("x", ("f", "a", 1, 5)),  # type: ignore[arg-type]  # whoever prints it looks for line "a"
        ExceptionGroup("several", [ValueError("\ud800")]),
        StopIteration(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_error_that_cannot_be_looked_at_costs_only_its_own_event(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, error: Exception
) -> None:
    async def fail(_: Transaction) -> None:
        raise error

    await publish(log, *around_the_evil())
    async with consumer_running(warehouse(fail), database_url, log):
        await settled(connection, PROCESSED=2, DEAD=1)
        later = await publish(log, ThingHappened(thing_id=AFTER, number=3))
        await settled_as(connection, later, "PROCESSED")
    assert await effects(connection) == [1, 2, 3]
    (dead,) = await parked(connection)
    assert (dead["key"], dead["reason"], dead["attempts"]) == (EVIL, "out_of_attempts", 3)
    assert len(await letters(connection)) == 1


@pytest.mark.parametrize("action", ["replay", "inspect"])
@pytest.mark.parametrize(
    "event_id", ["x\x00y", "", "x\ny", "x" * 1_000_000], ids=["a NUL", "empty", "a new line", "a megabyte"]
)
async def test_a_control_record_with_an_impossible_name_is_buried(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, event_id: str, action: str
) -> None:
    event = new_event(ThingHappened(thing_id=AFTER, number=1))
    data = {"action": action, "consumer": "warehouse", "source": "/tests", "by": "ada", "why": "a test"}
    value = json.dumps({**data, "event_id": event_id}).encode()
    consumer = Consumer("warehouse")
    consumer.on(ThingHappened)(have_effect)
    async with consumer_running(consumer, database_url, log):
        await tell(log, topic, event, control_record(event, value))
        await publish(log, event)
        await settled(connection, PROCESSED=1, DEAD=1)
    assert await effects(connection) == [1]
    assert [(row["state"], row["reason"], row["holds"]) for row in await parked(connection)] == [
        ("DEAD", "invalid_data", False)
    ]
    assert len(await letters(connection)) == 1
