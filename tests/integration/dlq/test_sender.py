"""Sending: marked first, in order, one of a lane at a time, again under the same id, and nothing behind a cancel."""

import json
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from dlq.sender import Sender
from dlq.sender_statements import SenderStatements
from surefoot.errors import LogUnavailable
from surefoot.log.port import Publisher, PublishOutcome, Record, TopicPartition, TopicSpec
from surefoot.log.postgres import PostgresLog
from surefoot.testing.failpoints import FailpointError
from tests.integration.dlq import letters
from tests.integration.dlq.deciding import (
    ADA,
    BOB,
    EVE,
    GRACE,
    WHY,
    answer,
    approvals,
    dead,
    items,
    jobs,
    statuses,
    these,
    weaken,
)
from tests.integration.dlq.serving import quick
from tests.relaying import read_all


@dataclass
class Ground:
    url: str
    connection: asyncpg.Connection
    log: PostgresLog
    topic: str

    async def dead(self, count: int, **changed: Any) -> list[str]:
        return await dead(self.connection, count, **{"topic": self.topic, **changed})

    async def replay(self, count: int, keys: int = 1000, **how: Any) -> str:
        """A job over so many letters of so many keys, in the order of their numbers."""
        rows = [letters.letter(n, topic=self.topic, key=f"key-{n % keys}") for n in range(1, count + 1)]
        await letters.insert(self.connection, rows)
        async with jobs(self.connection) as verbs:
            made = await verbs.replay(ADA, these([str(row["id"]) for row in rows]), **{"reason": WHY, **how})
        return str(made.job_id)

    def sender(self, log: Any = None, **changes: object) -> Sender:
        return Sender(self.url, log or self.log, quick(**changes))

    async def look(self, times: int = 1, **changes: object) -> None:
        """What a service does in so many ticks."""
        sender = self.sender(**changes)
        try:
            for _ in range(times):
                await sender.look()
        finally:
            sender.stop()
            await sender.run()  # closes what it has open

    async def sent(self) -> list[dict[str, Any]]:
        """The control records in the topic, in order; the id under `id`."""
        records = sorted(await read_all(self.log, self.topic), key=lambda record: (record.partition, record.offset))
        return [{**json.loads(record.value or b""), "id": _id(record.headers)} for record in records]

    async def sent_events(self) -> list[str]:
        return [control["event_id"] for control in await self.sent()]

    async def states(self, job_id: str) -> list[str]:
        return [one[2] for one in await items(self.connection, job_id)]

    async def job(self, job_id: str) -> tuple[str, str | None]:
        row = await self.connection.fetchrow("SELECT status::text, note FROM surefoot.dlq_jobs WHERE id = $1", job_id)
        assert row is not None
        return row[0], row[1]

    async def answer(self, job_id: str, *numbers: int, said: str = "done") -> None:
        for number in numbers:
            await answer(self.connection, job_id, number, said)

    async def long_ago(self) -> None:
        """Everything that was sent was sent long ago."""
        await self.connection.execute("UPDATE surefoot.dlq_job_items SET sent_at = sent_at - interval '1 day'")


def _id(headers: Any) -> str:
    return str(dict(headers)["ce_id"], "utf-8")


@pytest.fixture
def ground(database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str) -> Ground:
    return Ground(database_url, connection, log, topic)


# -- what is sent ----------------------------------------------------------------------------------------------------


async def test_each_is_sent_to_the_partition_of_its_event_with_who_and_why(ground: Ground) -> None:
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


