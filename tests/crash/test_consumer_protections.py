"""Each protection of a consumer, taken out: the named checker reports the named violation. With it in place, the same
story ends well.
"""

import signal

import pytest

from tests.support.consumer.crash_app import ATTEMPTS, REST_S, WHEN_DEAD
from tests.support.consumer.crash_harness import FAULTY, Ground
from tests.support.consumer.processes import ConsumerProcess
from tests.support.waiting import eventually

pytest_plugins = ["tests.support.consumer.crash_fixtures"]
pytestmark = pytest.mark.slow

PATIENT = {"lock_timeout": "PT1M", "handover": "PT10S", "handler_timeout": "PT2M"}
"""For a woken member: it is not to give up while the test lets the other one go on."""
LETS_GO = {ATTEMPTS: "5", WHEN_DEAD: "release"}
"""What fails for good is dead soon, and nothing waits behind it."""


# -- the fence -------------------------------------------------------------------------------------------------------


@pytest.mark.kafka
@pytest.mark.parametrize(("weakened", "expected"), [("fence", {"out_of_order"}), ("", set())])
async def test_a_woken_member_passes_an_event_that_the_new_owner_parks_only_without_the_fence_on_kafka(
    weakened: str, expected: set[str], kafka_ground: Ground
) -> None:
    await wake_one_while_the_new_owner_parks(kafka_ground, weakened)
    assert await kafka_ground.violations() == expected


@pytest.mark.twin
@pytest.mark.parametrize(("weakened", "expected"), [("fence", {"out_of_order"}), ("", set())])
async def test_a_woken_member_passes_an_event_that_the_new_owner_parks_only_without_the_fence_on_the_postgres_log(
    weakened: str, expected: set[str], postgres_ground: Ground
) -> None:
    await wake_one_while_the_new_owner_parks(postgres_ground, weakened)
    assert await postgres_ground.violations() == expected


async def wake_one_while_the_new_owner_parks(ground: Ground, weakened: str) -> None:
    """The first member freezes with events 2 to 4 of a key in hand. With the new owner event 2 fails, and it freezes
    when it has parked it, but not committed. The first wakes, finds nothing parked yet, and waits for what the other
    one is about to commit. Then that is committed."""
    await ground.publish([ground.event("key", 1)])
    frozen = await ground.start(failpoints="consumer.polled=stop@2", weakened=weakened, **FAULTY, **PATIENT)
    await eventually(ground.read_to_the_end, what="the first event is done")
    await ground.publish([ground.event("key", number) for number in (2, 3, 4)])
    await frozen.stopped()
    await ground.fail("key", 2)
    owner = await ground.start(failpoints="consumer.fenced=stop", handler_timeout="PT2M", **FAULTY)
    await owner.stopped()

    before = await effects_by(ground, frozen)
    frozen.signal(signal.SIGCONT)
    await eventually(lambda: somebody_waits(ground), what="the woken member waits for the owner's inbox row")
    owner.signal(signal.SIGCONT)
    await eventually(lambda: has_tried(ground, frozen, before), what="the woken member has tried to commit")
    if weakened:
        return  # both are at work on the partition, and may leave anything behind from here on
    await ground.heal()
    await ground.publish([ground.event("key", 5)])
    await ground.finished()
    assert sorted(await ground.effects_of("key")) == [1, 2, 3, 4, 5]
    assert frozen.process.returncode is None, frozen.log.read_text()


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("weakened", "expected"), [("fence_and_parked_rows", {"repeated"}), ("fence", set()), ("", set())]
)
async def test_a_woken_member_repeats_what_the_new_owner_took_off_the_parking_table_only_without_both_protections(
    weakened: str, expected: set[str], kafka_ground: Ground
) -> None:
    """Two keys of one partition are parked; the member has read both rows, and freezes with the second in hand. The
    row is gone when it wakes up, and the fence has risen."""
    ground = kafka_ground
    keys = two_keys_of_one_partition(ground)
    for key in keys:
        await ground.fail(key, 1)
    await ground.publish([ground.event(key, number) for number in (1, 2) for key in keys])
    rests = {REST_S: "60"}  # nothing is due by itself, so that both are found at once
    frozen = await ground.start(failpoints="consumer.turn=stop@2", weakened=weakened, **FAULTY, **PATIENT, **rests)
    await eventually(lambda: is_parked(ground, {"DUE": 2, "WAITING": 2}), what="both keys wait")
    async with ground.connection.transaction():
        await ground.heal()
        await ground.connection.execute("UPDATE surefoot.parked_events SET next_attempt_at = now() WHERE state = 'DUE'")
    await frozen.stopped()
    await ground.start(**FAULTY)
    await ground.finished()
    assert await ground.findings() == []

    before = await effects_by(ground, frozen)
    frozen.signal(signal.SIGCONT)
    await eventually(lambda: has_tried(ground, frozen, before), what="it has tried to commit")
    assert await ground.violations() == expected


@pytest.mark.kafka
@pytest.mark.parametrize(("weakened", "expected"), [("end_others", {"lost", "unaccounted"}), ("", set())])
async def test_a_frozen_member_keeps_events_from_the_new_owner_only_if_its_backend_is_left_alone(
    weakened: str, expected: set[str], kafka_ground: Ground
) -> None:
    """It freezes in its transaction, whose inbox rows make everybody wait who receives the same events."""
    ground = kafka_ground
    await ground.publish([ground.event("key", number) for number in (1, 2, 3)])
    frozen = await ground.start(failpoints="consumer.handled=stop", **PATIENT)
    await frozen.stopped()
    await ground.start(weakened=weakened, **PATIENT)
    if weakened:
        await eventually(lambda: somebody_waits(ground), what="the new owner waits for the frozen member")
    else:
        await ground.finished()
    assert await ground.violations() == expected

    frozen.signal(signal.SIGCONT)
    await ground.finished()
    assert await ground.findings() == []
    assert sorted(await ground.effects_of("key")) == [1, 2, 3]


