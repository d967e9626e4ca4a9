"""How a job pauses by itself, is cancelled and ends; and what becomes of what cannot be sent."""

import asyncpg
import pytest

from surefoot.dlq.jobs.request import Matching
from surefoot.dlq.letters.filters import Filter
from surefoot.errors import LogUnavailable
from surefoot.log.postgres.log import PostgresLog
from tests.support.dlq import letter_rows as letters
from tests.support.dlq.decisions import (
    ADA,
    BOB,
    EVE,
    WHY,
    jobs,
    statuses,
    these,
)
from tests.support.dlq.sender_harness import Away, SendingGround, Unopened


@pytest.fixture
def ground(database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str) -> SendingGround:
    return SendingGround(database_url, connection, log, topic)


# -- pausing by itself, ending ---------------------------------------------------------------------------------------


async def test_a_canary_that_fails_stops_the_job_until_a_person_resumes_it(ground: SendingGround) -> None:
    job_id = await ground.replay(6, canary=2)
    await ground.look(3)
    assert await ground.sent_events() == ["event-1", "event-2"]
    await ground.answer(job_id, 1)
    await ground.answer(job_id, 2, said="failed_again")
    await ground.look()
    status, note = await ground.job(job_id)
    assert (status, (note or "").startswith("1 of the first 2 did not go well")) == ("PAUSED", True)
    await ground.look(2)
    assert len(await ground.sent()) == 2
    async with jobs(ground.connection) as verbs:
        await verbs.resume(ADA, job_id, "that one is known")
    await ground.look(2)
    assert len(await ground.sent()) == 6


async def test_a_canary_that_goes_well_is_followed_by_the_rest(ground: SendingGround) -> None:
    job_id = await ground.replay(6, canary=2)
    await ground.look()
    await ground.answer(job_id, 1, 2)
    await ground.look()
    assert len(await ground.sent()) == 6


async def test_a_resumed_job_does_not_pause_again_for_what_was_seen(ground: SendingGround) -> None:
    job_id = await ground.replay(40, stop_on_error_rate=0.1)
    await ground.look(unanswered=12)
    await ground.answer(job_id, *range(1, 13), said="failed_again")
    await ground.look(unanswered=12)
    assert (await ground.job(job_id))[0] == "PAUSED"
    async with jobs(ground.connection) as verbs:
        await verbs.resume(ADA, job_id, "go on all the same")
    await ground.look(unanswered=12)
    assert (await ground.job(job_id))[0] == "RUNNING"
    await ground.answer(job_id, *range(13, 25), said="failed_again")
    await ground.look(unanswered=12)
    assert (await ground.job(job_id))[0] == "PAUSED"


async def test_a_pause_by_a_person_does_not_end_the_canary(ground: SendingGround) -> None:
    job_id = await ground.replay(6, canary=2)
    await ground.look()
    async with jobs(ground.connection) as verbs:
        await verbs.pause(ADA, job_id, "lunch")
    async with jobs(ground.connection) as verbs:
        await verbs.resume(ADA, job_id, "back")
    await ground.answer(job_id, 1, said="failed_again")
    await ground.look()
    assert (await ground.job(job_id))[0] == "PAUSED"
    assert len(await ground.sent()) == 2


async def test_a_paused_job_ends_when_its_last_answer_comes(ground: SendingGround) -> None:
    job_id = await ground.replay(2)
    await ground.look()
    async with jobs(ground.connection) as verbs:
        await verbs.pause(ADA, job_id, "lunch")
    await ground.look()
    assert (await ground.job(job_id))[0] == "PAUSED"
    await ground.answer(job_id, 1, 2)
    await ground.look()
    assert (await ground.job(job_id))[0] == "DONE"


async def test_a_job_is_done_when_all_are_answered(ground: SendingGround) -> None:
    job_id = await ground.replay(3)
    await ground.look()
    await ground.answer(job_id, 1, 2)
    await ground.answer(job_id, 3, said="unknown")
    await ground.look()
    assert await ground.job(job_id) == ("DONE", "Of 3, 2 went well and 1 did not.")


async def test_a_rate_holds_it_back(ground: SendingGround) -> None:
    await ground.replay(30, rate=2.0)
    await ground.look(20)
    assert len(await ground.sent()) <= 3


# -- cancelling ------------------------------------------------------------------------------------------------------


