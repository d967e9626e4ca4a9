"""Silence counts only if it is silence. Something is away, or somebody lags, for several timeouts: no saga is given up,
and it ends well afterwards. With the guard taken out, it is given up though nobody failed.

Each story waits until what it tells of is so; from then on it counts how often the orchestrator looks at the timer.
"""

import signal
from collections.abc import Mapping

import pytest

from surefoot.events import new_event
from tests.support.saga.crash_app import UNDO_ATTEMPTS
from tests.support.saga.crash_harness import Ground, OrchestratorProcess
from tests.support.saga.trips import TripRequested
from tests.support.waiting import eventually

pytest_plugins = ["tests.support.saga.crash_fixtures"]
pytestmark = pytest.mark.slow

TIMEOUT_S = 0.4
LOOKS = 3
"""Of the orchestrator at a timer that has run out: at the first it begins to listen, at the next it judges."""
LONG_LEASE = {"SUREFOOT_LOG_LEASE": "PT10M"}
LONG_GRACE = {"SUREFOOT_ORCHESTRATOR_GRACE": "PT10M"}
"""What was noted when the clock ran out counts, however long the test takes for the rest of the story."""
PATIENT_UNDO = {UNDO_ATTEMPTS: "1000"}
"""Without its guard an undo times out as well, as often as the machine is slow: that must not be what ends a saga."""


@pytest.mark.parametrize("weakened", ["published", ""])
@pytest.mark.promise("P6c")
async def test_a_command_that_no_relay_has_sent(weakened: str, postgres_stage: Ground) -> None:
    await wait_for_the_relay(postgres_stage, weakened)


@pytest.mark.promise("P6c")
async def test_on_kafka_too_a_command_that_no_relay_has_sent(kafka_stage: Ground) -> None:
    await wait_for_the_relay(kafka_stage, weakened="")


async def wait_for_the_relay(ground: Ground, weakened: str) -> None:
    await ground.relay_goes()
    await ground.put_into_the_log(new_event(TripRequested(trip_id="t-1")))
    await start(ground, weakened)
    await goes_on_for_several_timeouts(ground, weakened)
    await ground.relay_comes()
    await ends_well_unless(ground, weakened)


@pytest.mark.parametrize("weakened", ["unread", ""])
@pytest.mark.promise("P6c")
async def test_a_command_that_its_service_has_not_read(weakened: str, postgres_stage: Ground) -> None:
    ground = postgres_stage
    await ground.service_goes()
    await ground.request("t-1")
    await start(ground, weakened)
    await goes_on_for_several_timeouts(ground, weakened)
    await ground.service_comes()
    await ends_well_unless(ground, weakened)


@pytest.mark.parametrize("weakened", ["relay_lags", ""])
@pytest.mark.promise("P6c")
async def test_a_reply_that_no_relay_has_sent(weakened: str, postgres_stage: Ground) -> None:
    ground = postgres_stage
    booking = ground.service.close("t-1", "book")
    await ground.request("t-1")
    await start(ground, weakened)
    await ground.waits_at_gate("t-1", "book")
    await ground.relay_goes()
    booking.set()
    await the_service_has_answered(ground)
    await goes_on_for_several_timeouts(ground, weakened)
    await ground.relay_comes()
    await ends_well_unless(ground, weakened)


@pytest.mark.parametrize("weakened", ["ends_in_turn", ""])
@pytest.mark.promise("P6c")
async def test_a_reply_that_is_given_while_the_orchestrator_listens(weakened: str, postgres_stage: Ground) -> None:
    """The clock has run out and the command is unread; then it is read and answered, and the answer is on its way."""
    ground = postgres_stage
    booking = ground.service.close("t-1", "book")
    await ground.request("t-1")
    await start(ground, weakened, environment=LONG_GRACE)
    await ground.waits_at_gate("t-1", "book")
    await the_orchestrator_listens(ground)
    await ground.relay_goes()
    booking.set()
    await the_service_has_answered(ground)
    await goes_on_for_several_timeouts(ground, weakened)
    await ground.relay_comes()
    await ends_well_unless(ground, weakened)


@pytest.mark.parametrize("weakened", ["replies_lag", ""])
@pytest.mark.promise("P6c")
async def test_a_reply_that_no_orchestrator_has_read(weakened: str, postgres_stage: Ground) -> None:
    """The one that owns the partitions is frozen with the reply in hand, another one looks after the timers."""
    ground = postgres_stage
    await ground.request("t-1")
    reader = await start(ground, failpoints="saga.read=stop@2", environment=LONG_LEASE)
    await reader.stopped()
    await the_service_has_answered(ground)
    await start(ground, weakened, environment=LONG_LEASE)
    await goes_on_for_several_timeouts(ground, weakened)
    reader.signal(signal.SIGCONT)
    await ends_well_unless(ground, weakened)


