"""Jobs: what consumers are to be told about a frozen set of dead letters. Made, paused, resumed, cancelled,
abandoned, looked at.

Each verb runs in its caller's transaction, moves rows by compare-and-set and records itself. A second click finds
nothing left to do; two people at once divide the set between them. What is sent, and when, is the sender's.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, assert_never
from uuid import UUID

import orjson
from uuid_utils import uuid7

from surefoot.audit.people import Person, Role
from surefoot.audit.record import Act, Action, record
from surefoot.consumer.controls import Action as JobKind
from surefoot.consumer.controls import Replacement
from surefoot.database import locks
from surefoot.database.connection import Connection, Row
from surefoot.dlq.deciding import reason_of, require
from surefoot.dlq.errors import InvalidEdit, NoSuchJob, NoSuchLetter, NothingToDo, TooManyJobs, WrongState
from surefoot.dlq.jobs.controls import DeadRecord, edited, header_bytes
from surefoot.dlq.jobs.making import Order, Pace, insert_job
from surefoot.dlq.jobs.policy import ENDED, JobStatus
from surefoot.dlq.jobs.reading import JobReading
from surefoot.dlq.jobs.request import Finding, Letter, Wanted, asked, is_uuid, letter_of
from surefoot.dlq.jobs.store import JobStatements
from surefoot.dlq.jobs.views import ItemPage, JobMade, JobPage, JobView, LeftOut
from surefoot.dlq.settings import DlqSettings
from surefoot.events import Catalogue
from surefoot.failpoints import failpoint

Verb = Literal["pause", "resume", "cancel", "abandon"]
_POSSIBLE_IN: dict[Verb, tuple[JobStatus, ...]] = {
    "pause": ("RUNNING",),
    "resume": ("PAUSED",),
    "cancel": ("RUNNING", "PAUSED"),
    "abandon": ("CANCELLING",),
}
_RECORDED_AS: dict[JobKind, Action] = {
    "replay": "replay",
    "inspect": "dry_run",
    "supersede": "edit_replay",
    "discard": "discard",
}


class Jobs:
    def __init__(self, connection: Connection, schema: str, settings: DlqSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._sql = JobStatements(schema)
        self._reading = JobReading(connection, self._sql)
        self._finding = Finding(connection, schema, settings.most_items)

    async def replay(
        self,
        person: Person,
        wanted: Wanted,
        *,
        reason: str,
        dry_run: bool = False,
        canary: int = 0,
        rate: float | None = None,
        stop_on_error_rate: float | None = None,
    ) -> JobMade:
        """Replay these; or, as a dry run, ask how they stand and change nothing."""
        require(person, "OPERATOR")
        pace = Pace(canary, rate, stop_on_error_rate)
        order = Order("inspect" if dry_run else "replay", person.name, reason_of(reason), asked(wanted), pace)
        await self._may_have_another(person)
        found = await self._finding.lock(wanted, unreadable_too=False)
        letters: Sequence[Letter] = found.open
        job_id = str(uuid7())
        if not dry_run:  # a dry run has nobody's event in hand
            letters = await self._take(job_id, letters)
        await insert_job(self._connection, self._sql, job_id, order, letters)
        details = {**order.asked, "total": len(letters), "left_out": _many(found.left_out)}
        return await self._made(job_id, order, letters, found.left_out, details)

    async def edit(
        self, person: Person, dlq_id: str, payload: object, *, reason: str, catalogue: Catalogue | None
    ) -> JobMade:
        """Have an edited event take the place of a dead one. The old one is in hand from here on."""
        require(person, "ADMIN")
        why = reason_of(reason)
        await self._may_have_another(person)
        row = await self._open_letter(dlq_id)
        new_id, job_id = str(uuid7()), str(uuid7())
        replacement = _replacement(row, payload, new_id, catalogue)
        order = Order("supersede", person.name, why, {"event_id": [dlq_id]}, replacement=replacement)
        letters = await self._take(job_id, [letter_of(row)], superseded_by=new_id)
        await insert_job(self._connection, self._sql, job_id, order, letters)
        return await self._made(job_id, order, letters, (), {"event_id": [dlq_id], "superseded_by": new_id})

    async def pause(self, person: Person, job_id: str, reason: str) -> JobView:
        return await self._change(person, job_id, "pause", reason)

    async def resume(self, person: Person, job_id: str, reason: str) -> JobView:
        """Go on. If it had paused by itself, what was answered so far counts no more against it."""
        return await self._change(person, job_id, "resume", reason)

    async def cancel(self, person: Person, job_id: str, reason: str) -> JobView:
        """Send nothing more. What was not sent is open again at once; what was, when it is answered."""
        return await self._change(person, job_id, "cancel", reason)

    async def abandon(self, person: Person, job_id: str, reason: str) -> JobView:
        """Of a cancelled job: wait no more for answers that will not come. What was sent is open again.

        Its consumer may do it all the same, if it ever reads it; whoever asks it next is told so.
        """
        return await self._change(person, job_id, "abandon", reason, role="ADMIN")

    async def get(self, job_id: str) -> JobView:
        return await self._reading.get(job_id)

    async def page(self, after: str | None = None, limit: int = 50) -> JobPage:
        return await self._reading.page(after, limit)

    async def items(self, job_id: str, after: int | None = None, limit: int = 100) -> ItemPage:
        return await self._reading.items(job_id, after, limit)

    async def _may_have_another(self, person: Person) -> None:
        # Counted in turn: two requests at once would both find room for one more.
        await self._connection.execute(self._sql.turn, locks.JOBS_OF_PERSON, person.name)
        under_way = await self._connection.fetchval(self._sql.under_way_of, person.name)
        if under_way >= self._settings.jobs_per_person:
            raise TooManyJobs(
                f"{person.name} has {under_way} jobs under way, and {self._settings.jobs_per_person} is the most: wait "
                "for one to end, or cancel it."
            )

    async def _open_letter(self, dlq_id: str) -> Row:
        row = await self._connection.fetchrow(self._sql.letter, dlq_id) if is_uuid(dlq_id) else None
        if row is None:
            raise NoSuchLetter(dlq_id)
        if row["status"] != "OPEN":
            raise WrongState(f"The dead letter {dlq_id} is {row['status']}, not OPEN: somebody was first. Look again.")
        if not row["consumer"]:
            raise InvalidEdit("The letter could not be read, so nobody knows whose event it is: it can be discarded.")
        return row

    async def _take(self, job_id: str, letters: Sequence[Letter], superseded_by: str | None = None) -> Sequence[Letter]:
        ids = [letter.line.dlq_id for letter in letters]
        rows = await self._connection.fetch(self._sql.take, job_id, ids, superseded_by)
        taken = {row[0] for row in rows}
        if not taken:
            raise NothingToDo
        return [letter for letter in letters if letter.line.dlq_id in taken]

    async def _made(
        self,
        job_id: str,
        order: Order,
        letters: Sequence[Letter],
        left_out: Sequence[LeftOut],
        details: dict[str, object],
    ) -> JobMade:
        action = _RECORDED_AS[order.kind]
        act = Act(order.by, action, "done", job_id, order.reason, details)
        await record(self._connection, self._sql.schema, act)
        await failpoint("dlq.job.frozen")
        return JobMade(job_id=UUID(job_id), kind=order.kind, total=len(letters), left_out=tuple(left_out))

    async def _change(
        self, person: Person, job_id: str, verb: Verb, reason: str, *, role: Role = "OPERATOR"
    ) -> JobView:
        require(person, role)
        why = reason_of(reason)
        row = await self._connection.fetchrow(self._sql.lock, job_id) if is_uuid(job_id) else None
        if row is None:
            raise NoSuchJob(job_id)
        _check_state(verb, row["status"])
        match verb:
            case "pause":
                await self._connection.execute(self._sql.pause, job_id, f"Paused by {person.name}: {why}")
            case "resume":
                await self._connection.execute(self._sql.resume, job_id)
            case "cancel":
                await self._connection.execute(self._sql.cancel, job_id, f"Cancelled by {person.name}: {why}")
                await give_back(self._connection, self._sql, job_id)
            case "abandon":
                await self._abandon(job_id, f"Abandoned by {person.name}, unanswered: {why}")
            case _:
                assert_never(verb)
        after = await self.get(job_id)
        details = {"kind": after.kind, "sent": after.sent, "answered": after.answered, "cancelled": after.cancelled}
        await record(self._connection, self._sql.schema, Act(person.name, verb, "done", job_id, why, details))
        return after

    async def _abandon(self, job_id: str, sentence: str) -> None:
        await self._connection.fetch(self._sql.lock_unanswered, job_id)  # before the items, as who takes answers does
        rows = await self._connection.fetch(self._sql.abandon_items, job_id, sentence)
        await self._connection.execute(self._sql.reopen, job_id, [row[0] for row in rows])


async def give_back(connection: Connection, sql: JobStatements, job_id: str) -> None:
    """What was not sent will not be, and is open again."""
    rows = await connection.fetch(sql.cancel_items, job_id)
    await connection.execute(sql.reopen, job_id, [row[0] for row in rows])


def _replacement(row: Row, payload: object, new_id: str, catalogue: Catalogue | None) -> Replacement:
    headers = header_bytes(orjson.loads(row["headers"]))
    dead = DeadRecord(row["record_key"], row["value"], headers, row["headers_left_out"])
    return edited(dead, payload, new_id=new_id, now=datetime.now(UTC), catalogue=catalogue)


def _check_state(verb: Verb, status: JobStatus) -> None:
    if status in ENDED:
        raise WrongState(f"The job is {status}: nothing can be done to it any more.")
    if status not in _POSSIBLE_IN[verb]:
        raise WrongState(f"The job is {status}: it cannot be told to {verb}. Somebody was first; look again.")


def _many(left_out: Sequence[LeftOut]) -> dict[str, int]:
    return {one.why: one.many for one in left_out}
