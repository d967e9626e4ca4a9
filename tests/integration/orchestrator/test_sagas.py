"""Sagas from beginning to end, on real tables: relay, service and orchestrator run beside each other."""

from datetime import timedelta

from tests.support.saga.orchestrators import Stage, on_stage
from tests.support.saga.trips import Agency, TripRequested, agency_consumer, trip_saga


async def test_a_saga_goes_through_its_steps_and_is_completed(stage: Stage, agency: Agency) -> None:
    async with on_stage(stage, [trip_saga()], [agency_consumer(agency)]):
        await stage.publish(TripRequested(trip_id="t-1"))
        await stage.becomes("t-1", "COMPLETED")
    assert await stage.effects("t-1") == ["do book", "do charge", "do confirm", "do send_ticket"]
    assert await stage.history("t-1") == [
        "STARTED",
        "SENT book do 1",
        "DONE book do 1",
        "SENT charge do 1",
        "DONE charge do 1",
        "SENT confirm do 1",
        "DONE confirm do 1",
        "SENT send_ticket do 1",
        "DONE send_ticket do 1",
        "COMPLETED",
    ]
    assert await stage.connection.fetchval("SELECT count(*) FROM surefoot.saga_timers") == 0


async def test_a_refusal_undoes_what_was_done_in_reverse_and_tells(stage: Stage, agency: Agency) -> None:
    agency.will("t-1", "charge", "refuse")
    async with on_stage(stage, [trip_saga()], [agency_consumer(agency)]):
        await stage.publish(TripRequested(trip_id="t-1"))
        await stage.becomes("t-1", "COMPENSATED")
    assert await stage.effects("t-1") == ["do book", "undo book"]
    told = "SELECT count(*) FROM surefoot.outbox_events WHERE event_type = 'trip.over'"
    assert await stage.connection.fetchval(told) == 1


async def test_a_refusal_with_nothing_to_undo_is_a_failure(stage: Stage, agency: Agency) -> None:
    agency.will("t-1", "book", "refuse")
    async with on_stage(stage, [trip_saga()], [agency_consumer(agency)]):
        await stage.publish(TripRequested(trip_id="t-1"))
        await stage.becomes("t-1", "FAILED")
    assert await stage.effects("t-1") == []


async def test_a_command_that_dies_is_undone_as_well(stage: Stage, agency: Agency) -> None:
    agency.will("t-1", "charge", "die")
    async with on_stage(stage, [trip_saga()], [agency_consumer(agency)]):
        await stage.publish(TripRequested(trip_id="t-1"))
        await stage.becomes("t-1", "COMPENSATED")
    assert await stage.effects("t-1") == ["do book", "undo charge", "undo book"]


async def test_silence_is_asked_again_and_then_undone(stage: Stage, agency: Agency) -> None:
    agency.will("t-1", "charge", "silent")
    saga = trip_saga(timeout=timedelta(milliseconds=300))
    async with on_stage(stage, [saga], [agency_consumer(agency)]):
        await stage.publish(TripRequested(trip_id="t-1"))
        await stage.becomes("t-1", "COMPENSATED")
    assert await stage.effects("t-1") == ["do book", "do charge", "undo charge", "undo book"]
    history = await stage.history("t-1")
    assert [line for line in history if "charge do" in line] == [
        "SENT charge do 1",
        "TIMED_OUT charge do 1",
        "SENT charge do 2",
        "TIMED_OUT charge do 2",
    ]


async def test_an_undo_that_always_fails_is_stuck_within_its_bound(stage: Stage, agency: Agency) -> None:
    agency.will("t-1", "charge", "refuse")
    agency.will("t-1", "book", "die", "undo")
    async with on_stage(stage, [trip_saga()], [agency_consumer(agency)]):
        await stage.publish(TripRequested(trip_id="t-1"))
        await stage.becomes("t-1", "STUCK")
    stuck = await stage.connection.fetchrow("SELECT current_step, current_direction, reason FROM surefoot.stuck_sagas")
    assert tuple(stuck) == (
        "book",
        "undo",
        "book could not be undone in 2 attempts. the agency is on fire",
    )