@pytest.mark.parametrize("weakened", ["parked", ""])
@pytest.mark.promise("P6c")
async def test_a_reply_that_lies_dead_in_front_of_the_orchestrator(weakened: str, postgres_stage: Ground) -> None:
    ground = postgres_stage
    ground.poison.write_text("t-1")
    await ground.request("t-1", "t-2")
    await start(ground, weakened)
    dead = "SELECT count(*) FROM surefoot.parked_events WHERE consumer = $1 AND state = 'DEAD'"
    await eventually(lambda: ground.connection.fetchval(dead, ground.orchestrator), what="the reply is dead")
    await goes_on_for_several_timeouts(ground, weakened)
    assert await ground.connection.fetchval(dead, ground.orchestrator) == 1
    ground.poison.unlink()
    await ground.replay_the_dead("events", ground.orchestrator)
    await ground.have_ended(2)
    assert await ground.statuses() == {"t-1": "COMPENSATED" if weakened else "COMPLETED", "t-2": "COMPLETED"}
    assert await ground.findings() == []


# -- how a story goes on ---------------------------------------------------------------------------------------------


async def start(
    ground: Ground, weakened: str = "", failpoints: str = "", environment: Mapping[str, str] | None = None
) -> OrchestratorProcess:
    """With one attempt to do each step: the first timeout that counts gives the saga up."""
    return await ground.start(
        weakened=weakened,
        failpoints=failpoints,
        timeout_s=TIMEOUT_S,
        attempts=1,
        environment={**PATIENT_UNDO, **(environment or {})},
    )


async def goes_on_for_several_timeouts(ground: Ground, weakened: str) -> None:
    """Until the saga is given up, if a guard is out; else until its timer was judged and put off again and again."""
    await ground.becomes_known("t-1")
    if weakened:
        await eventually(ground.cancelled, what="the saga is given up for want of the guard")
    else:
        await the_timer_is_put_off(ground)
        assert await ground.cancelled() == []


async def ends_well_unless(ground: Ground, weakened: str) -> None:
    await ground.have_ended(1)
    assert {finding.violation for finding in await ground.cancelled()} == (
        {"cancelled_by_outage"} if weakened else set()
    )
    assert await ground.findings() == []
    assert await ground.statuses() == {"t-1": "COMPENSATED" if weakened else "COMPLETED"}


# -- what is waited for ----------------------------------------------------------------------------------------------


async def the_orchestrator_listens(ground: Ground) -> None:
    """It may have looked once before it could see that the command is published, and once more to start the clock by
    that. At its next look the clock has run out, and it notes the ends."""
    asked = """
        SELECT count(*) FROM surefoot.saga_timers t JOIN surefoot.outbox_events o ON o.event_id = t.command_id
        WHERE o.status = 'PUBLISHED'"""
    await eventually(lambda: ground.connection.fetchval(asked), what="the command is marked as published")
    await the_timer_is_put_off(ground, 3)


async def the_timer_is_put_off(ground: Ground, times: int = LOOKS) -> None:
    """The orchestrator looks at the timer of the booking so many times, and decides nothing."""
    asked = """
        SELECT t.fires_at FROM surefoot.saga_timers t JOIN surefoot.saga_instances USING (saga_id)
        WHERE entity_id = 't-1' AND t.step = 'book' AND t.direction = 'do'"""
    seen = {await ground.connection.fetchval(asked)}

    async def often_enough() -> bool:
        seen.add(await ground.connection.fetchval(asked))
        assert None not in seen, (await ground.history("t-1"), ground.logs())
        return len(seen) > times

    await eventually(often_enough, what=f"the timer is put off {times} times")


async def the_service_has_answered(ground: Ground) -> None:
    """By the log's word: the service is told to be behind a command when its answer is in the outbox."""
    topic = f"{ground.name}.commands"

    async def is_so() -> bool:
        ends = await ground.log.end_offsets(topic)
        read = await ground.log.group_offsets(ground.name, topic)
        return sum(ends.values()) > 0 and all(read.get(where, 0) >= end for where, end in ends.items())

    await eventually(is_so, what="the service has the command behind it")
