"""One turn of a job: its row is locked, the facts are read, `pacing` decides, and what it decided is written.

The answer is what to send, once this is committed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

from surefoot.consumer.controls import Replacement
from surefoot.database.connection import Connection, Row
from surefoot.dlq.jobs import policy as pacing
from surefoot.dlq.jobs.approval_statements import ApprovalStatements
from surefoot.dlq.jobs.controls import Item
from surefoot.dlq.jobs.jobs import give_back
from surefoot.dlq.jobs.policy import Facts, Finish, Pause, Send, Wait, counts_as
from surefoot.dlq.jobs.request import letter_of
from surefoot.dlq.jobs.sender_statements import SenderStatements
from surefoot.dlq.jobs.set_hash import set_hash
from surefoot.dlq.jobs.store import JobStatements
from surefoot.dlq.settings import DlqSettings

ONE_AT_A_TIME = ("replay", "supersede")
"""What makes consumers try events: of a lane only one is under way. The others change no order, and need not wait."""
CHANGED = (
    "The dead letters are no longer those that were approved: one of them has died again, or is gone. Nothing was "
    "sent; look again, and ask for the discard again."
)


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


class Turns:
    def __init__(self, settings: DlqSettings) -> None:
        self._settings = settings
        self.sql = SenderStatements(settings.db_schema)
        self.jobs = JobStatements(settings.db_schema)
        self._approvals = ApprovalStatements(settings.db_schema)

    async def take(self, connection: Connection, job_id: str) -> Batch | Rests | None:
        """In a transaction of its own. None if the job was changed, or somebody else has it in hand."""
        async with connection.transaction():
            job = await connection.fetchrow(self.sql.lock, job_id)
            if job is None:
                return None
            facts = await self._facts(connection, job_id, job)
            match pacing.decide(facts):
                case Send(numbers, allowance):
                    if not await self._is_as_approved(connection, job_id, job, facts):
                        await self._call_off(connection, job_id)
                        return None
                    await connection.execute(self.sql.looked, job_id, allowance)
                    await connection.execute(self.sql.mark, job_id, list(numbers))
                    return _batch(job_id, job, await connection.fetch(self.sql.marked, job_id, list(numbers)))
                case Pause(note):
                    await connection.execute(self.sql.pause, job_id, note)
                case Finish(status, note):
                    said = note if status == "DONE" or job["note"] is None else f"{job['note'].rstrip('.')}. {note}"
                    await connection.execute(self.sql.finish, job_id, status, said)
                case Wait(allowance):
                    if facts.rate is not None and facts.status == "RUNNING":
                        await connection.execute(self.sql.looked, job_id, allowance)
                    return Rests()
                case other:
                    assert_never(other)
            return None

    async def _facts(self, connection: Connection, job_id: str, job: Row) -> Facts:
        kind, most = job["kind"], self._settings.unanswered
        by_lanes = self.sql.next_of_lanes if kind in ONE_AT_A_TIME else self.sql.next
        counts = await connection.fetch(self.sql.counts, job_id, job["canary"], job["counted_from"])
        upcoming = await connection.fetch(by_lanes, job_id, most) if job["status"] == "RUNNING" else []
        due = await connection.fetch(self.sql.due, job_id, self._settings.resend_after, most)
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
        rows = await connection.fetch(self._approvals.letters_again, job["approval_id"], job_id)
        approved: str = job["set_hash"]
        return set_hash(letter_of(row).line for row in rows) == approved

    async def _call_off(self, connection: Connection, job_id: str) -> None:
        await give_back(connection, self.jobs, job_id)
        await connection.execute(self.sql.finish, job_id, "CANCELLED", CHANGED)


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
