"""The dead-letter service is killed at each step of a decision: nothing is lost, nothing happens twice."""

import asyncio
import signal

import pytest

from tests.support.dlq.crash_harness import EVERYTHING, WHY, DlqGround
from tests.support.waiting import eventually

pytest_plugins = ["tests.support.dlq.crash_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.promise("P5", "P7")]

LETTERS, KEYS = 24, 6
POINTS = [
    "dlq.job.frozen",
    "dlq.job.created",
    "dlq.sender.marked",
    "dlq.sender.published",
    "dlq.sender.published@2",
    "dlq.outcomes.written",
    "dlq.outcomes.taken",
    "dlq.outcomes.committed",
]


@pytest.mark.parametrize("point", POINTS)
async def test_a_replay_is_carried_out_once_though_the_service_is_killed(dlq: DlqGround, point: str) -> None:
    """Whoever asked and got no answer asks again under the same key, as a client does."""
    name, _, times = point.partition("@")
    await dlq.consume()
    first = await dlq.serve()
    await dlq.die(LETTERS, KEYS)
    await dlq.end(first)
    await dlq.consumers.heal()

    body = {**EVERYTHING, "reason": WHY}
    doomed = await dlq.serve(failpoints=f"{name}=kill@{times or 1}")
    await dlq.ask_and_be_cut_off("ada", "/replay", body, key="one-replay")
    assert await doomed.ended() == -signal.SIGKILL, doomed.log.read_text()
    await dlq.serve()
    made = await dlq.ask("ada", "/replay", body, key="one-replay")

    assert await dlq.ended(made["job_id"]) == "DONE"
    assert await dlq.statuses() == {"REPLAYED": LETTERS}
    assert await dlq.findings() == []
    assert await dlq.connection.fetchval("SELECT count(*) FROM surefoot.dlq_jobs") == 1
    assert await dlq.connection.fetchval("SELECT count(*) FROM surefoot.audit_log WHERE action = 'replay'") == 1


@pytest.mark.parametrize("point", ["dlq.job.frozen", "dlq.job.created", "dlq.sender.marked", "dlq.outcomes.taken"])
async def test_a_discard_is_carried_out_once_though_the_service_is_killed(dlq: DlqGround, point: str) -> None:
    await dlq.consume()
    first = await dlq.serve()
    await dlq.die(LETTERS, KEYS)
    wanted = await dlq.ask("ada", "/discard", {**EVERYTHING, "reason": "they are of no use"})
    await dlq.end(first)

    path, body = f"/approvals/{wanted['id']}/approve", {"set_hash": wanted["set_hash"], "reason": "I have looked"}
    doomed = await dlq.serve(failpoints=f"{point}=kill")
    await dlq.ask_and_be_cut_off("grace", path, body, key="one-approval")
    assert await doomed.ended() == -signal.SIGKILL, doomed.log.read_text()
    await dlq.serve()
    approved = await dlq.ask("grace", path, body, key="one-approval")

    assert await dlq.ended(approved["job_id"]) == "DONE"
    assert await dlq.statuses() == {"DISCARDED": LETTERS}
    await dlq.consumers.heal()
    assert await dlq.findings() == []
    assert await dlq.consumers.effect_count() == 0
    assert await dlq.connection.fetchval("SELECT count(*) FROM surefoot.dlq_jobs") == 1


async def test_a_service_that_wakes_behind_a_discard_replays_nothing(dlq: DlqGround) -> None:
    """It froze with a replay marked and not sent. Others sent it, it failed again, two people gave the events up."""
    await dlq.consume()
    first = await dlq.serve()
    await dlq.die(6, keys=6)
    await dlq.end(first)

    frozen = await dlq.serve(failpoints="dlq.sender.marked=stop")
    asking = asyncio.create_task(dlq.replay())
    await frozen.stopped()
    asking.cancel()  # it may have frozen before it answered
    await asyncio.wait([asking])
    job_id = await dlq.connection.fetchval("SELECT id::text FROM surefoot.dlq_jobs")
    await dlq.serve()
    assert await dlq.ended(job_id) == "DONE"
    await dlq.there_are(6, "status = 'OPEN' AND deaths = 2")
    assert await dlq.ended(await dlq.discard()) == "DONE"
    await dlq.consumers.heal()

    before = await dlq.consumers.log.end_offsets(dlq.consumers.topic)
    frozen.signal(signal.SIGCONT)
    await eventually(lambda: has_sent(dlq, sum(before.values()) + 6), what="the woken service has sent its records")
    await dlq.consumers.finished()
    assert await dlq.consumers.effect_count() == 0
    assert await dlq.statuses() == {"DISCARDED": 6}
    assert await dlq.findings() == []


async def has_sent(dlq: DlqGround, many: int) -> bool:
    return sum((await dlq.consumers.log.end_offsets(dlq.consumers.topic)).values()) >= many
