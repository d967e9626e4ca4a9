"""Sending control records: every service process looks at the jobs under way, and goes on with those that no other has
in hand.

One turn of a job: its row is locked, the facts are read, the policy decides, and what it decided is written. What the
turn gives is sent once that is committed.

What is sent is marked first, in a transaction that commits before anything leaves: killed in between, the record is
sent later, under the same id; killed behind it, it is sent twice, and the consumer drops the repeat. A job moves on by
answers alone.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple, assert_never

import structlog

from surefoot.consumer.contracts import Replacement
from surefoot.database.connection import Connection, Row
from surefoot.database.schema import checked_schema
from surefoot.dlq.jobs.controls import CannotBeTold, Item, control_of
from surefoot.dlq.jobs.policy import Facts, Finish, Pause, Send, Wait, counts_as, decide
from surefoot.dlq.jobs.request import set_hash
from surefoot.dlq.jobs.store import LETTER_COLUMNS, JobStore, letter_of
from surefoot.dlq.metrics import CONTROLS, HEARTBEAT
from surefoot.dlq.settings import DlqSettings
from surefoot.dlq.subscriber import Part
from surefoot.errors import LogUnavailable
from surefoot.events.text import printable
from surefoot.failpoints import failpoint
from surefoot.log.port import EventLog, Publisher, Record, Refused, TopicPartition

ONE_AT_A_TIME = ("replay", "supersede")
"""What makes consumers try events: of a lane only one is under way. The others change no order, and need not wait."""
CHANGED = (
    "The dead letters are no longer those that were approved: one of them has died again, or is gone. Nothing was "
    "sent; look again, and ask for the discard again."
)
MAX_SENTENCE = 2000
MOST_DOUBLED = 32
"""What is not answered is sent again after twice as long each time, up to so many times the first."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What to send of a job."""

    job_id: str
    items: tuple[Item, ...]
    gone: tuple[int, ...]
    """Numbers of items whose letters are no longer kept: nobody knows whom to tell."""


@dataclass(frozen=True, slots=True)
class Rests:
    """There is nothing to do until something changes: an answer comes, somebody decides, a repeat is due."""


