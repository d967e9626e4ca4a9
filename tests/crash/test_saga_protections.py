"""Each protection of an orchestrator, taken out: the named checker reports the named violation. With it in place, the
same story ends well. (When silence counts is in test_saga_silence.)
"""

import signal

import pytest

from surefoot.events import new_event
from tests.support.evidence import removed
from tests.support.saga.crash_harness import Ground
from tests.support.saga.trips import Booked, Charged, TripRequested
from tests.support.waiting import eventually

pytest_plugins = ["tests.support.saga.crash_fixtures"]
pytestmark = pytest.mark.slow

PATIENT = {"SUREFOOT_CONSUMER_LOCK_TIMEOUT": "PT1M", "SUREFOOT_CONSUMER_HANDLER_TIMEOUT": "PT2M"}
"""Whoever waits for a saga's lock is not to give up while the test lets the other one go on."""
LONG_TRANSACTION = {"SUREFOOT_ORCHESTRATOR_LONGEST_DECISION": "PT2M"}


@pytest.mark.parametrize(
    ("weakened", "expected"),
    [
        ("lock_and_version", {"history_broken", "undone_though_completed", "undone_after_pivot"}),
        ("lock", set()),
        ("version", set()),
        ("", set()),
    ],
)
async def test_a_reply_and_a_timer_decide_at_once_only_without_the_lock_and_the_version(
    weakened: str, expected: set[str], postgres_stage: Ground
) -> None:
    """The charge was silent, so a timer gives up and is about to commit; then its reply comes after all."""
    ground = postgres_stage
    ground.service.will("t-1", "charge", "silent")
    await ground.request("t-1")
    frozen = await ground.start(
        failpoints="saga.timer_decided=stop",
        weakened=weakened,
        attempts=1,
        environment=LONG_TRANSACTION,
    )
    await frozen.stopped()
    await ground.answer("t-1", "charge", Charged(trip_id="t-1"))
    await ground.start(weakened=weakened, attempts=1, timeout_s=10, environment=PATIENT)
    await eventually(lambda: somebody_waits_for_the_saga(ground), what="the reply's decision waits for the timer's")
    frozen.signal(signal.SIGCONT)
    await ground.have_ended(1)
    await eventually(ground.read_to_the_end, what="what was decided is answered")
    assert await ground.violations() == expected, (await ground.history("t-1"), ground.logs())


@pytest.mark.parametrize(("weakened", "expected"), [("attempt", {"cancelled_by_outage"}), ("", set())])
async def test_a_stale_timer_acts_only_if_it_does_not_say_what_it_belongs_to(
    weakened: str, expected: set[str], postgres_stage: Ground
) -> None:
    """An orchestrator freezes when the timer of the booking has counted; the booking is answered after all, and the
    charge is under way when it wakes."""
    ground = postgres_stage
    ground.service.will("t-1", "book", "silent")
    charging = ground.service.close("t-1", "charge")
    await ground.request("t-1")
    twice = "saga.fired=stop,saga.timer_committed=stop"
    frozen = await ground.start(failpoints=twice, weakened=weakened, attempts=1)
    await frozen.stopped()
    await ground.answer("t-1", "book", Booked(trip_id="t-1", seat="12A"))
    await ground.start(weakened=weakened, attempts=1)
    await ground.waits_at_gate("t-1", "charge")
    assert await ground.cancelled() == []

    frozen.signal(signal.SIGCONT)
    await frozen.stopped()  # when it has committed what it makes of its timer
    frozen.signal(signal.SIGCONT)
    charging.set()
    await ground.have_ended(1)
    assert {finding.violation for finding in await ground.cancelled()} == expected


@pytest.mark.parametrize(("weakened", "expected"), [("answers_the_awaited", {"effect_missing"}), ("", set())])
async def test_a_repeated_reply_passes_for_another_step_only_if_nobody_asks_what_it_answers(
    weakened: str, expected: set[str], postgres_stage: Ground
) -> None:
    """The booking is answered twice; the second answer comes while the charge is under way, which is then refused."""
    ground = postgres_stage
    ground.service.will("t-1", "charge", "refuse")
    charging = ground.service.close("t-1", "charge")
    await ground.request("t-1")
    await ground.start(weakened=weakened, timeout_s=30)
    await ground.waits_at_gate("t-1", "charge")
    await ground.answer("t-1", "book", Booked(trip_id="t-1", seat="12A"))
    await eventually(ground.read_to_the_end, what="the second answer is read")
    charging.set()
    await ground.have_ended(1)
    assert await ground.violations() == expected
    assert await ground.statuses() == {"t-1": "COMPLETED" if weakened else "COMPENSATED"}


