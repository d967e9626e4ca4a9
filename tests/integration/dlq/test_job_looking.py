"""Looking at jobs page by page, and editing: one dead letter, one job, the edited record with it."""

import base64
from typing import Any

import asyncpg
import pytest

from surefoot.dlq.errors import InvalidEdit, NoSuchLetter, WrongState
from tests.support.dlq import letter_rows as letters
from tests.support.dlq.decisions import ADA, EVE, WHY, a_job, answer, audited, dead, jobs, statuses, these
from tests.support.event_types import catalogue

THING = {
    "ce_specversion": "1.0",
    "ce_id": "event-1",
    "ce_source": "/tests",
    "ce_type": "thing.happened",
    "ce_partitionkey": "a",
    "content-type": "application/json",
}


# -- looking ---------------------------------------------------------------------------------------------------------


async def test_the_counts_of_a_job_add_up(connection: asyncpg.Connection) -> None:
    job_id = await a_job(connection, 6)
    for number, said in enumerate(["done", "already_done", "failed_again"], 1):
        await answer(connection, job_id, number, said)
    await connection.execute("UPDATE surefoot.dlq_job_items SET state = 'SENT' WHERE number = 4")
    async with jobs(connection) as verbs:
        job = await verbs.get(job_id)
    assert (job.ok, job.failed, job.sent, job.pending, job.cancelled) == (2, 1, 1, 2, 0)
    assert job.answers == {"already_done": 1, "done": 1, "failed_again": 1}


async def test_jobs_and_their_items_come_in_pages(connection: asyncpg.Connection) -> None:
    ids = await dead(connection, 3)
    made = []
    for one in ids:
        async with jobs(connection) as verbs:
            made.append((await verbs.replay(ADA, these([one]), reason=WHY)).job_id)
    async with jobs(connection) as verbs:
        first = await verbs.page(None, 2)
        rest = await verbs.page(first.next, 2)
    assert [job.id for job in (*first.jobs, *rest.jobs)] == made[::-1]
    assert rest.next is None

    async with jobs(connection) as verbs:
        all_of_one = await verbs.items(str(made[0]), None, 10)
    assert [(item.number, str(item.dlq_id), item.event_id, item.state) for item in all_of_one.items] == [
        (1, ids[0], "event-1", "PENDING")
    ]


async def test_a_page_of_items_goes_on_behind_the_last(connection: asyncpg.Connection) -> None:
    job_id = await a_job(connection, 5)
    async with jobs(connection) as verbs:
        first = await verbs.items(job_id, None, 3)
        rest = await verbs.items(job_id, first.next, 3)
    assert [item.number for item in first.items] == [1, 2, 3]
    assert [item.number for item in rest.items] == [4, 5]
    assert rest.next is None


# -- editing ---------------------------------------------------------------------------------------------------------


async def test_an_edit_makes_a_job_of_one_with_the_edited_record(connection: asyncpg.Connection) -> None:
    await letters.insert(connection, [letters.letter(1, key="a", headers=letters.headers(THING), value=b"{}")])
    async with jobs(connection) as verbs:
        made = await verbs.edit(
            EVE, str(letters.dlq_id(1)), {"thing_id": "a", "number": 5}, reason=WHY, catalogue=catalogue
        )
    assert (made.kind, made.total) == ("supersede", 1)
    row = await connection.fetchrow("SELECT status::text, job_id, superseded_by FROM surefoot.dlq_events")
    assert row is not None
    assert (row["status"], row["job_id"]) == ("REPLAYING", made.job_id)
    replacement = await connection.fetchval("SELECT replacement::text FROM surefoot.dlq_job_items")
    assert base64.b64encode(row["superseded_by"].encode()).decode() in replacement
    assert await audited(connection) == [("eve", "edit_replay", "done")]


async def test_an_edit_that_does_not_fit_changes_nothing(connection: asyncpg.Connection) -> None:
    await letters.insert(connection, [letters.letter(1, key="a", headers=letters.headers(THING), value=b"{}")])
    with pytest.raises(InvalidEdit, match="does not fit its type"):
        async with jobs(connection) as verbs:
            await verbs.edit(EVE, str(letters.dlq_id(1)), {"number": 5}, reason=WHY, catalogue=catalogue)
    assert await statuses(connection) == {"OPEN": 1}


@pytest.mark.parametrize(
    ("changed", "expected"), [({"status": "REPLAYED"}, WrongState), ({"consumer": ""}, InvalidEdit)]
)
async def test_only_an_open_letter_that_could_be_read_is_edited(
    connection: asyncpg.Connection, changed: dict[str, Any], expected: type[Exception]
) -> None:
    await letters.insert(connection, [letters.letter(1, **changed)])
    with pytest.raises(expected):
        async with jobs(connection) as verbs:
            await verbs.edit(EVE, str(letters.dlq_id(1)), {}, reason=WHY, catalogue=None)


async def test_a_letter_that_is_not_there_is_not_edited(connection: asyncpg.Connection) -> None:
    for one in (str(letters.new_id()), "no uuid"):
        with pytest.raises(NoSuchLetter):
            async with jobs(connection) as verbs:
                await verbs.edit(EVE, one, {}, reason=WHY, catalogue=None)