class SenderStatements:
    def __init__(self, schema: str) -> None:
        s = checked_schema(schema)
        items = f"{s}.dlq_job_items"
        self._looking(s, items)
        self._moving(s, items)

    def _looking(self, s: str, items: str) -> None:
        # One that is paused and waits for no answer has nothing to do, unless it is to end. All of this is read from
        # the index of items under way, which has few entries for each job: it is asked at every tick.
        self.under_way = f"""
            SELECT j.id::text, j.status::text, w.sent, w.due OR j.rate IS NOT NULL AS restless
            FROM {s}.dlq_jobs j CROSS JOIN LATERAL (
                SELECT count(*) AS sent, coalesce(bool_or({_due("$1")}), false) AS due
                FROM {items} i WHERE i.job_id = j.id AND i.state = 'SENT') w
            WHERE j.ended_at IS NULL AND (j.status <> 'PAUSED' OR w.sent > 0
                OR NOT EXISTS (SELECT FROM {items} i WHERE i.job_id = j.id AND i.state = 'PENDING'))
            ORDER BY j.id"""
        # Somebody else who has it in hand will do it: there is no need to wait.
        self.lock = f"""
            SELECT j.kind::text, j.status::text, j.total, j.canary, j.rate, j.stop_on_error_rate, j.allowance, j.note,
                extract(epoch FROM clock_timestamp() - j.looked_at)::float8 AS elapsed_s, j.counted_from, j.reason,
                j.created_by, j.approval_id::text,
                (SELECT a.decided_by FROM {s}.dlq_approvals a WHERE a.id = j.approval_id) AS approved_by,
                (SELECT a.set_hash FROM {s}.dlq_approvals a WHERE a.id = j.approval_id) AS set_hash
            FROM {s}.dlq_jobs j WHERE j.id = $1::uuid AND j.ended_at IS NULL FOR UPDATE OF j SKIP LOCKED"""
        self.counts = f"""
            SELECT state::text, answer, number <= $2::int AS is_canary,
                $3::timestamptz IS NULL OR answered_at > $3::timestamptz AS counts, count(*) AS many
            FROM {items} WHERE job_id = $1::uuid GROUP BY 1, 2, 3, 4"""
        self.next = f"""
            SELECT number FROM {items} WHERE job_id = $1::uuid AND state = 'PENDING' ORDER BY number LIMIT $2::int"""
        # The first of each lane that is not over: if that one was sent, the lane is not free.
        self.next_of_lanes = f"""
            SELECT number FROM (
                SELECT DISTINCT ON (lane) number, state FROM {items}
                WHERE job_id = $1::uuid AND state IN ('PENDING', 'SENT') ORDER BY lane, number) first
            WHERE state = 'PENDING' ORDER BY number LIMIT $2::int"""
        self.due = f"""
            SELECT number FROM {items} WHERE job_id = $1::uuid AND state = 'SENT' AND ({_due("$2")})
            ORDER BY number LIMIT $3::int"""
        # For the second look, before a job sends anything: those it holds, and those that were discarded at once.
        self.letters_again = f"""
            SELECT {LETTER_COLUMNS} FROM {s}.dlq_approval_items i JOIN {s}.dlq_events e ON e.id = i.dlq_id
            WHERE i.approval_id = $1::uuid AND ((e.status = 'DISCARD_REQUESTED' AND e.job_id = $2::uuid)
                OR (e.consumer = '' AND e.status = 'DISCARDED')) ORDER BY e.id FOR UPDATE OF e"""

    def _moving(self, s: str, items: str) -> None:
        self.looked = f"""
            UPDATE {s}.dlq_jobs SET allowance = $2::float8, looked_at = clock_timestamp() WHERE id = $1::uuid"""
        self.mark = f"""
            UPDATE {items} SET state = 'SENT', sent_at = clock_timestamp(), sends = sends + 1
            WHERE job_id = $1::uuid AND number = ANY ($2::int[]) AND state IN ('PENDING', 'SENT')"""
        self.marked = f"""
            SELECT i.number, i.control_id::text, i.replacement::text, e.consumer, e.source, e.event_id, e.topic,
                e.partition, e.key, e.record_key
            FROM {items} i LEFT JOIN {s}.dlq_events e ON e.id = i.dlq_id
            WHERE i.job_id = $1::uuid AND i.number = ANY ($2::int[]) AND i.state = 'SENT' ORDER BY i.number"""
        # Not sent after all: due at once.
        self.unmark = f"""
            UPDATE {items} SET sent_at = NULL, sends = sends - 1
            WHERE job_id = $1::uuid AND number = ANY ($2::int[]) AND state = 'SENT' AND sends > 0"""
        self.pause = f"""
            UPDATE {s}.dlq_jobs SET status = 'PAUSED', note = $2::text, counted_from = now() WHERE id = $1::uuid"""
        self.finish = f"""
            UPDATE {s}.dlq_jobs SET status = $2::text::{s}.dlq_job_status, note = $3::text, ended_at = now()
            WHERE id = $1::uuid"""
        # The letters before the items, as those who take answers lock them.
        self.lock_letters = f"""
            SELECT e.id FROM {s}.dlq_events e JOIN {items} i ON i.dlq_id = e.id
            WHERE i.job_id = $1::uuid AND i.number = ANY ($2::int[]) ORDER BY e.id FOR UPDATE OF e"""
        self.refuse = f"""
            UPDATE {items} i SET state = 'ANSWERED', answer = 'refused', sentence = n.sentence, answered_at = now()
            FROM unnest($2::int[], $3::text[]) AS n(number, sentence)
            WHERE i.job_id = $1::uuid AND i.number = n.number AND i.state = 'SENT' RETURNING i.dlq_id"""


def _due(after: str) -> str:
    """Whether an item that was sent is to be sent again."""
    return (
        f"sent_at IS NULL OR sent_at + {after}::interval * least(2 ^ (sends - 1), {MOST_DOUBLED}) <= clock_timestamp()"
    )


