"""Sending: marked first, in order, one of a lane at a time, and again under the same id."""

import asyncpg
import pytest

from surefoot.database.connection import Connection
from surefoot.dlq.jobs.sender import Batch, Rests, Sender, SenderStatements
from surefoot.log.postgres.log import PostgresLog
from tests.support.dlq.decisions import (
    ADA,
    BOB,
    WHY,
    jobs,
    statuses,
    these,
    weaken,
)
from tests.support.dlq.sender_harness import SendingGround, die_at
from tests.support.evidence import removed
from tests.support.relay.processes import read_all


@pytest.fixture
def ground(database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str) -> SendingGround:
    return SendingGround(database_url, connection, log, topic)


# -- what is sent ----------------------------------------------------------------------------------------------------


async def test_each_is_sent_to_the_partition_of_its_event_with_who_and_why(ground: SendingGround) -> None:
    ids = await ground.dead(1, partition=5, key="k", record_key=b"k")
    async with jobs(ground.connection) as verbs:
        job_id = (await verbs.replay(ADA, these(ids), reason=WHY)).job_id
    await ground.look()
    (record,) = await read_all(ground.log, ground.topic)
    assert (record.partition, record.key) == (5, b"k")
    assert dict(record.headers)["surefoot-target"] == b"warehouse"
    control_id = await ground.connection.fetchval("SELECT control_id::text FROM surefoot.dlq_job_items")
    assert await ground.sent() == [
        {"action": "replay", "consumer": "warehouse", "source": "/tests", "event_id": "event-1", "by": "ada",
         "why": WHY, "id": control_id}
    ]  # fmt: skip
    assert await ground.states(str(job_id)) == ["SENT"]


