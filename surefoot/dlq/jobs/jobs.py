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
from surefoot.consumer.contracts import Action as JobKind
from surefoot.consumer.contracts import Replacement
from surefoot.database.connection import Connection, Row
from surefoot.dlq.errors import InvalidEdit, NoSuchLetter, TooManyJobs, WrongState
from surefoot.dlq.jobs.controls import DeadRecord, edited, header_bytes
from surefoot.dlq.jobs.policy import ENDED, JobStatus
from surefoot.dlq.jobs.request import Letter, Order, Pace, Wanted, asked, reason_of, require
from surefoot.dlq.jobs.store import Finding, JobStore, letter_of
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
        self._schema = schema
        self._store = JobStore(connection, schema)
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
            letters = await self._store.take(job_id, letters)
        await self._store.insert(job_id, order, letters)
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
        letters = await self._store.take(job_id, [letter_of(row)], superseded_by=new_id)
        await self._store.insert(job_id, order, letters)
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
        return await self._store.get(job_id)

    async def page(self, after: str | None = None, limit: int = 50) -> JobPage:
        return await self._store.page(after, limit)

    async def items(self, job_id: str, after: int | None = None, limit: int = 100) -> ItemPage:
        return await self._store.items(job_id, after, limit)

    async def _may_have_another(self, person: Person) -> None:
        under_way = await self._store.under_way_of(person.name)
        if under_way >= self._settings.jobs_per_person:
            raise TooManyJobs(
                f"{person.name} has {under_way} jobs under way, and {self._settings.jobs_per_person} is the most: wait "
                "for one to end, or cancel it."
            )

    async def _open_letter(self, dlq_id: str) -> Row:
        row = await self._store.letter(dlq_id)
        if row is None:
            raise NoSuchLetter(dlq_id)
        if row["status"] != "OPEN":
            raise WrongState(f"The dead letter {dlq_id} is {row['status']}, not OPEN: somebody was first. Look again.")
        if not row["consumer"]:
            raise InvalidEdit("The letter could not be read, so nobody knows whose event it is: it can be discarded.")
        return row

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
        await record(self._connection, self._schema, act)
        await failpoint("dlq.job.frozen")
        return JobMade(job_id=UUID(job_id), kind=order.kind, total=len(letters), left_out=tuple(left_out))

    async def _change(
        self, person: Person, job_id: str, verb: Verb, reason: str, *, role: Role = "OPERATOR"
    ) -> JobView:
        require(person, role)
        why = reason_of(reason)
        _check_state(verb, (await self._store.lock(job_id))["status"])
        match verb:
            case "pause":
                await self._store.pause(job_id, f"Paused by {person.name}: {why}")
            case "resume":
                await self._store.resume(job_id)
            case "cancel":
                await self._store.cancel(job_id, f"Cancelled by {person.name}: {why}")
            case "abandon":
                await self._store.abandon(job_id, f"Abandoned by {person.name}, unanswered: {why}")
            case _:
                assert_never(verb)
        after = await self.get(job_id)
        details = {"kind": after.kind, "sent": after.sent, "answered": after.answered, "cancelled": after.cancelled}
        await record(self._connection, self._schema, Act(person.name, verb, "done", job_id, why, details))
        return after


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
