"""An orchestrator dies, or freezes past its session, at each step of its work.

Every saga ends: completed with every effect once, or undone in reverse with nothing left. Whoever was frozen changes
nothing when it wakes, and goes on working.
"""

import signal

import pytest

from tests.support.saga.crash_harness import Ground
from tests.support.waiting import eventually

pytest_plugins = ["tests.support.saga.crash_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.promise("P4")]

POINTS = {
    "stimulus read": "saga.read={}@3",
    "decided, not committed": "saga.decided={}@3",
    "committed, offset not told": "consumer.committed={}@3",
    "timer fired": "saga.fired={}",
    "before an undo": "saga.undoing={}",
    "between undos": "saga.undoing={}@3",
    "before the end": "saga.ending={}",
    "written, not committed": "saga.written={}@4",
    "timer decided, not committed": "saga.timer_decided={}",
    "timer committed": "saga.timer_committed={}@2",
}

LOSE_A_REPLY = """
    CREATE TABLE lost (event_id text);
    CREATE FUNCTION lose_once() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (SELECT FROM lost) THEN RETURN NEW; END IF;
        INSERT INTO lost VALUES (NEW.event_id);
        RETURN NULL;
    END $$;
    CREATE TRIGGER lose_once BEFORE INSERT ON surefoot.outbox_events FOR EACH ROW
        WHEN (NEW.event_type = 'trip.ticket_sent' AND NEW.key = 'reply lost') EXECUTE FUNCTION lose_once();
"""
STORY = {
    "well": "COMPLETED",
    "as well": "COMPLETED",
    "full": "FAILED",
    "declined": "COMPENSATED",
    "charge dies": "COMPENSATED",
    "charge is silent": "COMPENSATED",
    "reply lost": "COMPLETED",
}
AFTERWARDS = {"later": "COMPLETED", "later declined": "COMPENSATED"}


@pytest.mark.parametrize("point", POINTS)
async def test_killed_on_kafka_at(point: str, kafka_stage: Ground) -> None:
    await kill_and_finish(kafka_stage, point)


@pytest.mark.twin
@pytest.mark.parametrize("point", POINTS)
async def test_killed_on_the_postgres_log_at(point: str, postgres_stage: Ground) -> None:
    await kill_and_finish(postgres_stage, point)


@pytest.mark.parametrize("point", POINTS)
async def test_frozen_on_kafka_past_its_session_at(point: str, kafka_stage: Ground) -> None:
    await freeze_and_finish(kafka_stage, point)


@pytest.mark.twin
@pytest.mark.parametrize("point", POINTS)
async def test_frozen_on_the_postgres_log_past_its_lease_at(point: str, postgres_stage: Ground) -> None:
    await freeze_and_finish(postgres_stage, point)


async def kill_and_finish(ground: Ground, point: str) -> None:
    await begin(ground)
    victim = await ground.start(failpoints=POINTS[point].format("kill"))
    assert await victim.ended() == -signal.SIGKILL, victim.log.read_text()
    await ground.start()
    await ground.become(STORY)
    assert await ground.findings() == []
    await effects_are_those_of_the_story(ground)


async def freeze_and_finish(ground: Ground, point: str) -> None:
    await begin(ground)
    frozen = await ground.start(failpoints=POINTS[point].format("stop"))
    await frozen.stopped()
    await ground.start()
    await ground.become(STORY)
    assert await ground.findings() == []
    before = await everything(ground)

    frozen.signal(signal.SIGCONT)
    await eventually(lambda: ground.has_a_share(frozen), what="the woken one has a share again")
    assert await everything(ground) == before
    await ground.request(*AFTERWARDS)
    await ground.become({**STORY, **AFTERWARDS})
    assert frozen.process.returncode is None, frozen.log.read_text()
    assert await ground.findings() == []
    await effects_are_those_of_the_story(ground)


async def begin(ground: Ground) -> None:
    await ground.connection.execute(LOSE_A_REPLY)
    ground.service.will("full", "book", "refuse")
    ground.service.will("declined", "charge", "refuse")
    ground.service.will("later declined", "charge", "refuse")
    ground.service.will("charge dies", "charge", "die")
    ground.service.will("charge is silent", "charge", "silent")
    await ground.request(*STORY)


async def effects_are_those_of_the_story(ground: Ground) -> None:
    """Beyond what the checkers say of any saga."""
    assert await ground.effects("declined") == ["do book", "undo book"]
    assert await ground.effects("charge dies") == ["do book", "undo charge", "undo book"]
    assert await ground.effects("charge is silent") == ["do book", "do charge", "undo charge", "undo book"]
    assert await ground.connection.fetchval("SELECT count(*) FROM lost") == 1
    assert "SENT send_ticket do 2" in await ground.history("reply lost")
    told = "SELECT count(*) FROM surefoot.outbox_events WHERE event_type = 'trip.over'"
    undone = [status for status in (await ground.statuses()).values() if status == "COMPENSATED"]
    assert await ground.connection.fetchval(told) == len(undone)
    assert await ground.connection.fetchval("SELECT count(*) FROM surefoot.saga_timers") == 0


async def everything(ground: Ground) -> list[tuple[object, ...]]:
    """Whatever a woken orchestrator could have changed."""
    asked = (
        "SELECT saga_id::text, version, status::text FROM surefoot.saga_instances ORDER BY 1",
        "SELECT id, kind FROM surefoot.saga_history ORDER BY 1",
        "SELECT event_id FROM surefoot.outbox_events ORDER BY position",
        "SELECT n, saga_id, step, direction FROM effects ORDER BY 1",
    )
    return [tuple(row) for statement in asked for row in await ground.connection.fetch(statement)]