class Turns:
    def __init__(self, settings: DlqSettings) -> None:
        self._settings = settings
        self._sql = SenderStatements(settings.db_schema)

    async def under_way(self, connection: Connection) -> Sequence[Row]:
        """The jobs that may have something to do."""
        return await connection.fetch(self._sql.under_way, self._settings.resend_after)

    async def take(self, connection: Connection, job_id: str) -> Batch | Rests | None:
        """In a transaction of its own. None if the job was changed, or somebody else has it in hand."""
        async with connection.transaction():
            job = await connection.fetchrow(self._sql.lock, job_id)
            if job is None:
                return None
            facts = await self._facts(connection, job_id, job)
            match decide(facts):
                case Send(numbers, allowance):
                    if not await self._is_as_approved(connection, job_id, job, facts):
                        await self._call_off(connection, job_id)
                        return None
                    await connection.execute(self._sql.looked, job_id, allowance)
                    await connection.execute(self._sql.mark, job_id, list(numbers))
                    return _batch(job_id, job, await connection.fetch(self._sql.marked, job_id, list(numbers)))
                case Pause(note):
                    await connection.execute(self._sql.pause, job_id, note)
                case Finish(status, note):
                    said = note if status == "DONE" or job["note"] is None else f"{job['note'].rstrip('.')}. {note}"
                    await connection.execute(self._sql.finish, job_id, status, said)
                case Wait(allowance):
                    if facts.rate is not None and facts.status == "RUNNING":
                        await connection.execute(self._sql.looked, job_id, allowance)
                    return Rests()
                case other:
                    assert_never(other)
            return None

    async def unmark(self, connection: Connection, job_id: str, numbers: Sequence[int]) -> None:
        """These were not sent after all: they are due at once."""
        await connection.execute(self._sql.unmark, job_id, numbers)

    async def refuse(self, connection: Connection, job_id: str, refused: Sequence[tuple[int, str]]) -> None:
        """Answer these ourselves, each with a sentence, and have their dead letters open again."""
        numbers = [number for number, _ in refused]
        sentences = [printable(sentence, MAX_SENTENCE) for _, sentence in refused]
        async with connection.transaction():
            await connection.fetch(self._sql.lock_letters, job_id, numbers)
            rows = await connection.fetch(self._sql.refuse, job_id, numbers, sentences)
            await JobStore(connection, self._settings.db_schema).reopen(job_id, [row[0] for row in rows])

    async def _facts(self, connection: Connection, job_id: str, job: Row) -> Facts:
        kind, most = job["kind"], self._settings.unanswered
        by_lanes = self._sql.next_of_lanes if kind in ONE_AT_A_TIME else self._sql.next
        counts = await connection.fetch(self._sql.counts, job_id, job["canary"], job["counted_from"])
        upcoming = await connection.fetch(by_lanes, job_id, most) if job["status"] == "RUNNING" else []
        due = await connection.fetch(self._sql.due, job_id, self._settings.resend_after, most)
        answered = [row for row in counts if row["state"] == "ANSWERED"]
        failed = [row for row in answered if counts_as(kind, row["answer"]) == "failed"]
        return Facts(
            status=job["status"],
            total=job["total"],
            pending=_sum(row for row in counts if row["state"] == "PENDING"),
            sent=_sum(row for row in counts if row["state"] == "SENT"),
            answered=_sum(answered),
            failed=_sum(failed),
            counted=_sum(row for row in answered if row["counts"]),
            counted_failed=_sum(row for row in failed if row["counts"]),
            canary=job["canary"],
            canary_failed=_sum(row for row in failed if row["is_canary"]),
            canary_answered=_sum(row for row in answered if row["is_canary"]),
            may_canary=job["counted_from"] is None,
            rate=job["rate"],
            stop_on_error_rate=job["stop_on_error_rate"],
            allowance=job["allowance"],
            elapsed_s=job["elapsed_s"],
            most_unanswered=most,
            next=tuple(row[0] for row in upcoming),
            due=tuple(row[0] for row in due),
        )

    async def _is_as_approved(self, connection: Connection, job_id: str, job: Row, facts: Facts) -> bool:
        """Whether the dead letters are still those that two people agreed on. Asked before the first is sent."""
        if job["approval_id"] is None or facts.sent or facts.answered:
            return True
        rows = await connection.fetch(self._sql.letters_again, job["approval_id"], job_id)
        approved: str = job["set_hash"]
        return set_hash(letter_of(row).line for row in rows) == approved

    async def _call_off(self, connection: Connection, job_id: str) -> None:
        await JobStore(connection, self._settings.db_schema).give_back(job_id)
        await connection.execute(self._sql.finish, job_id, "CANCELLED", CHANGED)


def _sum(rows: Iterable[Row]) -> int:
    return sum(row["many"] for row in rows)


