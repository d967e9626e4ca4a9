"""A consumer dies, or freezes past its session, at each step of a batch.

Each event has its effect once, in order per key, and none is lost; whoever was frozen goes on living and working.
"""

import signal

import pytest

from tests.support.consumer.crash_harness import FAULTY, Ground
from tests.support.consumer.processes import ConsumerProcess
from tests.support.waiting import eventually

pytest_plugins = ["tests.support.consumer.crash_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.promise("P2", "P3", "P5")]

SMALL = {"batch_records": "10"}
STEPS = {
    "polled": "consumer.polled",
    "inbox row written": "consumer.inbox",
    "handler done": "consumer.handled",
    "outbox row written": "consumer.outbox",
    "fence written, not committed": "consumer.fenced",
    "committed, offset not told": "consumer.committed",
    "offset told": "consumer.offset",
}
FAILING = [("key-1", 1), ("key-2", 2), ("key-3", 3)]
"""These fail until they are healed. Later events of the same keys wait behind them."""
PARKING = {
    "event parked": "consumer.parked",
    "parked event's turn": "consumer.turn",
    "parked event done": "consumer.drained",
}


@pytest.mark.kafka
@pytest.mark.parametrize("step", STEPS)
async def test_killed_on_kafka_at(step: str, kafka_ground: Ground) -> None:
    await kill_and_finish(kafka_ground, step)


@pytest.mark.twin
@pytest.mark.parametrize("step", STEPS)
async def test_killed_on_the_postgres_log_at(step: str, postgres_ground: Ground) -> None:
    await kill_and_finish(postgres_ground, step)


@pytest.mark.kafka
@pytest.mark.parametrize("step", STEPS)
async def test_frozen_on_kafka_past_its_session_at(step: str, kafka_ground: Ground) -> None:
    await freeze_and_finish(kafka_ground, step)


@pytest.mark.twin
@pytest.mark.parametrize("step", STEPS)
async def test_frozen_on_the_postgres_log_past_its_lease_at(step: str, postgres_ground: Ground) -> None:
    await freeze_and_finish(postgres_ground, step)


@pytest.mark.kafka
@pytest.mark.parametrize("step", PARKING)
async def test_killed_on_kafka_with_parked_events_at(step: str, kafka_ground: Ground) -> None:
    await kill_with_parked_events(kafka_ground, step)


@pytest.mark.twin
@pytest.mark.parametrize("step", PARKING)
async def test_killed_on_the_postgres_log_with_parked_events_at(step: str, postgres_ground: Ground) -> None:
    await kill_with_parked_events(postgres_ground, step)


@pytest.mark.kafka
@pytest.mark.parametrize("step", PARKING)
async def test_frozen_on_kafka_with_parked_events_at(step: str, kafka_ground: Ground) -> None:
    await freeze_with_parked_events(kafka_ground, step)


@pytest.mark.twin
@pytest.mark.parametrize("step", PARKING)
async def test_frozen_on_the_postgres_log_with_parked_events_at(step: str, postgres_ground: Ground) -> None:
    await freeze_with_parked_events(postgres_ground, step)


async def kill_and_finish(ground: Ground, step: str) -> None:
    await ground.publish_some(200)
    victim = await ground.start(failpoints=armed(step, "kill"), **SMALL)
    assert await victim.ended() == -signal.SIGKILL
    await ground.publish_some(100)
    await ground.start(**SMALL)
    await ground.finished()
    assert await ground.findings() == []
    assert await ground.effect_count() == 300


async def freeze_and_finish(ground: Ground, step: str) -> None:
    await ground.publish_some(200)
    frozen = await ground.start(failpoints=armed(step, "stop"), **SMALL)
    await frozen.stopped()
    await take_over_and_wake(ground, frozen)


async def kill_with_parked_events(ground: Ground, step: str) -> None:
    victim = await park_some(ground, f"{PARKING[step]}=kill")
    assert await victim.ended() == -signal.SIGKILL
    await ground.publish_some(100)
    await ground.start(**FAULTY, **SMALL)
    await ground.finished()
    assert await ground.parked() == {}
    assert await ground.findings() == []
    assert await ground.effect_count() == 300


async def freeze_with_parked_events(ground: Ground, step: str) -> None:
    frozen = await park_some(ground, f"{PARKING[step]}=stop")
    await frozen.stopped()
    await take_over_and_wake(ground, frozen)
    assert await ground.parked() == {}


async def park_some(ground: Ground, failpoints: str) -> ConsumerProcess:
    """Start a member that parks events. They are healed as soon as one of them is parked."""
    for key, number in FAILING:
        await ground.fail(key, number)
    await ground.publish_some(200)
    member = await ground.start(failpoints=failpoints, **FAULTY, **SMALL)
    await eventually(ground.parked, what="an event is parked")
    await ground.heal()
    return member


async def take_over_and_wake(ground: Ground, frozen: ConsumerProcess) -> None:
    """Another member does all of the work; the frozen one wakes, has its share again, and does some more."""
    await ground.publish_some(100)
    other = await ground.start(**SMALL)
    await ground.finished()
    assert await ground.owners() == {other.pid}
    assert await ground.findings() == []

    frozen.signal(signal.SIGCONT)
    await eventually(lambda: shared(ground, frozen, other), what="the woken member has its share again")
    before = await done_by(ground, frozen)
    await ground.publish_some(200)
    await ground.finished()
    assert frozen.process.returncode is None, frozen.log.read_text()
    assert await done_by(ground, frozen) > before
    assert await ground.findings() == []
    assert await ground.effect_count() == 500


def armed(step: str, action: str) -> str:
    """The second time it comes by, so that something has been done before; offsets are told more rarely."""
    return f"{STEPS[step]}={action}@{1 if step == 'offset told' else 2}"


async def shared(ground: Ground, *members: ConsumerProcess) -> bool:
    assert members[0].process.returncode is None, members[0].log.read_text()
    return await ground.owners() == {member.pid for member in members}


async def done_by(ground: Ground, member: ConsumerProcess) -> int:
    return int(await ground.connection.fetchval("SELECT count(*) FROM effects WHERE member = $1", str(member.pid)))
