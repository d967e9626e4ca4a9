"""None of these stops a partition, an orchestrator or a saga: late replies, missing versions, failing functions,
outages."""

from datetime import timedelta

import asyncpg
import pytest

from surefoot.events import new_event
from surefoot.orchestrator.operators import operate
from surefoot.orchestrator.registry import Registry
from surefoot.orchestrator.store import Store
from surefoot.saga import Saga
from surefoot.saga.definition import Make
from surefoot.saga.stimulus import Operated
from tests.integration.orchestrator.test_deciding import Desk, connection
from tests.support.saga.orchestrators import Stage, on_stage
from tests.support.saga.trips import (
    Agency,
    Booked,
    Full,
    TicketSent,
    TripRequested,
    Unbook,
    Unbooked,
    agency_consumer,
    book,
    send_ticket,
    trip_saga,
)

__all__ = ["connection"]


async def test_a_late_reply_of_an_ended_saga_does_no_harm_when_its_version_is_gone(
    connection: asyncpg.Connection,
) -> None:
    old = Desk(connection, trip_saga(1))
    await old.take(new_event(TripRequested(trip_id="old")))
    refusal = await old.reply(Full(trip_id="old"))
    await old.take(refusal)
    assert await old.sagas() == [("old", "FAILED", None)]
    new = Desk(connection, trip_saga(2))
    await new.take(refusal, new_event(TripRequested(trip_id="new")))
    assert await new.sagas() == [("old", "FAILED", None), ("new", "RUNNING", "book")]


async def test_what_is_ignored_leaves_the_row_as_it_was(connection: asyncpg.Connection) -> None:
    desk = Desk(connection, trip_saga())
    await desk.take(new_event(TripRequested(trip_id="t-1")))
    refusal = await desk.reply(Full(trip_id="t-1"))
    await desk.take(refusal)
    row = "SELECT version, ended_at, updated_at FROM surefoot.saga_instances"
    before = tuple(await connection.fetchrow(row))
    await desk.take(refusal)
    assert tuple(await connection.fetchrow(row)) == before
    kinds = await connection.fetch("SELECT kind FROM surefoot.saga_history ORDER BY id DESC LIMIT 1")
    assert [one[0] for one in kinds] == ["IGNORED"]


async def test_the_clock_of_a_resumed_saga_is_still_that_of_its_command(connection: asyncpg.Connection) -> None:
    desk = Desk(connection, trip_saga())
    await desk.take(new_event(TripRequested(trip_id="t-1")))
    saga_id = await connection.fetchval("SELECT saga_id::text FROM surefoot.saga_instances")
    registry = Registry([trip_saga()])
    for verb in ("pause", "resume"):
        await operate(connection, Store(registry, "surefoot"), saga_id, Operated(verb, "ada", "to look"))
    command = await connection.fetchval("SELECT command_id::text FROM surefoot.saga_timers")
    assert command == (await desk.commands())[-1][1]


async def test_timers_of_versions_that_are_not_here_do_not_stand_in_the_way(connection: asyncpg.Connection) -> None:
    await Desk(connection, trip_saga(1)).take(new_event(TripRequested(trip_id="old")))
    await Desk(connection, trip_saga(2)).take(new_event(TripRequested(trip_id="new")))
    await connection.execute("UPDATE surefoot.saga_timers SET fires_at = now() - interval '1 hour'")
    sql = Store(Registry([trip_saga(1)]), "surefoot").sql
    rows = await connection.fetch(sql.due, 1, ["trip"], [1])
    assert [row[1] for row in rows] == ["old"]
    rows = await connection.fetch(sql.due, 1, ["trip"], [2])
    assert [row[1] for row in rows] == ["new"]


def fails(trip: TripRequested) -> Unbook:
    raise ValueError("the refund has no form")


def cannot_be_published(trip: TripRequested) -> Unbook:
    return Unbook(trip_id=f"{trip.trip_id}\0")


