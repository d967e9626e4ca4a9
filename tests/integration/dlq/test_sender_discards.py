"""Discards and edits as they are sent: two people, one set, looked at again before the first leaves."""

import asyncpg
import pytest

from surefoot.log.postgres.log import PostgresLog
from tests.support.dlq import letter_rows as letters
from tests.support.dlq.decisions import (
    ADA,
    EVE,
    GRACE,
    WHY,
    approvals,
    jobs,
    statuses,
    these,
)
from tests.support.dlq.sender_harness import SendingGround
from tests.support.evidence import removed


@pytest.fixture
def ground(database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str) -> SendingGround:
    return SendingGround(database_url, connection, log, topic)


# -- discards and edits ----------------------------------------------------------------------------------------------


async def test_a_discard_says_who_asked_for_it_and_who_approved_it(ground: SendingGround) -> None:
    await discard(ground, 2)
    await ground.look()
    told = {(one["action"], one["by"], one["why"]) for one in await ground.sent()}
    assert told == {("discard", "ada, approved by grace", "test orders")}
    assert await statuses(ground.connection) == {"DISCARD_REQUESTED": 2}


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE surefoot.dlq_events SET deaths = 2, letter_id = 'another' WHERE event_id = 'event-2'",
        "DELETE FROM surefoot.dlq_events WHERE event_id = 'event-2'",
    ],
)
async def test_a_set_that_changed_after_its_approval_is_not_discarded(ground: SendingGround, change: str) -> None:
    job_id = await discard(ground, 3)
    await ground.connection.execute(change)
    await ground.look(2)
    assert await ground.sent() == []
    status, note = await ground.job(job_id)
    assert (status, (note or "").startswith("The dead letters are no longer those")) == ("CANCELLED", True)
    assert set(await ground.states(job_id)) == {"CANCELLED"}
    assert (await statuses(ground.connection)).keys() == {"OPEN"}


async def test_without_the_second_look_a_death_that_nobody_has_seen_is_discarded(
    ground: SendingGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def believe(*_: object) -> bool:
        return True

    await discard(ground, 3)
    await ground.connection.execute("UPDATE surefoot.dlq_events SET deaths = 2, letter_id = 'x' WHERE deaths = 1")
    removed("dlq.sender_second_look")
    monkeypatch.setattr("surefoot.dlq.jobs.sender.Turns._is_as_approved", believe)
    await ground.look()
    assert len(await ground.sent()) == 3  # wrong: two people agreed on something else


async def test_unreadable_letters_that_were_discarded_at_once_do_not_change_the_set(ground: SendingGround) -> None:
    await letters.insert(
        ground.connection,
        [letters.letter(1, topic=ground.topic), letters.letter(2, topic=ground.topic, consumer="")],
    )
    await approve(ground, [str(letters.dlq_id(n)) for n in (1, 2)])
    await ground.look()
    assert await ground.sent_events() == ["event-1"]


async def test_an_edit_travels_as_a_supersede_with_the_whole_record(ground: SendingGround) -> None:
    (one,) = await ground.dead(1)
    async with jobs(ground.connection) as verbs:
        await verbs.edit(EVE, one, {"order_id": "2"}, reason=WHY, catalogue=None)
    await ground.look()
    (control,) = await ground.sent()
    assert control["action"] == "supersede"
    assert control["replacement"]["value"] == "eyJvcmRlcl9pZCI6IjIifQ=="


async def discard(ground: SendingGround, count: int) -> str:
    return await approve(ground, await ground.dead(count))


async def approve(ground: SendingGround, ids: list[str]) -> str:
    async with approvals(ground.connection) as verbs:
        asked = await verbs.request(ADA, these(ids), "test orders")
    async with approvals(ground.connection) as verbs:
        return str((await verbs.approve(GRACE, str(asked.id), asked.set_hash, "go ahead")).job_id)
