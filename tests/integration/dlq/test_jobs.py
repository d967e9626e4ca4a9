"""Jobs over a frozen set: each dead letter is in one hand at a time, in order, and nothing happens twice."""

import asyncio
from typing import Any

import asyncpg
import pytest

from surefoot.audit.people import Person
from surefoot.dlq.errors import InvalidRequest, NoSuchJob, NotAllowed, NothingToDo, TooMany, TooManyJobs, WrongState
from surefoot.dlq.jobs.request import Ids, Matching
from surefoot.dlq.jobs.store import Finding, JobStatements
from surefoot.dlq.jobs.views import LeftOut
from surefoot.dlq.letters.filters import Filter
from tests.support.dlq import letter_rows as letters
from tests.support.dlq.decisions import (
    ADA,
    BOB,
    EVE,
    WHY,
    a_job,
    audited,
    dead,
    items,
    jobs,
    somebody_waits,
    statuses,
    these,
    weaken,
)
from tests.support.evidence import removed

VERA = Person("vera", "VIEWER")


async def test_a_replay_takes_the_open_ones_in_the_order_of_the_log(connection: asyncpg.Connection) -> None:
    rows = [
        letters.letter(1, topic="b.events", partition=0, log_offset=5),
        letters.letter(2, topic="a.events", partition=1, log_offset=9),
        letters.letter(3, topic="a.events", partition=1, log_offset=2),
        letters.letter(4, topic="a.events", partition=0, log_offset=7),
    ]
    await letters.insert(connection, rows)
    async with jobs(connection) as verbs:
        made = await verbs.replay(ADA, these([str(row["id"]) for row in rows]), reason=WHY)

    assert (made.kind, made.total, made.left_out) == ("replay", 4, ())
    found = await items(connection, made.job_id)
    assert [str(letters.dlq_id(n)) for n in (4, 3, 2, 1)] == [one[1] for one in found]
    assert [one[0] for one in found] == [1, 2, 3, 4]
    assert await statuses(connection) == {"REPLAYING": 4}
    lane = await connection.fetchval("SELECT lane FROM surefoot.dlq_job_items WHERE number = 1")
    assert lane == "warehouse/a.events/0/order-4"
    assert await audited(connection) == [("ada", "replay", "done")]


async def test_a_filter_freezes_what_it_matches_now_and_not_what_comes_later(connection: asyncpg.Connection) -> None:
    await dead(connection, 3)
    await letters.insert(connection, [letters.letter(10, fingerprint="another")])
    async with jobs(connection) as verbs:
        made = await verbs.replay(ADA, Matching(Filter(fingerprint="f" * 16)), reason=WHY)
    await letters.insert(connection, [letters.letter(11)])

    assert made.total == 3
    assert await statuses(connection) == {"REPLAYING": 3, "OPEN": 2}
    async with jobs(connection) as verbs:
        assert (await verbs.get(str(made.job_id))).total == 3


async def test_events_are_found_by_their_own_ids_too_for_every_consumer_that_gave_up(
    connection: asyncpg.Connection,
) -> None:
    await letters.insert(
        connection,
        [letters.letter(1, event_id="e-1"), letters.letter(2, event_id="e-1", consumer="billing"), letters.letter(3)],
    )
    async with jobs(connection) as verbs:
        made = await verbs.replay(ADA, Ids(frozenset({"e-1"})), reason=WHY)
    assert made.total == 2


async def test_what_is_not_open_or_not_there_is_left_out_and_said(connection: asyncpg.Connection) -> None:
    await dead(connection, 2)
    await letters.insert(
        connection,
        [
            letters.letter(5, status="REPLAYED"),
            letters.letter(6, status="DISCARD_REQUESTED"),
            letters.letter(7, status="OPEN", consumer=""),
        ],
    )
    asked = {str(letters.dlq_id(n)) for n in (1, 2, 5, 6, 7)} | {"no-such-event", "nor\x00this"}
    async with jobs(connection) as verbs:
        made = await verbs.replay(ADA, Ids(frozenset(asked)), reason=WHY)
    assert made.total == 2
    assert made.left_out == (
        LeftOut(why="discard_requested", many=1),
        LeftOut(why="no_such_letter", many=2),
        LeftOut(why="replayed", many=1),
        LeftOut(why="unreadable", many=1),
    )


