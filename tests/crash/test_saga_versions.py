"""A new version of a definition is deployed with 200 sagas under way: each ends on the version it began with."""

import signal

import pytest

from tests.support.saga.crash_harness import NEW_STEPS, STEPS, Ground, OrchestratorProcess
from tests.support.waiting import eventually

pytest_plugins = ["tests.support.saga.crash_fixtures"]
pytestmark = pytest.mark.slow

OLD = [f"old-{n}" for n in range(200)]
NEW = [f"new-{n}" for n in range(10)]


async def test_each_ends_on_its_own_version(postgres_stage: Ground) -> None:
    """The service goes when about half of the first steps are done, so that the sagas stand at different steps."""
    ground = postgres_stage
    ground.service.pace_s = 0.01
    await ground.request(*OLD)
    first = await ground.start(timeout_s=20)
    await ground.become_done(100)
    await ground.service_goes()
    await eventually(lambda: under_way(ground, 200), what="all have begun, and none has ended")
    first.signal(signal.SIGTERM)
    assert await first.ended() == 0, first.log.read_text()

    without, changed = await ground.start("only_new"), await ground.start("changed")
    assert await refused_with(without) == (
        "There are sagas of trip version 1 under way, and this process does not know that version: deploy it beside "
        "the newer one until the last of them has ended."
    )
    assert await refused_with(changed) == (
        "The definition of trip version 1 was changed, and 200 saga(s) that began with the old one are under way. "
        "Put the old one back, and give the changed one a new version."
    )

    await ground.start("old_and_new", timeout_s=20)
    await ground.request(*NEW)
    ground.service.pace_s = 0
    await ground.service_comes()
    await ground.become(dict.fromkeys((*OLD, *NEW), "COMPLETED"))
    assert await ground.findings() == []
    assert await ground.cancelled() == []
    rows = await ground.connection.fetch("SELECT entity_id, definition_version FROM surefoot.saga_instances")
    assert {row[0]: row[1] for row in rows} == {**dict.fromkeys(OLD, 1), **dict.fromkeys(NEW, 2)}
    assert await ground.effects("old-7") == [f"do {step}" for step in STEPS]
    assert await ground.effects("new-7") == [f"do {step}" for step in NEW_STEPS]


async def test_without_sagas_of_the_old_version_it_may_go(postgres_stage: Ground) -> None:
    """And a version that no saga under way began with may be changed."""
    ground = postgres_stage
    first = await ground.start()
    await ground.request("old")
    await ground.become({"old": "COMPLETED"})
    first.signal(signal.SIGTERM)
    assert await first.ended() == 0, first.log.read_text()
    second = await ground.start("changed")
    await ground.request("shorter")
    await ground.become({"old": "COMPLETED", "shorter": "COMPLETED"})
    assert await ground.effects("shorter") == ["do book", "do charge", "do confirm"]
    second.signal(signal.SIGTERM)
    assert await second.ended() == 0, second.log.read_text()
    await ground.start("only_new")
    await ground.request("new")
    await ground.become({"old": "COMPLETED", "shorter": "COMPLETED", "new": "COMPLETED"})


async def test_an_old_orchestrator_beside_a_new_one_spoils_no_saga_of_the_new_version(postgres_stage: Ground) -> None:
    """The new one dies, and the old one gets its partitions, with replies to sagas that it does not understand, and
    sees their timers run out. It waits for somebody who does."""
    ground = postgres_stage
    trips = [f"t-{n}" for n in range(40)]
    old = await ground.start(timeout_s=0.5)
    await ground.request("first")
    await ground.become({"first": "COMPLETED"})
    new = await ground.start("old_and_new")
    await eventually(lambda: ground.has_a_share(new), what="the new one has its share")
    await ground.service_goes()
    await ground.request(*trips)
    await eventually(lambda: under_way(ground, 40), what="all have begun")
    assert await versions(ground) == {1, 2}
    new.signal(signal.SIGKILL)
    await new.ended()
    await ground.service_comes()
    await eventually(lambda: says_so(old), what="the old one has met a saga of the new version")

    await ground.start("old_and_new")
    old.signal(signal.SIGTERM)
    assert await old.ended() == 0, old.log.read_text()
    await ground.become(dict.fromkeys(("first", *trips), "COMPLETED"))
    assert await ground.findings() == []
    assert await ground.connection.fetchval("SELECT count(*) FROM surefoot.parked_events") == 0


async def says_so(old: OrchestratorProcess) -> bool:
    assert old.process.returncode is None, old.log.read_text()
    return "does not know that version" in " ".join(old.log.read_text().split())


async def versions(ground: Ground) -> set[int]:
    rows = await ground.connection.fetch("SELECT DISTINCT definition_version FROM surefoot.saga_instances")
    return {row[0] for row in rows}


async def refused_with(process: OrchestratorProcess) -> str:
    """It ends at once, with a code and a sentence below what it logged."""
    assert await process.ended() == 2, process.log.read_text()
    lines = process.log.read_text().splitlines()
    return " ".join(line.strip() for line in lines if "[info" not in line)


async def under_way(ground: Ground, count: int) -> bool:
    return [status for status in (await ground.statuses()).values() if status == "RUNNING"] == ["RUNNING"] * count