async def test_it_is_marked_before_it_leaves(ground: SendingGround, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever dies in between leaves a mark and no record; it is sent later, under the same id."""
    job_id = await ground.replay(1)
    await die_at(ground, monkeypatch, "dlq.sender.marked")
    assert await ground.states(job_id) == ["SENT"]
    assert await ground.sent() == []
    await ground.look()
    assert await ground.sent() == []  # not due yet
    await ground.long_ago()
    await ground.look()
    control_id = await ground.connection.fetchval("SELECT control_id::text FROM surefoot.dlq_job_items")
    assert [one["id"] for one in await ground.sent()] == [control_id]


async def test_without_marking_first_a_crash_forgets_that_it_was_sent(
    ground: SendingGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out, the record is out and the item still pending: a cancel opens a letter whose replay is under way."""
    removed("dlq.sender_mark")
    weaken(monkeypatch, SenderStatements, "mark", "state = 'SENT'", "state = state")
    weaken(monkeypatch, SenderStatements, "marked", " AND i.state = 'SENT'", "")
    job_id = await ground.replay(1)
    await die_at(ground, monkeypatch, "dlq.sender.published")
    assert await ground.sent_events() == ["event-1"]
    assert await ground.states(job_id) == ["PENDING"]
    async with jobs(ground.connection) as verbs:
        await verbs.cancel(BOB, job_id, "not these")
    assert await statuses(ground.connection) == {"OPEN": 1}  # wrong: it may be replayed any moment


async def test_with_the_mark_a_cancel_keeps_what_was_sent_in_hand(
    ground: SendingGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await ground.replay(1)
    await die_at(ground, monkeypatch, "dlq.sender.published")
    async with jobs(ground.connection) as verbs:
        await verbs.cancel(BOB, job_id, "not these")
    assert await statuses(ground.connection) == {"REPLAYING": 1}


async def test_what_nobody_answers_is_sent_again_under_the_same_id_ever_more_rarely(ground: SendingGround) -> None:
    job_id = await ground.replay(1)
    await ground.look(2)
    for sends in (2, 3):
        await ground.long_ago()
        await ground.look(2)
        assert len(await ground.sent()) == sends
    assert len({one["id"] for one in await ground.sent()}) == 1
    # The third time it waits four times as long as the first.
    await ground.connection.execute(
        "UPDATE surefoot.dlq_job_items SET sent_at = clock_timestamp() - interval '3 seconds'"
    )
    await ground.look(resend_after="PT1S")
    assert len(await ground.sent()) == 3
    await ground.look(resend_after="PT0.5S")
    assert len(await ground.sent()) == 4
    assert await ground.states(job_id) == ["SENT"]


async def test_a_job_that_waits_for_answers_is_not_counted_again_until_something_changes(
    ground: SendingGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer, a decision, a repeat that is due: each has it looked at, and nothing else has."""
    job_id = await ground.replay(4, keys=2)
    sender = ground.sender(resend_after="PT60S")
    turns = counting(sender, monkeypatch)
    try:
        for _ in range(5):
            await sender.look()
        assert len(turns) == 2  # one that sent, one that found nothing to do
        await ground.answer(job_id, 1)
        for _ in range(5):
            await sender.look()
        assert (len(turns), await ground.states(job_id)) == (4, ["ANSWERED", "SENT", "SENT", "PENDING"])
        await ground.long_ago()
        for _ in range(5):
            await sender.look()
        assert (len(turns), len(await ground.sent())) == (6, 5)
        async with jobs(ground.connection) as verbs:
            await verbs.cancel(ADA, job_id, "not these")
        await ground.answer(job_id, 2, 3)
        await sender.look()
        assert (await ground.job(job_id))[0] == "CANCELLED"
    finally:
        sender.stop()
        await sender.run()


def counting(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs that it has counted, each time it does."""
    turns: list[str] = []
    real = sender.turns.take

    async def counted(connection: Connection, job_id: str) -> Batch | Rests | None:
        turns.append(job_id)
        return await real(connection, job_id)

    monkeypatch.setattr(sender.turns, "take", counted)
    return turns


# -- in order --------------------------------------------------------------------------------------------------------


async def test_of_a_lane_one_is_under_way_at_a_time_in_order(ground: SendingGround) -> None:
    job_id = await ground.replay(6, keys=2)
    await ground.look(3)
    assert await ground.sent_events() == ["event-1", "event-2"]
    await ground.answer(job_id, 2)
    await ground.look(3)
    assert await ground.sent_events() == ["event-1", "event-2", "event-4"]
    await ground.answer(job_id, 1, said="failed_again")
    await ground.look(3)
    assert await ground.sent_events() == ["event-1", "event-2", "event-4", "event-3"]


async def test_without_lanes_events_of_one_key_are_under_way_together(
    ground: SendingGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out, a later one may have its effect while an earlier one was lost on the way."""
    removed("dlq.sender_lanes")
    weaken(monkeypatch, SenderStatements, "next_of_lanes", "DISTINCT ON (lane)", "")
    await ground.replay(6, keys=2)
    await ground.look()
    assert await under_way_together(ground) == 3


async def test_with_lanes_never(ground: SendingGround) -> None:
    await ground.replay(6, keys=2)
    await ground.look(3)
    assert await under_way_together(ground) == 1


async def test_a_dry_run_waits_for_no_lane_since_it_changes_nothing(ground: SendingGround) -> None:
    await ground.replay(6, keys=2, dry_run=True)
    await ground.look()
    assert [one["action"] for one in await ground.sent()] == ["inspect"] * 6


async def test_no_more_are_under_way_than_may_be(ground: SendingGround) -> None:
    job_id = await ground.replay(10)
    await ground.look(3, unanswered=4)
    assert (await ground.states(job_id)).count("SENT") == 4


async def test_two_services_send_each_once(ground: SendingGround) -> None:
    await ground.replay(50)
    one, other = ground.sender(unanswered=10), ground.sender(unanswered=10)
    try:
        for _ in range(3):
            await one.look()
            await other.look()
            await ground.connection.execute(
                "UPDATE surefoot.dlq_job_items SET state = 'ANSWERED', answer = 'done', answered_at = now() "
                "WHERE state = 'SENT'"
            )
    finally:
        for sender in (one, other):
            sender.stop()
            await sender.run()
    sent = await ground.sent_events()
    assert len(sent) == len(set(sent)) == 30


async def under_way_together(ground: SendingGround) -> int:
    """The most that are under way in one lane."""
    found: int = await ground.connection.fetchval(
        "SELECT max(n) FROM (SELECT count(*) AS n FROM surefoot.dlq_job_items WHERE state = 'SENT' GROUP BY lane) x"
    )
    return found