async def test_a_filter_says_how_many_others_have_in_hand(connection: asyncpg.Connection) -> None:
    await dead(connection, 1)
    await letters.insert(connection, [letters.letter(n, status="REPLAYING") for n in (5, 6)])
    await letters.insert(connection, [letters.letter(7, status="REPLAYED")])
    async with jobs(connection) as verbs:
        made = await verbs.replay(ADA, Matching(Filter(consumer="warehouse")), reason=WHY)
    assert (made.total, made.left_out) == (1, (LeftOut(why="replaying", many=2),))


# -- a second click, a second operator -------------------------------------------------------------------------------


async def test_a_second_click_finds_nothing_left_to_do(connection: asyncpg.Connection) -> None:
    ids = await dead(connection, 3)
    async with jobs(connection) as verbs:
        await verbs.replay(ADA, these(ids), reason=WHY)
    with pytest.raises(NothingToDo, match="3 replaying"):
        async with jobs(connection) as verbs:
            await verbs.replay(ADA, these(ids), reason=WHY)
    assert await connection.fetchval("SELECT count(*) FROM surefoot.dlq_jobs") == 1


async def test_two_operators_at_once_never_have_the_same_letter(
    connection: asyncpg.Connection, database_url: str
) -> None:
    """The second waits for the first, and then finds what that one left."""
    ids = await dead(connection, 20)
    made = await at_once(database_url, ids[:15], ids[5:])
    assert made == [15, 5]
    assert await in_two_jobs(connection) == 0
    assert await statuses(connection) == {"REPLAYING": 20}


async def test_two_operators_with_one_filter_divide_nothing_twice(
    connection: asyncpg.Connection, database_url: str
) -> None:
    await dead(connection, 20)
    first, second = await asyncpg.connect(database_url), await asyncpg.connect(database_url)
    try:
        async with jobs(first) as verbs:
            await verbs.replay(ADA, Matching(Filter(consumer="warehouse")), reason=WHY)
            waiting = asyncio.create_task(replay_all(second))
            await somebody_waits(database_url)
        with pytest.raises(NothingToDo):
            await waiting
    finally:
        await first.close()
        await second.close()
    assert await in_two_jobs(connection) == 0