@pytest.mark.parametrize(
    ("weakened", "expected"), [("inbox_and_start", {"started_twice"}), ("inbox", set()), ("", set())]
)
async def test_a_start_delivered_twice_starts_two_sagas_only_without_inbox_and_uniqueness(
    weakened: str, expected: set[str], postgres_stage: Ground
) -> None:
    ground = postgres_stage
    if weakened == "inbox_and_start":
        await ground.connection.execute("ALTER TABLE surefoot.saga_instances DROP CONSTRAINT saga_instances_start")
    requested = new_event(TripRequested(trip_id="t-1"))
    await ground.put_into_the_log(requested, requested)
    await ground.start(weakened=weakened, timeout_s=30)
    await ground.have_ended(2 if expected else 1)
    await eventually(ground.read_to_the_end, what="everything is read")
    assert await ground.violations() == expected


@pytest.mark.parametrize(("weakened", "expected"), [("outbox", {"cancelled_by_outage"}), ("", set())])
async def test_a_command_is_lost_with_its_orchestrator_only_if_it_is_sent_after_the_commit(
    weakened: str, expected: set[str], postgres_stage: Ground
) -> None:
    ground = postgres_stage
    await ground.request("t-1")
    killed = await ground.start(failpoints="consumer.committed=kill", weakened=weakened, attempts=1)
    assert await killed.ended() == -signal.SIGKILL, killed.log.read_text()
    await ground.start(weakened=weakened, attempts=1)
    await ground.have_ended(1)
    assert {finding.violation for finding in await ground.cancelled()} == expected


@pytest.mark.parametrize(
    ("weakened", "expected"),
    [("undo_of_the_unknown", {"not_undone"}), ("undo_order", {"undo_order"}), ("", set())],
)
async def test_what_nobody_answered_for_stays_only_if_the_unknown_is_not_undone(
    weakened: str, expected: set[str], postgres_stage: Ground
) -> None:
    """Money was taken, and nobody said so. (And the order of undos: with two of them it shows.)"""
    ground = postgres_stage
    ground.service.will("t-1", "charge", "silent")
    await ground.request("t-1")
    await ground.start(weakened=weakened, attempts=1)
    await ground.become({"t-1": "COMPENSATED"})
    assert await ground.violations() == expected


@pytest.mark.parametrize(("barrier_is_out", "expected"), [(True, {"not_undone"}), (False, set())])
async def test_a_do_that_wakes_up_after_its_undo_is_refused_by_the_barrier(
    barrier_is_out: bool, expected: set[str], postgres_stage: Ground
) -> None:
    """The charge died, so it was undone; then somebody replays it from the dead letters."""
    ground = postgres_stage
    ground.service.will("t-1", "charge", "die")
    await ground.request("t-1")
    await ground.start()
    await ground.become({"t-1": "COMPENSATED"})
    ground.service.deeds.clear()
    if barrier_is_out:
        removed("consumer.command_barrier")
        await ground.connection.execute("DELETE FROM surefoot.command_barriers")
    await ground.replay_the_dead("commands", ground.name)
    outcome = "PROCESSED" if barrier_is_out else "BARRED"
    await eventually(lambda: charge_came_to(ground, outcome), what=f"the charge that was replayed is {outcome}")
    assert await ground.violations() == expected


# -- what is waited for ----------------------------------------------------------------------------------------------


async def somebody_waits_for_the_saga(ground: Ground) -> bool:
    asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%saga_instances%'"
    return bool(await ground.connection.fetchval(asked))


async def charge_came_to(ground: Ground, outcome: str) -> bool:
    asked = """
        SELECT count(*) FROM surefoot.processed_events p JOIN surefoot.saga_history h USING (event_id)
        WHERE p.consumer = $1 AND h.kind = 'SENT' AND h.step = 'charge' AND h.direction = 'do' AND outcome::text = $2"""
    return bool(await ground.connection.fetchval(asked, ground.name, outcome))