async def test_it_is_marked_before_it_leaves(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
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
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out, the record is out and the item still pending: a cancel opens a letter whose replay is under way."""
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
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await ground.replay(1)
    await die_at(ground, monkeypatch, "dlq.sender.published")
    async with jobs(ground.connection) as verbs:
        await verbs.cancel(BOB, job_id, "not these")
    assert await statuses(ground.connection) == {"REPLAYING": 1}


async def test_what_nobody_answers_is_sent_again_under_the_same_id_ever_more_rarely(ground: Ground) -> None:
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


# -- in order --------------------------------------------------------------------------------------------------------


async def test_of_a_lane_one_is_under_way_at_a_time_in_order(ground: Ground) -> None:
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
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out, a later one may have its effect while an earlier one was lost on the way."""
    weaken(monkeypatch, SenderStatements, "next_of_lanes", "DISTINCT ON (lane)", "")
    await ground.replay(6, keys=2)
    await ground.look()
    assert await under_way_together(ground) == 3


async def test_with_lanes_never(ground: Ground) -> None:
    await ground.replay(6, keys=2)
    await ground.look(3)
    assert await under_way_together(ground) == 1


async def test_a_dry_run_waits_for_no_lane_since_it_changes_nothing(ground: Ground) -> None:
    await ground.replay(6, keys=2, dry_run=True)
    await ground.look()
    assert [one["action"] for one in await ground.sent()] == ["inspect"] * 6


async def test_no_more_are_under_way_than_may_be(ground: Ground) -> None:
    job_id = await ground.replay(10)
    await ground.look(3, unanswered=4)
    assert (await ground.states(job_id)).count("SENT") == 4


async def test_two_services_send_each_once(ground: Ground) -> None:
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


# -- pausing by itself, ending ---------------------------------------------------------------------------------------


async def test_a_canary_that_fails_stops_the_job_until_a_person_resumes_it(ground: Ground) -> None:
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


async def test_a_canary_that_goes_well_is_followed_by_the_rest(ground: Ground) -> None:
    job_id = await ground.replay(6, canary=2)
    await ground.look()
    await ground.answer(job_id, 1, 2)
    await ground.look()
    assert len(await ground.sent()) == 6


async def test_a_resumed_job_does_not_pause_again_for_what_was_seen(ground: Ground) -> None:
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


async def test_a_pause_by_a_person_does_not_end_the_canary(ground: Ground) -> None:
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


async def test_a_paused_job_ends_when_its_last_answer_comes(ground: Ground) -> None:
    job_id = await ground.replay(2)
    await ground.look()
    async with jobs(ground.connection) as verbs:
        await verbs.pause(ADA, job_id, "lunch")
    await ground.look()
    assert (await ground.job(job_id))[0] == "PAUSED"
    await ground.answer(job_id, 1, 2)
    await ground.look()
    assert (await ground.job(job_id))[0] == "DONE"


async def test_a_job_is_done_when_all_are_answered(ground: Ground) -> None:
    job_id = await ground.replay(3)
    await ground.look()
    await ground.answer(job_id, 1, 2)
    await ground.answer(job_id, 3, said="unknown")
    await ground.look()
    assert await ground.job(job_id) == ("DONE", "Of 3, 2 went well and 1 did not.")


async def test_a_rate_holds_it_back(ground: Ground) -> None:
    await ground.replay(30, rate=2.0)
    await ground.look(20)
    assert len(await ground.sent()) <= 3


# -- cancelling ------------------------------------------------------------------------------------------------------


async def test_behind_a_cancel_only_what_was_sent_is_sent_again_until_it_is_answered(ground: Ground) -> None:
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
    note = "Cancelled by bob: not these. Of 4, 2 went well, 0 did not and 2 were not sent."
    assert await ground.job(job_id) == ("CANCELLED", note)


# -- what cannot be sent ---------------------------------------------------------------------------------------------


async def test_where_the_topic_or_partition_is_gone_we_answer_ourselves_and_the_letter_is_open(ground: Ground) -> None:
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


async def test_a_letter_from_a_topic_that_cannot_be_is_answered_by_ourselves_too(ground: Ground) -> None:
    await letters.insert(
        ground.connection, [letters.letter(1, topic="no topic"), letters.letter(2, topic=ground.topic)]
    )
    async with jobs(ground.connection) as verbs:
        await verbs.replay(ADA, these([str(letters.dlq_id(n)) for n in (1, 2)]), reason=WHY)
    await ground.look()
    assert await ground.sent_events() == ["event-2"]
    assert await statuses(ground.connection) == {"OPEN": 1, "REPLAYING": 1}


async def test_a_letter_that_is_gone_from_under_a_dry_run_is_answered_too(ground: Ground) -> None:
    job_id = await ground.replay(2, dry_run=True)
    await ground.connection.execute("DELETE FROM surefoot.dlq_events WHERE event_id = 'event-1'")
    await ground.look()
    assert await ground.states(job_id) == ["ANSWERED", "SENT"]


async def test_what_could_not_be_sent_because_the_log_is_away_is_due_as_soon_as_it_is_back(ground: Ground) -> None:
    await ground.replay(3)
    sender = ground.sender(Away())
    with pytest.raises(LogUnavailable):
        await sender.look()
    sender.stop()
    await sender.run()
    await ground.look()
    assert len(await ground.sent()) == 3
    assert await ground.connection.fetchval("SELECT max(sends) FROM surefoot.dlq_job_items") == 1


async def test_a_log_that_cannot_be_opened_leaves_nothing_marked(ground: Ground) -> None:
    job_id = await ground.replay(1)
    sender = ground.sender(Unopened())
    with pytest.raises(LogUnavailable):
        await sender.look()
    sender.stop()
    await sender.run()
    assert await ground.states(job_id) == ["PENDING"]


# -- discards and edits ----------------------------------------------------------------------------------------------


async def test_a_discard_says_who_asked_for_it_and_who_approved_it(ground: Ground) -> None:
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
async def test_a_set_that_changed_after_its_approval_is_not_discarded(ground: Ground, change: str) -> None:
    job_id = await discard(ground, 3)
    await ground.connection.execute(change)
    await ground.look(2)
    assert await ground.sent() == []
    status, note = await ground.job(job_id)
    assert (status, (note or "").startswith("The dead letters are no longer those")) == ("CANCELLED", True)
    assert set(await ground.states(job_id)) == {"CANCELLED"}
    assert (await statuses(ground.connection)).keys() == {"OPEN"}


async def test_without_the_second_look_a_death_that_nobody_has_seen_is_discarded(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def believe(*_: object) -> bool:
        return True

    await discard(ground, 3)
    await ground.connection.execute("UPDATE surefoot.dlq_events SET deaths = 2, letter_id = 'x' WHERE deaths = 1")
    monkeypatch.setattr("dlq.turn.Turns._is_as_approved", believe)
    await ground.look()
    assert len(await ground.sent()) == 3  # wrong: two people agreed on something else


async def test_unreadable_letters_that_were_discarded_at_once_do_not_change_the_set(ground: Ground) -> None:
    await letters.insert(
        ground.connection,
        [letters.letter(1, topic=ground.topic), letters.letter(2, topic=ground.topic, consumer="")],
    )
    await approve(ground, [str(letters.dlq_id(n)) for n in (1, 2)])
    await ground.look()
    assert await ground.sent_events() == ["event-1"]


async def test_an_edit_travels_as_a_supersede_with_the_whole_record(ground: Ground) -> None:
    (one,) = await ground.dead(1)
    async with jobs(ground.connection) as verbs:
        await verbs.edit(EVE, one, {"order_id": "2"}, reason=WHY, catalogue=None)
    await ground.look()
    (control,) = await ground.sent()
    assert control["action"] == "supersede"
    assert control["replacement"]["value"] == "eyJvcmRlcl9pZCI6IjIifQ=="


async def discard(ground: Ground, count: int) -> str:
    return await approve(ground, await ground.dead(count))


async def approve(ground: Ground, ids: list[str]) -> str:
    async with approvals(ground.connection) as verbs:
        asked = await verbs.request(ADA, these(ids), "test orders")
    async with approvals(ground.connection) as verbs:
        return str((await verbs.approve(GRACE, str(asked.id), asked.set_hash, "go ahead")).job_id)


async def die_at(ground: Ground, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """A look that ends at this point, as if the process were killed there."""

    async def strike(name: str) -> None:
        if name == point:
            raise FailpointError(name)

    with monkeypatch.context() as armed:
        armed.setattr("dlq.sender.failpoint", strike)
        with pytest.raises(FailpointError):
            await ground.look()


async def under_way_together(ground: Ground) -> int:
    """The most that are under way in one lane."""
    found: int = await ground.connection.fetchval(
        "SELECT max(n) FROM (SELECT count(*) AS n FROM surefoot.dlq_job_items WHERE state = 'SENT' GROUP BY lane) x"
    )
    return found


class Away:
    """A log that is opened and then takes nothing."""

    async def publisher(self) -> Publisher:
        return self

    async def topic(self, name: str) -> TopicSpec | None:
        raise LogUnavailable

    async def publish(self, where: TopicPartition, records: object) -> PublishOutcome:
        assert isinstance(records, list)
        assert all(isinstance(record, Record) for record in records)
        raise LogUnavailable

    async def close(self) -> None:
        return None


class Unopened(Away):
    async def publisher(self) -> Publisher:
        raise LogUnavailable
