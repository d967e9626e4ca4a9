"""Silence counts only if it is silence. Something is away, or somebody lags, for several timeouts: no saga is given up,
and it ends well afterwards. With the guard taken out, it is given up though nobody failed.
"""

import asyncio
import signal
from collections.abc import Mapping

import pytest

from surefoot.events import new_event
from tests.support.saga.crash_harness import Ground, OrchestratorProcess
from tests.support.saga.trips import TripRequested
from tests.support.waiting import eventually

pytest_plugins = ["tests.support.saga.crash_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.promise("P4", "P6")]

TIMEOUT_S = 0.4
AWAY_S = 1.5
LONG_LEASE = {"SUREFOOT_LOG_LEASE": "PT60S"}


@pytest.mark.parametrize("weakened", ["published", ""])
async def test_a_command_that_no_relay_has_sent(weakened: str, postgres_stage: Ground) -> None:
    ground = postgres_stage
    await ground.relay_goes()
    await ground.put_into_the_log(new_event(TripRequested(trip_id="t-1")))
    await start(ground, weakened)
    await goes_on_for_several_timeouts(ground, weakened)
    await ground.relay_comes()
    await ends_well_unless(ground, weakened)


@pytest.mark.parametrize("weakened", ["unread", ""])
async def test_a_command_that_its_service_has_not_read(weakened: str, postgres_stage: Ground) -> None:
    ground = postgres_stage
    await ground.service_goes()
    await ground.request("t-1")
    await start(ground, weakened)
    await goes_on_for_several_timeouts(ground, weakened)
    await ground.service_comes()
    await ends_well_unless(ground, weakened)


@pytest.mark.parametrize("weakened", ["relay_lags", ""])
async def test_a_reply_that_no_relay_has_sent(weakened: str, postgres_stage: Ground) -> None:
    ground = postgres_stage
    booking = ground.service.close("t-1", "book")
    await ground.request("t-1")
    await start(ground, weakened)
    await ground.waits_at_gate("t-1", "book")
    await ground.relay_goes()
    booking.set()
    await goes_on_for_several_timeouts(ground, weakened)
    await ground.relay_comes()
    await ends_well_unless(ground, weakened)


# Beside tests that keep both cores busy the reply is sometimes too quick for the mistake to show.
@pytest.mark.parametrize("weakened", [pytest.param("ends_in_turn", marks=pytest.mark.drill), ""])
async def test_a_reply_that_is_given_while_the_orchestrator_listens(weakened: str, postgres_stage: Ground) -> None:
    """The clock has run out and the command is unread; then it is read and answered, and the answer is on its way."""
    ground = postgres_stage
    booking = ground.service.close("t-1", "book")
    await ground.request("t-1")
    await start(ground, weakened)
    await ground.waits_at_gate("t-1", "book")
    await eventually(lambda: listens(ground), what="the clock has run out, and somebody listens")
    await ground.relay_goes()
    booking.set()
    await goes_on_for_several_timeouts(ground, weakened)
    await ground.relay_comes()
    await ends_well_unless(ground, weakened)


async def listens(ground: Ground) -> bool:
    asked = """
        SELECT count(*) FROM surefoot.saga_timers t JOIN surefoot.outbox_events o ON o.event_id = t.command_id
        WHERE fires_at > published_at + after + interval '100 ms'"""
    return bool(await ground.connection.fetchval(asked))


@pytest.mark.parametrize("weakened", ["replies_lag", ""])
async def test_a_reply_that_no_orchestrator_has_read(weakened: str, postgres_stage: Ground) -> None:
    """The one that owns the partitions is frozen with the reply in hand, another one looks after the timers."""
    ground = postgres_stage
    await ground.request("t-1")
    reader = await start(ground, failpoints="saga.read=stop@2", environment=LONG_LEASE)
    await reader.stopped()
    await start(ground, weakened, environment=LONG_LEASE)
    await goes_on_for_several_timeouts(ground, weakened)
    reader.signal(signal.SIGCONT)
    await ends_well_unless(ground, weakened)


@pytest.mark.parametrize("weakened", ["parked", ""])
async def test_a_reply_that_lies_dead_in_front_of_the_orchestrator(weakened: str, postgres_stage: Ground) -> None:
    ground = postgres_stage
    ground.poison.write_text("t-1")
    await ground.request("t-1", "t-2")
    await start(ground, weakened)
    await goes_on_for_several_timeouts(ground, weakened)
    dead = "SELECT count(*) FROM surefoot.parked_events WHERE consumer = $1 AND state = 'DEAD'"
    assert await ground.connection.fetchval(dead, ground.orchestrator) == 1
    ground.poison.unlink()
    await ground.replay_the_dead("events", ground.orchestrator)
    await ground.have_ended(2)
    assert await ground.statuses() == {"t-1": "COMPENSATED" if weakened else "COMPLETED", "t-2": "COMPLETED"}
    assert await ground.findings() == []


async def start(
    ground: Ground, weakened: str = "", failpoints: str = "", environment: Mapping[str, str] | None = None
) -> OrchestratorProcess:
    """With one attempt for each step: the first timeout that counts gives the saga up."""
    return await ground.start(
        weakened=weakened, failpoints=failpoints, timeout_s=TIMEOUT_S, attempts=1, environment=environment
    )


async def goes_on_for_several_timeouts(ground: Ground, weakened: str) -> None:
    """Until the saga is given up, if a guard is out; else for many times its timeout."""
    await ground.becomes_known("t-1")
    if weakened:
        await eventually(ground.cancelled, what="the saga is given up for want of the guard")
        return
    ends = asyncio.get_running_loop().time() + AWAY_S
    while asyncio.get_running_loop().time() < ends:
        assert await ground.cancelled() == []
        await asyncio.sleep(0.1)  # an outage lasts


async def ends_well_unless(ground: Ground, weakened: str) -> None:
    await ground.have_ended(1)
    assert {finding.violation for finding in await ground.cancelled()} == (
        {"cancelled_by_outage"} if weakened else set()
    )
    assert await ground.findings() == []
    (status,) = (await ground.statuses()).values()
    # Without its guard the undo may be given up as well, on a busy machine.
    assert status in ({"COMPENSATED", "STUCK"} if weakened else {"COMPLETED"})