async def test_without_the_compare_and_set_two_operators_have_the_same_letter(
    connection: asyncpg.Connection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out, the set is what was read, whatever became of it since: letters are in two jobs."""
    removed("dlq.compare_and_set")
    weaken(monkeypatch, Finding, "by_ids", " FOR UPDATE", "")
    weaken(monkeypatch, JobStatements, "take", " AND status = 'OPEN'", "")
    ids = await dead(connection, 20)
    made = await at_once(database_url, ids[:15], ids[5:])
    assert made == [15, 15]
    assert await in_two_jobs(connection) == 10


async def at_once(url: str, *asked: list[str]) -> list[int]:
    """Two operators whose transactions overlap; how many letters each job has."""
    first, second = await asyncpg.connect(url), await asyncpg.connect(url)
    try:
        async with jobs(first) as verbs:
            one = await verbs.replay(ADA, these(asked[0]), reason=WHY)
            waiting = asyncio.create_task(replay_these(second, asked[1]))
            await somebody_waits(url)
        return [one.total, await waiting]
    finally:
        await first.close()
        await second.close()


async def replay_these(connection: asyncpg.Connection, ids: list[str]) -> int:
    async with jobs(connection) as verbs:
        return (await verbs.replay(BOB, these(ids), reason=WHY)).total


async def replay_all(connection: asyncpg.Connection) -> None:
    async with jobs(connection) as verbs:
        await verbs.replay(BOB, Matching(Filter(consumer="warehouse")), reason=WHY)


async def in_two_jobs(connection: asyncpg.Connection) -> int:
    found: int = await connection.fetchval(
        "SELECT count(*) FROM (SELECT dlq_id FROM surefoot.dlq_job_items GROUP BY 1 HAVING count(*) > 1) x"
    )
    return found


# -- a dry run -------------------------------------------------------------------------------------------------------


async def test_a_dry_run_changes_no_letter_and_is_recorded_as_one(connection: asyncpg.Connection) -> None:
    ids = await dead(connection, 2)
    async with jobs(connection) as verbs:
        made = await verbs.replay(ADA, these(ids), reason=WHY, dry_run=True)
    assert (made.kind, made.total) == ("inspect", 2)
    assert await statuses(connection) == {"OPEN": 2}
    assert await audited(connection) == [("ada", "dry_run", "done")]


# -- limits ----------------------------------------------------------------------------------------------------------


async def test_more_than_one_job_takes_are_refused_by_ids_and_by_filter(connection: asyncpg.Connection) -> None:
    ids = await dead(connection, 4)
    for wanted in (these(ids), Matching(Filter(consumer="warehouse"))):
        with pytest.raises(TooMany, match="More than 3"):
            async with jobs(connection, most_items=3) as verbs:
                await verbs.replay(ADA, wanted, reason=WHY)
    assert await statuses(connection) == {"OPEN": 4}


async def test_a_person_has_only_so_many_jobs_under_way(connection: asyncpg.Connection) -> None:
    ids = await dead(connection, 3)
    for one in ids[:2]:
        async with jobs(connection, jobs_per_person=2) as verbs:
            await verbs.replay(ADA, these([one]), reason=WHY)
    with pytest.raises(TooManyJobs, match="ada has 2 jobs under way"):
        async with jobs(connection, jobs_per_person=2) as verbs:
            await verbs.replay(ADA, these(ids[2:]), reason=WHY)
    async with jobs(connection, jobs_per_person=2) as verbs:
        assert (await verbs.replay(BOB, these(ids[2:]), reason=WHY)).total == 1


@pytest.mark.parametrize(
    "asked",
    [
        {"reason": "   "},
        {"reason": "x" * 2001},
        {"canary": -1},
        {"rate": 0.0},
        {"rate": float("nan")},
        {"stop_on_error_rate": 1.5},
    ],
)
async def test_a_value_that_cannot_be_used_is_refused(connection: asyncpg.Connection, asked: dict[str, Any]) -> None:
    ids = await dead(connection, 1)
    with pytest.raises(InvalidRequest):
        async with jobs(connection) as verbs:
            await verbs.replay(ADA, these(ids), **{"reason": WHY, **asked})


async def test_a_viewer_replays_nothing_and_an_operator_edits_nothing(connection: asyncpg.Connection) -> None:
    (one,) = await dead(connection, 1)
    with pytest.raises(NotAllowed, match="vera is VIEWER"):
        async with jobs(connection) as verbs:
            await verbs.replay(VERA, these([one]), reason=WHY)
    with pytest.raises(NotAllowed, match="ada is OPERATOR"):
        async with jobs(connection) as verbs:
            await verbs.edit(ADA, one, {}, reason=WHY, catalogue=None)
    assert await statuses(connection) == {"OPEN": 1}


# -- pause, resume, cancel -------------------------------------------------------------------------------------------


async def test_a_job_is_paused_and_resumed_once_each(connection: asyncpg.Connection) -> None:
    job_id = await a_job(connection, 2)
    async with jobs(connection) as verbs:
        paused = await verbs.pause(ADA, job_id, "lunch")
    assert (paused.status, paused.note) == ("PAUSED", "Paused by ada: lunch")
    with pytest.raises(WrongState, match="PAUSED"):
        async with jobs(connection) as verbs:
            await verbs.pause(BOB, job_id, "lunch")
    async with jobs(connection) as verbs:
        resumed = await verbs.resume(BOB, job_id, "back")
    assert (resumed.status, resumed.note) == ("RUNNING", None)
    with pytest.raises(WrongState):
        async with jobs(connection) as verbs:
            await verbs.resume(BOB, job_id, "back")
    assert await audited(connection) == [("ada", "replay", "done"), ("ada", "pause", "done"), ("bob", "resume", "done")]


async def test_a_cancel_gives_back_what_was_not_sent_and_keeps_what_was(connection: asyncpg.Connection) -> None:
    job_id = await a_job(connection, 3)
    await connection.execute("UPDATE surefoot.dlq_job_items SET state = 'SENT', sent_at = now() WHERE number = 1")
    async with jobs(connection) as verbs:
        job = await verbs.cancel(BOB, job_id, "wrong ones")
    assert (job.status, job.sent, job.cancelled, job.pending) == ("CANCELLING", 1, 2, 0)
    assert await statuses(connection) == {"REPLAYING": 1, "OPEN": 2}
    for verb in ("pause", "resume", "cancel"):
        with pytest.raises(WrongState, match="CANCELLING"):
            async with jobs(connection) as verbs:
                await getattr(verbs, verb)(ADA, job_id, "again")


async def test_only_a_cancelled_job_is_abandoned_and_what_was_sent_is_open_again(
    connection: asyncpg.Connection,
) -> None:
    job_id = await a_job(connection, 3)
    await connection.execute("UPDATE surefoot.dlq_job_items SET state = 'SENT', sent_at = now() WHERE number < 3")
    await connection.execute("UPDATE surefoot.dlq_job_items SET state = 'ANSWERED', answer = 'done' WHERE number = 1")
    with pytest.raises(WrongState, match="RUNNING: it cannot be told to abandon"):
        async with jobs(connection) as verbs:
            await verbs.abandon(EVE, job_id, "the consumer is gone")
    async with jobs(connection) as verbs:
        await verbs.cancel(BOB, job_id, "wrong ones")
    with pytest.raises(NotAllowed, match="bob is OPERATOR, and this takes ADMIN"):
        async with jobs(connection) as verbs:
            await verbs.abandon(BOB, job_id, "the consumer is gone")
    async with jobs(connection) as verbs:
        job = await verbs.abandon(EVE, job_id, "the consumer is gone")
    assert (job.sent, job.cancelled, job.answered) == (0, 2, 1), "an answer that came is kept"
    assert await statuses(connection) == {"REPLAYING": 1, "OPEN": 2}
    assert await connection.fetchval("SELECT sentence FROM surefoot.dlq_job_items WHERE number = 2") == (
        "Abandoned by eve, unanswered: the consumer is gone"
    )
    assert (await audited(connection))[-1] == ("eve", "abandon", "done")


async def test_what_a_cancel_gave_back_can_be_taken_by_the_next_job_and_is_not_touched_by_the_old(
    connection: asyncpg.Connection,
) -> None:
    job_id = await a_job(connection, 2)
    async with jobs(connection) as verbs:
        await verbs.cancel(BOB, job_id, "wrong ones")
    async with jobs(connection) as verbs:
        again = await verbs.replay(BOB, Matching(Filter(consumer="warehouse")), reason=WHY)
    assert again.total == 2
    held = await connection.fetch("SELECT DISTINCT job_id FROM surefoot.dlq_events")
    assert [row[0] for row in held] == [again.job_id]


async def test_what_is_not_there_cannot_be_changed(connection: asyncpg.Connection) -> None:
    for job_id in (str(letters.new_id()), "no uuid"):
        with pytest.raises(NoSuchJob):
            async with jobs(connection) as verbs:
                await verbs.cancel(ADA, job_id, "it is gone")
        with pytest.raises(NoSuchJob):
            async with jobs(connection) as verbs:
                await verbs.get(job_id)