@pytest.mark.parametrize(
    ("undo", "why"),
    [(fails, "the refund has no form"), (cannot_be_published, "The data of trip.unbook have a NUL character")],
)
async def test_a_saga_whose_functions_fail_on_a_timer_gets_stuck_and_the_others_go_on(
    undo: Make, why: str, stage: Stage, agency: Agency, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("surefoot.orchestrator.timers.LAST_LOOK", timedelta(milliseconds=50))
    saga = Saga("broken", version=1, starts_on=TripRequested)
    saga.step("book", do=book, done_on=Booked, undo=undo, undone_on=Unbooked, timeout=timedelta(milliseconds=200))
    saga.step("print", do=send_ticket, done_on=TicketSent, nothing_to_undo=True)
    agency.will("t-1", "book", "silent")
    async with on_stage(stage, [saga], [agency_consumer(agency)]):
        await stage.publish(TripRequested(trip_id="t-1"), TripRequested(trip_id="t-2"))
        await stage.becomes("t-2", "COMPLETED")
        await stage.becomes("t-1", "STUCK")
    reason = await stage.connection.fetchval("SELECT reason FROM surefoot.stuck_sagas")
    assert reason.startswith(f"The timer of book could not be decided. {why}"), reason


async def test_many_short_outages_do_not_put_timeouts_off(connection: asyncpg.Connection) -> None:
    """What is due later than the outage was long stays as it is; what is due sooner gets that long, and no longer."""
    desk = Desk(connection, trip_saga(timeout=timedelta(minutes=2)))
    await desk.take(*(new_event(TripRequested(trip_id=trip)) for trip in ("soon", "late")))
    await connection.execute(
        "UPDATE surefoot.saga_timers t SET fires_at = now() + CASE entity_id WHEN 'soon' THEN interval '1 second' "
        "ELSE interval '1 minute' END FROM surefoot.saga_instances i WHERE i.saga_id = t.saga_id"
    )
    sql = Store(Registry([trip_saga()]), "surefoot").sql
    for _ in range(3):
        await connection.execute(sql.give_time, timedelta(seconds=5))
    rows = await connection.fetch(
        "SELECT entity_id, extract(epoch FROM fires_at - now())::float8 FROM surefoot.saga_timers "
        "JOIN surefoot.saga_instances USING (saga_id)"
    )
    left = {row[0]: row[1] for row in rows}
    assert 4 < left["soon"] <= 5
    assert 55 < left["late"] <= 60


async def test_an_orchestrator_that_starts_gives_time_to_what_nobody_looked_after_alone(
    connection: asyncpg.Connection,
) -> None:
    desk = Desk(connection, trip_saga(timeout=timedelta(minutes=2)))
    await desk.take(*(new_event(TripRequested(trip_id=trip)) for trip in ("forgotten", "just due", "soon")))
    await connection.execute(
        "UPDATE surefoot.saga_timers t SET fires_at = now() + CASE entity_id WHEN 'forgotten' THEN interval '-1 hour' "
        "WHEN 'soon' THEN interval '1 second' ELSE interval '-1 second' END "
        "FROM surefoot.saga_instances i WHERE i.saga_id = t.saga_id"
    )
    rows = "SELECT entity_id, fires_at FROM surefoot.saga_timers JOIN surefoot.saga_instances USING (saga_id)"
    before = {row[0]: row[1] for row in await connection.fetch(rows)}
    sql = Store(Registry([trip_saga()]), "surefoot").sql
    await connection.execute(sql.give_time_to_forgotten, timedelta(seconds=5))
    after = {row[0]: row[1] for row in await connection.fetch(rows)}
    assert after == {**before, "forgotten": after["forgotten"]}
    ahead = await connection.fetchval("SELECT $1::timestamptz - now()", after["forgotten"])
    assert timedelta(seconds=4) < ahead <= timedelta(seconds=5)
