"""Jobs that wait for answers, put there by hand, and what consumers say to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg
from uuid_utils import uuid7

from surefoot.consumer.contracts import Action, Answer, ControlOutcome
from surefoot.dlq.intake.intake import Intake
from surefoot.log.port import EventLog, StoredRecord
from tests.support.consumer.processes import publish
from tests.support.dlq.letters import letter_record
from tests.support.dlq.service import quick


@dataclass(frozen=True, slots=True)
class Asked:
    """A job over some letters, all of whose control records were sent."""

    job_id: str
    kind: Action
    events: Sequence[str]
    controls: Sequence[str]

    def answer(self, number: int, answer: Answer, **more: Any) -> ControlOutcome:
        return ControlOutcome(
            **{
                "control_id": self.controls[number],
                "action": self.kind,
                "consumer": "warehouse",
                "source": "/tests",
                "event_id": self.events[number],
                "answer": answer,
                "sentence": f"It is {answer}.",
                **more,
            }
        )


async def letters_in(connection: asyncpg.Connection, url: str, log: EventLog, *event_ids: str, begin: int = 0) -> None:
    """Open letters of these events, without going by way of the log; the first is at the offset `begin`."""
    await Intake(url, log, quick()).take(
        connection,
        [StoredRecord("test.things.dlq", 0, n, 0, *letter_record(one)) for n, one in enumerate(event_ids, begin)],
    )


async def asked(connection: asyncpg.Connection, kind: Action, *event_ids: str, approved: bool = False) -> Asked:
    """The letters are in the job's hand, as its making leaves them."""
    made = Asked(str(uuid7()), kind, event_ids, [str(uuid7()) for _ in event_ids])
    approval = await _approval(connection) if approved else None
    await connection.execute(
        "INSERT INTO surefoot.dlq_jobs (id, kind, asked, reason, created_by, total, approval_id)"
        " VALUES ($1::uuid, $2::text::surefoot.dlq_job_kind, '{}', 'it is mended', 'ada', $3, $4::uuid)",
        made.job_id,
        kind,
        len(event_ids),
        approval,
    )
    await connection.execute(
        "INSERT INTO surefoot.dlq_job_items (job_id, number, dlq_id, lane, control_id, state, sent_at, sends)"
        " SELECT $1::uuid, e.number, d.id, 'lane', e.control_id, 'SENT', now(), 1"
        " FROM unnest($2::text[], $3::uuid[]) WITH ORDINALITY AS e(event_id, control_id, number)"
        " JOIN surefoot.dlq_events d USING (event_id)",
        made.job_id,
        list(event_ids),
        list(made.controls),
    )
    if kind != "inspect":
        await connection.execute(
            "UPDATE surefoot.dlq_events SET job_id = $1::uuid, status = $2::text::surefoot.dlq_status"
            " WHERE event_id = ANY ($3)",
            made.job_id,
            "DISCARD_REQUESTED" if kind == "discard" else "REPLAYING",
            list(event_ids),
        )
    return made


async def say(log: EventLog, *outcomes: ControlOutcome) -> None:
    await publish(log, *outcomes)


async def items(connection: asyncpg.Connection) -> list[tuple[Any, ...]]:
    rows = await connection.fetch("SELECT number, state::text, answer FROM surefoot.dlq_job_items ORDER BY 1")
    return [tuple(row) for row in rows]


async def _approval(connection: asyncpg.Connection) -> str:
    approval = str(uuid7())
    await connection.execute(
        "INSERT INTO surefoot.dlq_approvals (id, status, reason, requested_by, expires_at, total, set_hash, decided_by,"
        " decided_at) VALUES ($1::uuid, 'APPROVED', 'test data', 'ada', now(), 1, 'hash', 'grace', now())",
        approval,
    )
    return approval
