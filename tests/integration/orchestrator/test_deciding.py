"""Decisions on a batch of events, written in one transaction; without a log, a relay or an inbox around them."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest

from surefoot import outbox
from surefoot.consumer.contracts import CommandFailed
from surefoot.events import Event, EventData, new_event
from surefoot.orchestrator.deciding import Deciding
from surefoot.orchestrator.registry import Registry
from surefoot.orchestrator.store import Store
from surefoot.orchestrator.work import Work
from surefoot.saga import Saga
from tests.support.saga.trips import Booked, Charged, PaperReady, TicketSent, TripRequested, send_ticket, trip_saga


def printing() -> Saga:
    saga = Saga("printing", version=1, starts_on=TripRequested)
    saga.wait("paper", until=PaperReady, deadline=timedelta(days=1))
    saga.step("print", do=send_ticket, done_on=TicketSent, nothing_to_undo=True)
    return saga


class Desk:
    def __init__(self, connection: asyncpg.Connection, *sagas: Saga) -> None:
        self.connection = connection
        registry = Registry(sagas)
        self._deciding = Deciding(registry, Store(registry, "surefoot"))

    async def take(self, *events: Event[EventData]) -> Work:
        async with outbox.transaction(self.connection) as tx:
            return await self._deciding.decide(self.connection, events, tx.add)

    async def commands(self) -> list[tuple[str, str]]:
        asked = "SELECT event_type, event_id::text FROM surefoot.outbox_events ORDER BY position"
        rows = await self.connection.fetch(asked)
        return [(row[0], row[1]) for row in rows]

    async def reply(self, data: EventData) -> Event[EventData]:
        """To the last command."""
        _, command_id = (await self.commands())[-1]
        return replace(new_event(data), causation_id=command_id)

    async def sagas(self) -> list[tuple[str, str, str | None]]:
        rows = await self.connection.fetch(
            "SELECT entity_id, status::text, current_step FROM surefoot.saga_instances ORDER BY created_at, saga_id"
        )
        return [(row[0], row[1], row[2]) for row in rows]


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def test_the_same_start_event_for_the_same_entity_starts_one_saga(connection: asyncpg.Connection) -> None:
    desk = Desk(connection, trip_saga())
    start = new_event(TripRequested(trip_id="t-1"))
    await desk.take(start)
    await desk.take(start)
    assert await desk.sagas() == [("t-1", "RUNNING", "book")]
    assert [name for name, _ in await desk.commands()] == ["trip.book"]
    assert await connection.fetchval("SELECT count(*) FROM surefoot.saga_history") == 2


async def test_two_start_events_in_one_batch_start_two_sagas(connection: asyncpg.Connection) -> None:
    desk = Desk(connection, trip_saga())
    await desk.take(new_event(TripRequested(trip_id="t-1")), new_event(TripRequested(trip_id="t-1")))
    assert await desk.sagas() == [("t-1", "RUNNING", "book")] * 2


async def test_replies_to_one_saga_in_one_batch_act_one_after_the_other(connection: asyncpg.Connection) -> None:
    """The repeat of the first comes too late; and an event that is no answer to the command it names says nothing."""
    desk = Desk(connection, trip_saga())
    await desk.take(new_event(TripRequested(trip_id="t-1")))
    booked = await desk.reply(Booked(trip_id="t-1", seat="1A"))
    charged = await desk.reply(Charged(trip_id="t-1"))
    await desk.take(booked, booked, charged)
    assert await desk.sagas() == [("t-1", "RUNNING", "charge")]
    kinds = await connection.fetch("SELECT kind FROM surefoot.saga_history ORDER BY id")
    assert [row[0] for row in kinds] == ["STARTED", "SENT", "DONE", "SENT", "IGNORED"]


async def test_what_is_waited_for_may_come_in_the_batch_of_its_beginning(connection: asyncpg.Connection) -> None:
    desk = Desk(connection, printing())
    await desk.take(new_event(TripRequested(trip_id="t-1")), new_event(PaperReady(trip_id="t-1")))
    assert await desk.sagas() == [("t-1", "RUNNING", "print")]


async def test_what_is_waited_for_reaches_its_own_entity_only(connection: asyncpg.Connection) -> None:
    desk = Desk(connection, printing())
    await desk.take(*(new_event(TripRequested(trip_id=trip)) for trip in ("t-1", "t-2")))
    await desk.take(new_event(PaperReady(trip_id="t-2")))
    assert await desk.sagas() == [("t-1", "RUNNING", "paper"), ("t-2", "RUNNING", "print")]


@pytest.mark.parametrize("saga_id", ["not a uuid", "0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b11"])
async def test_a_dead_command_of_a_saga_that_is_not_ours_is_ignored(
    saga_id: str, connection: asyncpg.Connection
) -> None:
    died = CommandFailed(
        saga_id=saga_id, step="book", direction="do", attempt=1, consumer="trip", reason="permanent", error="On fire."
    )
    await Desk(connection, trip_saga()).take(new_event(died))
    assert await connection.fetchval("SELECT count(*) FROM surefoot.saga_history") == 0


async def test_a_saga_goes_on_with_the_version_it_began_with(connection: asyncpg.Connection) -> None:
    await Desk(connection, trip_saga(1)).take(new_event(TripRequested(trip_id="old")))
    both = Desk(connection, trip_saga(1), trip_saga(2))
    reply = await both.reply(Booked(trip_id="old", seat="1A"))
    await both.take(new_event(TripRequested(trip_id="new")), reply)
    rows = await connection.fetch("SELECT entity_id, definition_version, current_step FROM surefoot.saga_instances")
    assert {tuple(row) for row in rows} == {("old", 1, "charge"), ("new", 2, "book")}


async def test_a_timer_belongs_to_the_command_that_is_out(connection: asyncpg.Connection) -> None:
    desk = Desk(connection, trip_saga())
    await desk.take(new_event(TripRequested(trip_id="t-1")))
    await desk.take(await desk.reply(Booked(trip_id="t-1", seat="1A")))
    row = await connection.fetchrow("SELECT step, direction, attempt, kind, command_id::text FROM surefoot.saga_timers")
    assert tuple(row) == ("charge", "do", 1, "timeout", (await desk.commands())[-1][1])