# -- inbox, parking, offset ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("weakened", "expected"), [("inbox", {"repeated"}), ("", set())])
async def test_an_event_delivered_twice_has_two_effects_only_without_the_inbox(
    weakened: str, expected: set[str], postgres_ground: Ground
) -> None:
    ground = postgres_ground
    events = [ground.event("key", number) for number in (1, 2, 3)]
    await ground.publish([*events, *events])
    await ground.start(weakened=weakened)
    await ground.finished()
    assert await ground.violations() == expected


@pytest.mark.parametrize(("weakened", "expected"), [("parking_behind", {"out_of_order"}), ("", set())])
async def test_a_failing_event_is_passed_only_by_those_who_do_not_look_whether_something_waits(
    weakened: str, expected: set[str], postgres_ground: Ground
) -> None:
    ground = postgres_ground
    await ground.fail("key", 2)
    await ground.publish([ground.event("key", number) for number in (1, 2, 3, 4)])
    await ground.start(weakened=weakened, **FAULTY)
    await eventually(ground.read_to_the_end, what="all are read")
    assert await ground.effects_of("key") == ([1, 3, 4] if weakened else [1])
    assert await ground.violations() == expected  # while it waits …
    await ground.heal()
    await ground.finished()
    assert await ground.violations() == expected  # … and when it has had its turn


@pytest.mark.parametrize(
    ("weakened", "expected"), [("offset_in_the_transaction", {"lost", "unaccounted"}), ("", set())]
)
async def test_what_was_read_and_not_done_is_lost_only_if_the_offset_is_the_logs(
    weakened: str, expected: set[str], postgres_ground: Ground
) -> None:
    """It is killed while a handler waits for a lock, after the log was told, if it is."""
    ground = postgres_ground
    await ground.publish([ground.event("key", 1)])
    killed = await ground.start(weakened=weakened, **FAULTY, **PATIENT)
    await eventually(lambda: log_was_told(ground, 1), what="the first event is done")
    async with ground.connection.transaction():
        await ground.connection.execute("LOCK TABLE faults")
        await ground.publish([ground.event("key", number) for number in (2, 3, 4)])
        await eventually(lambda: somebody_waits(ground, "relation"), what="a handler waits for the lock")
        if weakened:
            await eventually(lambda: log_was_told(ground, 4), what="the log was told")
        killed.signal(signal.SIGKILL)
        assert await killed.ended() == -signal.SIGKILL
    await ground.start(weakened=weakened, **FAULTY)
    await ground.publish([ground.event("key", 5)])
    await ground.finished()
    assert await ground.violations() == expected


# -- the handler's transaction ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("weakened", "expected"), [("guard", {"lost"}), ("", set())])
async def test_a_handler_that_commits_loses_others_events_only_without_the_guard(
    weakened: str, expected: set[str], postgres_ground: Ground
) -> None:
    """The commit keeps the inbox rows of the whole batch; the event behind it fails, and counts as received."""
    await misbehave(postgres_ground, "commit", weakened)
    assert await postgres_ground.violations() == expected


@pytest.mark.parametrize(("weakened", "expected"), [("same_transaction", {"lost", "unaccounted"}), ("", set())])
async def test_a_handler_that_rolls_back_loses_events_only_if_nobody_asks_whether_it_is_the_same_transaction(
    weakened: str, expected: set[str], postgres_ground: Ground
) -> None:
    """The rollback takes inbox and effects away; the offset would be stored all the same."""
    await misbehave(postgres_ground, "rollback behind the session's back", weakened)
    assert await postgres_ground.violations() == expected


async def misbehave(ground: Ground, how: str, weakened: str) -> None:
    one, other = two_keys_of_one_partition(ground)
    await ground.fail(other, 2)
    await ground.publish(
        [ground.event(other, 1), ground.event(one, 1, note=how), ground.event(one, 2), ground.event(other, 2)]
    )
    await ground.start(weakened=weakened, **FAULTY, **LETS_GO)
    await eventually(ground.read_to_the_end, what="all are read")
    await ground.heal()
    await ground.finished()


# -- what is waited for ----------------------------------------------------------------------------------------------


def two_keys_of_one_partition(ground: Ground) -> tuple[str, str]:
    first = "key-0"
    return first, next(key for n in range(1, 1000) if ground.where(key := f"key-{n}") == ground.where(first))


async def somebody_waits(ground: Ground, lock: str = "transactionid") -> bool:
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = $1 AND NOT granted"
    return bool(await ground.connection.fetchval(waiting, lock))


async def effects_by(ground: Ground, member: ConsumerProcess) -> int:
    by_it = "SELECT count(*) FROM effects WHERE member = $1"
    return int(await ground.connection.fetchval(by_it, str(member.pid)))


async def has_tried(ground: Ground, member: ConsumerProcess, before: int) -> bool:
    """To commit: it was told that it is not the owner, or that somebody was first, or it has had more effects than
    before it froze."""
    said = member.log.read_text()
    was_told = "has a new owner" in said or "was settled before its turn" in said
    return was_told or await effects_by(ground, member) > before


async def is_parked(ground: Ground, expected: dict[str, int]) -> bool:
    return await ground.parked() == expected


async def log_was_told(ground: Ground, offset: int) -> bool:
    told = "SELECT next_offset FROM surefoot.log_offsets WHERE topic = $1 AND next_offset > 0"
    return bool(await ground.connection.fetchval(told, ground.topic) == offset)