async def test_behind_a_cancel_only_what_was_sent_is_sent_again_until_it_is_answered(ground: SendingGround) -> None:
    job_id = await ground.replay(4, keys=2)
    await ground.look()
    async with jobs(ground.connection) as verbs:
        await verbs.cancel(BOB, job_id, "not these")
    await ground.look(2)
    await ground.long_ago()
    await ground.look(2)
    assert await ground.sent_events() == ["event-1", "event-2"] * 2
    assert (await ground.job(job_id))[0] == "CANCELLING"
    await ground.answer(job_id, 1, 2)
    await ground.look()
    note = "Cancelled by bob: not these. Of 4, 2 went well, 0 did not and 2 were cancelled."
    assert await ground.job(job_id) == ("CANCELLED", note)


async def test_what_will_never_be_answered_is_abandoned_and_the_job_ends(ground: SendingGround) -> None:
    job_id = await ground.replay(4, keys=2)
    await ground.look()
    async with jobs(ground.connection) as verbs:
        await verbs.cancel(BOB, job_id, "not these")
        await verbs.abandon(EVE, job_id, "the consumer is gone")
    await ground.long_ago()
    await ground.look(2)
    assert await ground.sent_events() == ["event-1", "event-2"], "nothing is sent again"
    note = "Cancelled by bob: not these. Of 4, 0 went well, 0 did not and 4 were cancelled."
    assert await ground.job(job_id) == ("CANCELLED", note)
    assert await statuses(ground.connection) == {"OPEN": 4}
    async with jobs(ground.connection) as verbs:
        assert (await verbs.replay(BOB, Matching(Filter(consumer="warehouse")), reason=WHY)).total == 4


# -- what cannot be sent ---------------------------------------------------------------------------------------------


async def test_where_the_topic_or_partition_is_gone_we_answer_ourselves_and_the_letter_is_open(
    ground: SendingGround,
) -> None:
    ids = await ground.dead(1, topic="gone.events")
    await letters.insert(ground.connection, [letters.letter(7, topic=ground.topic, partition=99)])
    await letters.insert(ground.connection, [letters.letter(8, topic=ground.topic, partition=1)])
    wanted = these([*ids, str(letters.dlq_id(7)), str(letters.dlq_id(8))])
    async with jobs(ground.connection) as verbs:
        job_id = str((await verbs.replay(ADA, wanted, reason=WHY)).job_id)
    await ground.look()
    assert await ground.sent_events() == ["event-8"]
    rows = await ground.connection.fetch(
        "SELECT e.event_id, e.status::text, i.answer, i.sentence FROM surefoot.dlq_job_items i "
        "JOIN surefoot.dlq_events e ON e.id = i.dlq_id ORDER BY 1"
    )
    assert [tuple(row)[:3] for row in rows] == [
        ("event-1", "OPEN", "refused"),
        ("event-7", "OPEN", "refused"),
        ("event-8", "REPLAYING", None),
    ]
    assert rows[0]["sentence"].startswith("The log has no topic gone.events")
    assert rows[1]["sentence"].endswith("there is no number 99.")
    await ground.answer(job_id, 2)
    await ground.look()
    assert await ground.job(job_id) == ("DONE", "Of 3, 1 went well and 2 did not.")


async def test_a_letter_from_a_topic_that_cannot_be_is_answered_by_ourselves_too(ground: SendingGround) -> None:
    await letters.insert(
        ground.connection, [letters.letter(1, topic="no topic"), letters.letter(2, topic=ground.topic)]
    )
    async with jobs(ground.connection) as verbs:
        await verbs.replay(ADA, these([str(letters.dlq_id(n)) for n in (1, 2)]), reason=WHY)
    await ground.look()
    assert await ground.sent_events() == ["event-2"]
    assert await statuses(ground.connection) == {"OPEN": 1, "REPLAYING": 1}


async def test_a_letter_that_is_gone_from_under_a_dry_run_is_answered_too(ground: SendingGround) -> None:
    job_id = await ground.replay(2, dry_run=True)
    await ground.connection.execute("DELETE FROM surefoot.dlq_events WHERE event_id = 'event-1'")
    await ground.look()
    assert await ground.states(job_id) == ["ANSWERED", "SENT"]


async def test_what_could_not_be_sent_because_the_log_is_away_is_due_as_soon_as_it_is_back(
    ground: SendingGround,
) -> None:
    await ground.replay(3)
    sender = ground.sender(Away())
    with pytest.raises(LogUnavailable):
        await sender.look()
    sender.stop()
    await sender.run()
    await ground.look()
    assert len(await ground.sent()) == 3
    assert await ground.connection.fetchval("SELECT max(sends) FROM surefoot.dlq_job_items") == 1


async def test_a_log_that_cannot_be_opened_leaves_nothing_marked(ground: SendingGround) -> None:
    job_id = await ground.replay(1)
    sender = ground.sender(Unopened())
    with pytest.raises(LogUnavailable):
        await sender.look()
    sender.stop()
    await sender.run()
    assert await ground.states(job_id) == ["PENDING"]
