"""The dead-letter service is killed, or freezes and wakes, at each step of a decision: nothing is lost, nothing happens
twice.
"""

import asyncio
import signal
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from tests.support.dlq.crash_harness import EVERYTHING, WHY, DlqGround
from tests.support.relay.processes import RelayProcess
from tests.support.waiting import eventually

pytest_plugins = ["tests.support.dlq.crash_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.promise("P5", "P7")]

LETTERS, KEYS = 24, 6
FEW, MORE = 12, 6
DISCARD = {**EVERYTHING, "reason": "they are of no use"}
LETS_GO = {"transaction_timeout": "PT4S"}
"""For a service that freezes: the server ends its transaction after so long."""
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


def twins(*points: str) -> list[pytest.ParameterSet]:
    """Points at which a replay is killed or frozen, too."""
    return [pytest.param(point, marks=pytest.mark.twin) for point in points]


@pytest.mark.parametrize("point", POINTS)
async def test_a_replay_is_carried_out_once_though_the_service_is_killed(dlq: DlqGround, point: str) -> None:
    await replay_though_killed(dlq, point)


async def test_on_kafka_too_a_replay_is_carried_out_once_though_the_service_is_killed(kafka_dlq: DlqGround) -> None:
    await replay_though_killed(kafka_dlq, "dlq.sender.published")


async def replay_though_killed(dlq: DlqGround, point: str) -> None:
    """An operator who got no answer asks again under the same key, as a client does."""
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


@pytest.mark.parametrize(
    "point", ["dlq.job.frozen", *twins("dlq.job.created", "dlq.sender.marked", "dlq.outcomes.taken")]
)
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


async def test_a_discard_is_asked_for_once_though_the_service_is_killed(dlq: DlqGround) -> None:
    await dlq.consume()
    doomed = await dlq.serve(failpoints="dlq.discard.requested=kill")
    await dlq.die(FEW, KEYS)
    await dlq.ask_and_be_cut_off("ada", "/discard", DISCARD, key="one-discard")
    assert await doomed.ended() == -signal.SIGKILL, doomed.log.read_text()
    await dlq.serve()
    await approve(dlq, await dlq.ask("ada", "/discard", DISCARD, key="one-discard"))
    await all_are_discarded(dlq)


@pytest.mark.parametrize("point", dict.fromkeys(point.partition("@")[0] for point in POINTS))
async def test_a_replay_is_carried_out_once_though_the_service_freezes_and_wakes(dlq: DlqGround, point: str) -> None:
    """Another service does what the frozen one was asked, while that may have rows in hand; then it wakes."""
    body = {**EVERYTHING, "reason": WHY}
    await dlq.consume()
    frozen = await dlq.serve(failpoints=f"{point}=stop", **LETS_GO)
    await dlq.die(FEW, KEYS)
    await dlq.consumers.heal()
    asking = asyncio.create_task(dlq.post("ada", "/replay", body, key="one-replay"))
    await frozen.stopped()
    other = await dlq.serve()
    made = await dlq.ask_until_done("ada", "/replay", body, key="one-replay")
    assert await dlq.ended(made["job_id"]) == "DONE"
    assert await dlq.statuses() == {"REPLAYED": FEW}

    frozen.signal(signal.SIGCONT)
    was_cut_off(await asking, made) if point == "dlq.job.frozen" else was_told(await asking, made)
    await works_alone(dlq, frozen, other)
    await dlq.consumers.finished()
    assert await dlq.findings() == []
    assert await dlq.statuses() == {"REPLAYED": FEW + MORE}
    assert await dlq.consumers.effect_count() == FEW + MORE
    assert await dlq.jobs_and_acts("replay") == (2, 2)


@pytest.mark.parametrize("point", ["dlq.job.frozen", *twins("dlq.sender.marked")])
async def test_a_discard_is_carried_out_once_though_the_service_freezes_and_wakes(dlq: DlqGround, point: str) -> None:
    await dlq.consume()
    frozen = await dlq.serve(failpoints=f"{point}=stop", **LETS_GO)
    await dlq.die(FEW, KEYS)
    wanted = await dlq.ask("ada", "/discard", DISCARD)
    path, body = approval_of(wanted)
    asking = asyncio.create_task(dlq.post("grace", path, body, key="one-approval"))
    await frozen.stopped()
    other = await dlq.serve()
    approved = await dlq.ask_until_done("grace", path, body, key="one-approval")
    assert await dlq.ended(approved["job_id"]) == "DONE"
    assert await dlq.statuses() == {"DISCARDED": FEW}

    frozen.signal(signal.SIGCONT)
    was_cut_off(await asking, approved) if point == "dlq.job.frozen" else was_told(await asking, approved)
    await works_alone(dlq, frozen, other)
    await dlq.consumers.finished()
    assert await dlq.findings() == []
    assert await dlq.statuses() == {"DISCARDED": FEW, "REPLAYED": MORE}
    assert await dlq.consumers.effect_count() == MORE
    assert await dlq.jobs_and_acts("approve") == (2, 1)


async def test_a_discard_is_asked_for_once_though_the_service_freezes_and_wakes(dlq: DlqGround) -> None:
    await dlq.consume()
    frozen = await dlq.serve(failpoints="dlq.discard.requested=stop", **LETS_GO)
    await dlq.die(FEW, KEYS)
    asking = asyncio.create_task(dlq.post("ada", "/discard", DISCARD, key="one-discard"))
    await frozen.stopped()
    await dlq.serve()
    wanted = await dlq.ask_until_done("ada", "/discard", DISCARD, key="one-discard")
    await approve(dlq, wanted)

    frozen.signal(signal.SIGCONT)
    was_cut_off(await asking, wanted)
    await dlq.turn_to(frozen)
    assert await dlq.ask("ada", "/discard", DISCARD, key="one-discard") == wanted
    await all_are_discarded(dlq)


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


def approval_of(wanted: Mapping[str, Any]) -> tuple[str, dict[str, object]]:
    """What the second person asks, to approve this."""
    return f"/approvals/{wanted['id']}/approve", {"set_hash": wanted["set_hash"], "reason": "I have looked"}


async def approve(dlq: DlqGround, wanted: Mapping[str, Any]) -> None:
    """And have it carried out."""
    assert await dlq.ended((await dlq.ask("grace", *approval_of(wanted)))["job_id"]) == "DONE"


async def all_are_discarded(dlq: DlqGround) -> None:
    """By one request, that was approved once."""
    await dlq.consumers.heal()
    assert await dlq.findings() == []
    assert await dlq.statuses() == {"DISCARDED": FEW}
    assert await dlq.consumers.effect_count() == 0
    assert await dlq.jobs_and_acts("discard") == (1, 1)
    assert await dlq.connection.fetchval("SELECT count(*) FROM surefoot.dlq_approvals") == 1


def was_told(answer: httpx.Response, made: Mapping[str, Any]) -> None:
    """The woken service had done it, and tells the same as the other one."""
    assert (answer.status_code, answer.json()) == (202, made)


def was_cut_off(answer: httpx.Response, made: Mapping[str, Any]) -> None:
    """The server had ended the transaction of the woken service: nothing was done, and its client asks again."""
    assert answer.status_code == 503, answer.text
    assert made["total"] == FEW


async def works_alone(dlq: DlqGround, woken: RelayProcess, other: RelayProcess) -> None:
    """Each part of the woken service gets through what it froze in: without the other one, it takes new letters in,
    sends, and hears the answers."""
    await dlq.end(other)
    await dlq.turn_to(woken)
    await dlq.die(MORE, KEYS)
    await dlq.consumers.heal()
    assert await dlq.ended(await dlq.replay()) == "DONE"
    assert woken.process.returncode is None, woken.log.read_text()
