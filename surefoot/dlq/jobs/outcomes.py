"""Hearing what consumers did: each answer settles the item that waits for it, and with it the dead letter, once.

A polled batch is one transaction, and its answers are written together. Items go from SENT to ANSWERED by
compare-and-set, so a repeat changes nothing; an answer that no job waits for is passed by.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import structlog

from surefoot.consumer.contracts import Action, ControlOutcome, dlq_outcomes
from surefoot.database.connection import Connection, Row
from surefoot.database.schema import checked_schema
from surefoot.dlq.jobs.policy import Decided, resolution, settled
from surefoot.dlq.metrics import ANSWERS, UNASKED
from surefoot.dlq.settings import DlqSettings
from surefoot.dlq.subscriber import Subscriber
from surefoot.events import BadRecord, decode, event_type_of, to_event
from surefoot.events.text import printable
from surefoot.failpoints import failpoint
from surefoot.log.port import EventLog, StoredRecord

log = structlog.get_logger("surefoot.dlq")
MAX_SENTENCE = 2000
MAX_WAITING = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Awaited:
    """An item that was sent and not answered yet, and who is behind its job."""

    job_id: str
    number: int
    dlq_id: str
    kind: Action
    consumer: str | None
    """None where the letter is gone meanwhile."""
    decided: Decided


class OutcomeStatements:
    def __init__(self, schema: str) -> None:
        schema = checked_schema(schema)
        events, items = f"{schema}.dlq_events", f"{schema}.dlq_job_items"
        # In the order of the letters' ids, as the intake locks them: the two wait for each other, and do not deadlock.
        self.lock = f"""
            SELECT d.id FROM {events} d WHERE d.id IN (
                SELECT i.dlq_id FROM {items} i WHERE i.control_id = ANY ($1::uuid[]) AND i.state = 'SENT')
            ORDER BY d.id FOR UPDATE"""
        # An item whose letter is gone (a dry run takes no letter in hand) is answered all the same.
        self.awaited = f"""
            SELECT i.control_id::text, i.job_id::text, i.number, i.dlq_id::text, j.kind::text, d.consumer,
                   coalesce(a.requested_by, j.created_by), coalesce(a.reason, j.reason), a.decided_by
            FROM {items} i JOIN {schema}.dlq_jobs j ON j.id = i.job_id
            LEFT JOIN {events} d ON d.id = i.dlq_id LEFT JOIN {schema}.dlq_approvals a ON a.id = j.approval_id
            WHERE i.control_id = ANY ($1::uuid[]) AND i.state = 'SENT'
            ORDER BY i.job_id, i.number FOR UPDATE OF i"""
        self.answer = f"""
            UPDATE {items} i
            SET state = 'ANSWERED', answer = n.answer, sentence = n.sentence, waiting_behind = n.waiting_behind,
                past_retention = n.past_retention, answered_at = now()
            FROM unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::int[], $6::bool[])
                 AS n(job_id, number, answer, sentence, waiting_behind, past_retention)
            WHERE i.job_id = n.job_id AND i.number = n.number AND i.state = 'SENT'"""
        # Only what this job has in hand: what was decided otherwise since then stays decided.
        self.settle = f"""
            UPDATE {events} d
            SET status = n.status::{schema}.dlq_status, resolution = n.resolution, superseded_by = n.superseded_by,
                resolved_at = CASE WHEN n.status = 'OPEN' THEN NULL ELSE now() END
            FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[])
                 AS n(id, job_id, status, resolution, superseded_by)
            WHERE d.id = n.id AND d.job_id = n.job_id AND d.status IN ('REPLAYING', 'DISCARD_REQUESTED')"""


class Outcomes(Subscriber):
    def __init__(self, url: str, event_log: EventLog, settings: DlqSettings) -> None:
        super().__init__("outcomes", url, event_log, settings, group=f"{settings.group}.outcomes")
        self._sql = OutcomeStatements(settings.db_schema)

    async def topics(self) -> frozenset[str]:
        """The one that consumers answer on, if it is there yet."""
        return frozenset(await self.event_log.describe([dlq_outcomes.name]))

    async def take(self, connection: Connection, records: Sequence[StoredRecord]) -> None:
        """All in one transaction."""
        told = {outcome.control_id: outcome for outcome in reversed([*filter(None, map(read_answer, records))])}
        async with connection.transaction():
            await connection.fetch(self._sql.lock, [*told])
            awaited = {str(row[0]): _awaited(row) for row in await connection.fetch(self._sql.awaited, [*told])}
            answers = [(one, told[control_id]) for control_id, one in awaited.items() if _is_its(one, told[control_id])]
            if answers:
                await self._answer(connection, answers)
            await failpoint("dlq.outcomes.written")
        for _, outcome in answers:
            ANSWERS.labels(outcome.action, outcome.answer).inc()
        UNASKED.inc(len(records) - len(answers))

    async def _answer(self, connection: Connection, answers: Sequence[tuple[Awaited, ControlOutcome]]) -> None:
        items = [_item(one, outcome) for one, outcome in answers]
        await connection.execute(self._sql.answer, *_columns(items))
        letters = [row for one, outcome in answers if (row := _letter(one, outcome)) is not None]
        if letters:
            await connection.execute(self._sql.settle, *_columns(letters))


def read_answer(record: StoredRecord) -> ControlOutcome | None:
    """The answer in a record; None if it is none of ours."""
    try:
        outcome = to_event(decode(record.headers, record.value, record.key), event_type_of(ControlOutcome)).data
        return outcome.model_copy(update={"control_id": str(UUID(outcome.control_id))})
    except (BadRecord, ValueError) as error:
        where = f"{record.topic}/{record.partition}:{record.offset}"
        log.warning("a record is no answer to a control record; passed by", at=where, why=str(error))
        return None


def _awaited(row: Row) -> Awaited:
    decided = Decided(by=row[6], why=row[7], approved_by=row[8])
    return Awaited(job_id=row[1], number=row[2], dlq_id=row[3], kind=row[4], consumer=row[5], decided=decided)


def _is_its(one: Awaited, outcome: ControlOutcome) -> bool:
    """Only who was asked can answer, and only what was asked."""
    if one.kind == outcome.action and one.consumer in (None, outcome.consumer):
        return True
    log.warning("an answer is not to what was asked; passed by", control_id=outcome.control_id, by=outcome.consumer)
    return False


def _item(one: Awaited, outcome: ControlOutcome) -> tuple[object, ...]:
    return (
        one.job_id,
        one.number,
        outcome.answer,
        printable(outcome.sentence, MAX_SENTENCE),
        min(max(outcome.waiting_behind, 0), MAX_WAITING),
        outcome.past_retention,
    )


def _letter(one: Awaited, outcome: ControlOutcome) -> tuple[object, ...] | None:
    becomes = settled(one.kind, outcome.answer, outcome.outcome)
    if becomes is None:
        return None
    said = resolution(one.decided, becomes, consumer=outcome.consumer, answer=outcome.answer, sentence=outcome.sentence)
    tried_another = one.kind == "supersede" and outcome.answer in ("done", "failed_again")
    return one.dlq_id, one.job_id, becomes, said, printable(outcome.event_id, MAX_SENTENCE) if tried_another else None


def _columns(rows: Sequence[tuple[object, ...]]) -> list[list[object]]:
    return [[*column] for column in zip(*rows, strict=True)]