def _batch(job_id: str, job: Row, rows: Sequence[Row]) -> Batch:
    by = job["created_by"] if job["approved_by"] is None else f"{job['created_by']}, approved by {job['approved_by']}"
    items = tuple(
        Item(
            number=row["number"],
            control_id=row["control_id"],
            action=job["kind"],
            consumer=row["consumer"],
            source=row["source"],
            event_id=row["event_id"],
            topic=row["topic"],
            partition=row["partition"],
            key=row["key"],
            record_key=row["record_key"],
            by=by,
            why=job["reason"],
            replacement=None if row["replacement"] is None else Replacement.model_validate_json(row["replacement"]),
        )
        for row in rows
        if row["consumer"] is not None
    )
    return Batch(job_id, items, tuple(row["number"] for row in rows if row["consumer"] is None))


log = structlog.get_logger("surefoot.dlq")
GONE = "The dead letter is no longer kept here, so nobody knows whom to tell."


class Sent(NamedTuple):
    """How it went with the records of one partition."""

    refused: list[tuple[int, str]]
    """Numbers of items whose records the log will never take, and why."""
    unsent: list[int]
    away: LogUnavailable | None


class Sender(Part):
    def __init__(self, url: str, event_log: EventLog, settings: DlqSettings) -> None:
        super().__init__("sender", url, event_log, settings)
        self.turns = Turns(settings)
        # Counting all items of a large job takes a while: it is done when the job looks other than when it rested.
        self._resting: dict[str, tuple[str, int]] = {}
        self._publisher: Publisher | None = None

    async def round(self) -> timedelta:
        await self.look()
        self.database_away.over()
        HEARTBEAT.labels(self.name).set_to_current_time()
        return self.settings.tick

    async def close(self) -> None:
        await super().close()
        if self._publisher is not None:
            await self._publisher.close()

    async def look(self) -> None:
        """Go on with each job under way that nobody else has in hand. Where the log is away for one, the others have
        their turn all the same: theirs may be other partitions."""
        connection = await self.connected()
        under_way = await self.turns.under_way(connection)
        if under_way and self._publisher is None:  # before anything is marked as sent
            self._publisher = await self.event_log.publisher()
        away: LogUnavailable | None = None
        resting: dict[str, tuple[str, int]] = {}
        for row in under_way:
            job_id, seen = row["id"], (row["status"], row["sent"])
            if not row["restless"] and self._resting.get(job_id) == seen:
                resting[job_id] = seen
                continue
            turn = await self.turns.take(connection, job_id)
            if isinstance(turn, Rests):
                resting[job_id] = seen
            elif turn is not None:
                await failpoint("dlq.sender.marked")
                away = await self._send(connection, turn) or away
                await failpoint("dlq.sender.published")
        self._resting = resting
        if away is not None:
            raise away

    async def _send(self, connection: Connection, batch: Batch) -> LogUnavailable | None:
        assert self._publisher is not None
        places: dict[TopicPartition, list[tuple[int, Record]]] = {}
        refused = [(number, GONE) for number in batch.gone]
        for item in batch.items:
            try:
                where, record = control_of(item)
            except CannotBeTold as error:
                refused.append((item.number, str(error)))
            else:
                places.setdefault(where, []).append((item.number, record))
        ends = await asyncio.gather(*(_publish(self._publisher, where, records) for where, records in places.items()))
        refused += [one for sent in ends for one in sent.refused]
        unsent = [number for sent in ends for number in sent.unsent]
        if refused:
            # Their topic is gone, or they are too large: no consumer will ever answer.
            log.warning("the log takes no control record for some dead letters", job=batch.job_id, count=len(refused))
            await self.turns.refuse(connection, batch.job_id, refused)
        for item in batch.items:
            CONTROLS.labels(item.action).inc()
        away = next((sent.away for sent in ends if sent.away is not None), None)
        if away is None:
            self.log_away.over()
        else:
            await self.turns.unmark(connection, batch.job_id, unsent)
        return away


async def _publish(publisher: Publisher, where: TopicPartition, records: Sequence[tuple[int, Record]]) -> Sent:
    """In order; one that the log refuses is passed by, since it concerns nobody else."""
    left = list(records)
    refused: list[tuple[int, str]] = []
    while left:
        try:
            outcome = await publisher.publish(where, [record for _, record in left])
        except LogUnavailable as error:
            return Sent(refused, [number for number, _ in left], error)
        if not isinstance(outcome, Refused):
            break
        refused.append((left[outcome.index][0], outcome.sentence))
        left = left[outcome.index + 1 :]
    return Sent(refused, [], None)
