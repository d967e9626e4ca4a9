"""A discard takes two people, who agree on exactly one set, in time; and it is carried out once."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from surefoot.audit.people import Person
from surefoot.dlq.errors import NoSuchApproval, NotAllowed, NothingToDo, OwnApproval, SetChanged, TooLate, WrongState
from surefoot.dlq.jobs.views import ApprovalView
from tests.support.dlq import letter_rows as letters
from tests.support.dlq.decisions import (
    ADA,
    BOB,
    EVE,
    GRACE,
    HEDY,
    WHY,
    approvals,
    audited,
    dead,
    items,
    jobs,
    somebody_waits,
    statuses,
    these,
)

SAID = "they are test orders"


async def test_a_request_waits_for_somebody_else_and_nobody_else_decides_meanwhile(
    connection: asyncpg.Connection,
) -> None:
    ids = await dead(connection, 3)
    asked = await request(connection, ids)
    assert (asked.status, asked.total, asked.requested_by, asked.reason) == ("WAITING", 3, "ada", SAID)
    assert asked.expires_at - asked.requested_at >= timedelta(minutes=29, seconds=59)
    assert await statuses(connection) == {"DISCARD_REQUESTED": 3}
    with pytest.raises(NothingToDo, match="3 discard requested"):
        async with jobs(connection) as verbs:
            await verbs.replay(BOB, these(ids), reason=WHY)
    with pytest.raises(NothingToDo):
        await request(connection, ids, by=BOB)
    assert await audited(connection) == [("ada", "discard", "done")]


async def test_an_approval_makes_a_job_that_carries_it_out(connection: asyncpg.Connection) -> None:
    ids = await dead(connection, 3)
    asked = await request(connection, ids)
    approved = await approve(connection, asked)
    assert (approved.status, approved.decided_by, approved.decision) == ("APPROVED", "grace", "go ahead")
    async with jobs(connection) as verbs:
        job = await verbs.get(str(approved.job_id))
    assert (job.kind, job.total, job.created_by, job.reason, job.approval_id) == ("discard", 3, "ada", SAID, asked.id)
    assert [one[1] for one in await items(connection, approved.job_id)] == ids
    rows = await connection.fetch("SELECT DISTINCT status::text, job_id FROM surefoot.dlq_events")
    assert [tuple(row) for row in rows] == [("DISCARD_REQUESTED", approved.job_id)]
    assert await audited(connection) == [("ada", "discard", "done"), ("grace", "approve", "done")]


async def test_letters_that_could_not_be_read_are_discarded_at_once_since_nobody_can_be_told(
    connection: asyncpg.Connection,
) -> None:
    await letters.insert(connection, [letters.letter(1), letters.letter(2, consumer="")])
    asked = await request(connection, [str(letters.dlq_id(n)) for n in (1, 2)])
    approved = await approve(connection, asked)
    assert await statuses(connection) == {"DISCARD_REQUESTED": 1, "DISCARDED": 1}
    assert [one[1] for one in await items(connection, approved.job_id)] == [str(letters.dlq_id(1))]
    said = await connection.fetchval("SELECT resolution FROM surefoot.dlq_events WHERE status = 'DISCARDED'")
    assert said == "Discarded by ada, approved by grace: they are test orders"


async def test_a_set_of_unreadable_letters_needs_no_job(connection: asyncpg.Connection) -> None:
    await letters.insert(connection, [letters.letter(1, consumer="")])
    approved = await approve(connection, await request(connection, [str(letters.dlq_id(1))]))
    assert (approved.status, approved.job_id) == ("APPROVED", None)
    assert await connection.fetchval("SELECT count(*) FROM surefoot.dlq_jobs") == 0
    assert await statuses(connection) == {"DISCARDED": 1}


async def test_a_refusal_gives_the_letters_back(connection: asyncpg.Connection) -> None:
    asked = await request(connection, await dead(connection, 2))
    async with approvals(connection) as verbs:
        refused = await verbs.refuse(GRACE, str(asked.id), "they can be mended")
    assert (refused.status, refused.decided_by) == ("REFUSED", "grace")
    assert await statuses(connection) == {"OPEN": 2}
    with pytest.raises(WrongState, match="REFUSED already, by grace"):
        await approve(connection, asked, by=HEDY)


# -- who may ---------------------------------------------------------------------------------------------------------


async def test_nobody_approves_what_they_asked_for_themselves(connection: asyncpg.Connection) -> None:
    asked = await request(connection, await dead(connection, 1), by=GRACE)
    with pytest.raises(OwnApproval, match="grace asked for this discard"):
        await approve(connection, asked, by=GRACE)
    assert await statuses(connection) == {"DISCARD_REQUESTED": 1}


@pytest.mark.parametrize("person", [BOB, EVE])
async def test_only_a_super_admin_approves_or_refuses(connection: asyncpg.Connection, person: Person) -> None:
    asked = await request(connection, await dead(connection, 1))
    with pytest.raises(NotAllowed):
        await approve(connection, asked, by=person)
    with pytest.raises(NotAllowed):
        async with approvals(connection) as verbs:
            await verbs.refuse(person, str(asked.id), "no")


# -- exactly that set ------------------------------------------------------------------------------------------------


async def test_who_approves_has_to_quote_the_hash_of_the_set(connection: asyncpg.Connection) -> None:
    asked = await request(connection, await dead(connection, 1))
    with pytest.raises(SetChanged, match="not that of the request"):
        await approve(connection, asked, quoting="0" * 64)
    assert await statuses(connection) == {"DISCARD_REQUESTED": 1}


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE surefoot.dlq_events SET deaths = 2, letter_id = 'another' WHERE event_id = 'event-2'",
        "DELETE FROM surefoot.dlq_events WHERE event_id = 'event-2'",
        "UPDATE surefoot.dlq_events SET status = 'OPEN' WHERE event_id = 'event-2'",
    ],
)
async def test_a_set_that_changed_since_it_was_asked_for_is_not_approved(
    connection: asyncpg.Connection, change: str
) -> None:
    asked = await request(connection, await dead(connection, 3))
    await connection.execute(change)
    with pytest.raises(SetChanged, match="no longer those"):
        await approve(connection, asked)
    assert await connection.fetchval("SELECT count(*) FROM surefoot.dlq_jobs") == 0


# -- in time ---------------------------------------------------------------------------------------------------------


async def test_an_approval_that_comes_too_late_is_refused(connection: asyncpg.Connection) -> None:
    asked = await request(connection, await dead(connection, 1))
    await connection.execute("UPDATE surefoot.dlq_approvals SET expires_at = clock_timestamp()")
    with pytest.raises(TooLate):
        await approve(connection, asked)
    async with approvals(connection) as verbs:
        assert await verbs.expire() == 1
    with pytest.raises(TooLate):
        await approve(connection, asked)


async def test_what_nobody_approved_in_time_is_open_again_and_that_is_recorded_once(
    connection: asyncpg.Connection,
) -> None:
    ids = await dead(connection, 3)
    late = await request(connection, ids[:2])
    in_time = await request(connection, ids[2:])
    await connection.execute("UPDATE surefoot.dlq_approvals SET expires_at = now() WHERE id = $1", late.id)
    for expected in (1, 0):
        async with approvals(connection) as verbs:
            assert await verbs.expire() == expected
    assert await statuses(connection) == {"OPEN": 2, "DISCARD_REQUESTED": 1}
    async with approvals(connection) as verbs:
        assert (await verbs.get(str(late.id))).status == "EXPIRED"
        assert (await verbs.get(str(in_time.id))).status == "WAITING"
    assert [one for one in await audited(connection) if one[1] == "expire"] == [("surefoot", "expire", "done")]


# -- twice -----------------------------------------------------------------------------------------------------------


async def test_a_second_approval_does_nothing(connection: asyncpg.Connection) -> None:
    asked = await request(connection, await dead(connection, 1))
    await approve(connection, asked)
    for person in (GRACE, HEDY):
        with pytest.raises(WrongState, match="APPROVED already, by grace"):
            await approve(connection, asked, by=person)
    assert await connection.fetchval("SELECT count(*) FROM surefoot.dlq_jobs") == 1


async def test_of_two_who_approve_at_once_one_is_first(connection: asyncpg.Connection, database_url: str) -> None:
    asked = await request(connection, await dead(connection, 2))
    second = await asyncpg.connect(database_url)
    try:
        async with approvals(connection) as verbs:
            await verbs.approve(GRACE, str(asked.id), asked.set_hash, "go ahead")
            waiting = asyncio.create_task(approve(second, asked, by=HEDY))
            await somebody_waits(database_url)
        with pytest.raises(WrongState):
            await waiting
    finally:
        await second.close()
    assert await connection.fetchval("SELECT count(*) FROM surefoot.dlq_jobs") == 1


async def test_an_approval_that_is_undone_leaves_nothing(connection: asyncpg.Connection) -> None:
    asked = await request(connection, await dead(connection, 1))
    with pytest.raises(RuntimeError):
        async with approvals(connection) as verbs:
            await verbs.approve(GRACE, str(asked.id), asked.set_hash, "go ahead")
            raise RuntimeError("killed before the commit")
    async with approvals(connection) as verbs:
        assert (await verbs.get(str(asked.id))).status == "WAITING"
    assert await connection.fetchval("SELECT count(*) FROM surefoot.dlq_jobs") == 0


# -- looking ---------------------------------------------------------------------------------------------------------


async def test_requests_come_in_pages_the_newest_first(connection: asyncpg.Connection) -> None:
    made = [(await request(connection, [one])).id for one in await dead(connection, 3)]
    async with approvals(connection) as verbs:
        first = await verbs.page(None, 2)
        rest = await verbs.page(first.next, 2)
    assert [one.id for one in (*first.approvals, *rest.approvals)] == made[::-1]
    assert rest.next is None


async def test_whoever_has_to_approve_sees_the_letters_of_the_set_page_by_page(connection: asyncpg.Connection) -> None:
    ids = (await dead(connection, 4))[1:]
    asked = str((await request(connection, ids)).id)
    async with approvals(connection) as verbs:
        first = await verbs.letters(asked, limit=2)
        rest = await verbs.letters(asked, first.next, limit=2)
    seen = [*first.letters, *rest.letters]
    assert sorted(str(letter.dlq_id) for letter in seen) == sorted(ids)
    assert {letter.status for letter in seen} == {"DISCARD_REQUESTED"}
    assert (len(first.letters), len(rest.letters), rest.next) == (2, 1, None)


async def test_what_is_not_there_cannot_be_decided(connection: asyncpg.Connection) -> None:
    for one in (str(letters.new_id()), "no uuid"):
        with pytest.raises(NoSuchApproval):
            async with approvals(connection) as verbs:
                await verbs.approve(GRACE, one, "", "go ahead")
        with pytest.raises(NoSuchApproval):
            async with approvals(connection) as verbs:
                await verbs.get(one)


async def request(connection: asyncpg.Connection, ids: list[str], *, by: Person = ADA) -> ApprovalView:
    async with approvals(connection) as verbs:
        return await verbs.request(by, these(ids), SAID)


async def approve(
    connection: asyncpg.Connection, asked: ApprovalView, *, by: Person = GRACE, quoting: str | None = None
) -> ApprovalView:
    async with approvals(connection) as verbs:
        return await verbs.approve(by, str(asked.id), quoting or asked.set_hash, "go ahead")
