"""Discards that take two people: one asks, another approves exactly that set, in time; a job carries it out.

Each verb runs in its caller's transaction and records itself. While a request waits, nothing else can be done with its
dead letters. Times are the database's.
"""

from collections.abc import Sequence

from uuid_utils import uuid7

from surefoot.audit.people import Person
from surefoot.audit.record import Act, record
from surefoot.database.connection import Connection, Row
from surefoot.database.schema import checked_schema
from surefoot.dlq.errors import NoSuchApproval, OwnApproval, SetChanged, TooLate, WrongState
from surefoot.dlq.jobs.policy import Decided
from surefoot.dlq.jobs.request import Letter, Order, Wanted, asked, is_uuid, reason_of, require, set_hash
from surefoot.dlq.jobs.store import LETTER_COLUMNS, Finding, JobStore, letter_of
from surefoot.dlq.jobs.views import ApprovalPage, ApprovalView, AskedLetter, AskedLetterPage
from surefoot.dlq.settings import DlqSettings
from surefoot.failpoints import failpoint

THE_CLOCK = "surefoot"
"""Who is recorded for what nobody did in time."""


class ApprovalStatements:
    def __init__(self, schema: str) -> None:
        s = checked_schema(schema)
        shown = """a.id, a.status::text, a.reason, a.requested_by, a.requested_at, a.expires_at, a.total, a.set_hash,
            a.decided_by, a.decided_at, a.decision, a.job_id"""
        self.one = f"SELECT {shown} FROM {s}.dlq_approvals a WHERE a.id = $1::uuid"
        self.page = f"""
            SELECT {shown} FROM {s}.dlq_approvals a WHERE $1::uuid IS NULL OR a.id < $1::uuid
            ORDER BY a.id DESC LIMIT $2::int"""
        self.lock = f"""
            SELECT {shown}, clock_timestamp() >= a.expires_at AS late
            FROM {s}.dlq_approvals a WHERE a.id = $1::uuid FOR UPDATE"""
        self.request = f"""
            INSERT INTO {s}.dlq_approvals (id, reason, requested_by, expires_at, total, set_hash)
            VALUES ($1::uuid, $2::text, $3::text, clock_timestamp() + $4::interval, $5::int, $6::text)"""
        self.add_items = f"""
            INSERT INTO {s}.dlq_approval_items (approval_id, dlq_id) SELECT $1::uuid, unnest($2::uuid[])"""
        self.take = f"""
            UPDATE {s}.dlq_events SET status = 'DISCARD_REQUESTED', job_id = NULL
            WHERE id = ANY ($1::uuid[]) AND status = 'OPEN' RETURNING id::text"""
        # Of what was asked for, what still waits: a letter that is gone or was taken elsewhere changes the set.
        self.letters = f"""
            SELECT {LETTER_COLUMNS} FROM {s}.dlq_approval_items i JOIN {s}.dlq_events e ON e.id = i.dlq_id
            WHERE i.approval_id = $1::uuid AND e.status = 'DISCARD_REQUESTED' ORDER BY e.id FOR UPDATE OF e"""
        self.asked = f"""
            SELECT e.id AS dlq_id, e.consumer, e.event_type, e.key, e.reason, e.error, e.deaths, e.held,
                e.status::text AS status, e.failed_at
            FROM {s}.dlq_approval_items i JOIN {s}.dlq_events e ON e.id = i.dlq_id
            WHERE i.approval_id = $1::uuid AND ($2::uuid IS NULL OR i.dlq_id > $2::uuid)
            ORDER BY i.dlq_id LIMIT $3::int"""
        self.decide = f"""
            UPDATE {s}.dlq_approvals SET status = $2::text::{s}.dlq_approval_status, decided_by = $3::text,
                decided_at = now(), decision = $4::text, job_id = $5::uuid
            WHERE id = $1::uuid AND status = 'WAITING'"""
        # In one statement: each locks the groups it counts in, and two in a transaction could deadlock with others'.
        self.approve_letters = f"""
            UPDATE {s}.dlq_events SET job_id = CASE WHEN consumer <> '' THEN $2::uuid END,
                status = CASE WHEN consumer <> '' THEN 'DISCARD_REQUESTED' ELSE 'DISCARDED' END::{s}.dlq_status,
                resolution = CASE WHEN consumer = '' THEN $3::text END,
                resolved_at = CASE WHEN consumer = '' THEN now() END
            WHERE id = ANY ($1::uuid[])"""
        self.reopen = f"""
            UPDATE {s}.dlq_events SET status = 'OPEN', resolution = NULL, resolved_at = NULL
            WHERE status = 'DISCARD_REQUESTED' AND job_id IS NULL
                AND id IN (SELECT dlq_id FROM {s}.dlq_approval_items WHERE approval_id = ANY ($1::uuid[]))"""
        self.overdue = f"""
            SELECT id::text, requested_by FROM {s}.dlq_approvals
            WHERE status = 'WAITING' AND expires_at <= clock_timestamp() ORDER BY id FOR UPDATE SKIP LOCKED"""
        self.expire = f"UPDATE {s}.dlq_approvals SET status = 'EXPIRED' WHERE id = ANY ($1::uuid[])"


class Approvals:
    def __init__(self, connection: Connection, schema: str, settings: DlqSettings) -> None:
        self._connection = connection
        self._schema = schema
        self._settings = settings
        self._sql = ApprovalStatements(schema)
        self._jobs = JobStore(connection, schema)
        self._finding = Finding(connection, schema, settings.most_items)

    async def request(self, person: Person, wanted: Wanted, reason: str) -> ApprovalView:
        """Ask for these to be discarded. They wait for a second person from here on."""
        require(person, "OPERATOR")
        why = reason_of(reason)
        found = await self._finding.lock(wanted, unreadable_too=True)
        ids = [letter.line.dlq_id for letter in found.open]
        taken = {row[0] for row in await self._connection.fetch(self._sql.take, ids)}
        lines = [letter.line for letter in found.open if letter.line.dlq_id in taken]
        approval_id, hashed = str(uuid7()), set_hash(lines)
        window = self._settings.approval_window
        await self._connection.execute(self._sql.request, approval_id, why, person.name, window, len(lines), hashed)
        await self._connection.execute(self._sql.add_items, approval_id, [line.dlq_id for line in lines])
        view = (await self.get(approval_id)).model_copy(update={"left_out": found.left_out})
        details = {**asked(wanted), "total": len(lines), "set_hash": hashed}
        await record(self._connection, self._schema, Act(person.name, "discard", "done", approval_id, why, details))
        await failpoint("dlq.discard.requested")
        return view

    async def approve(self, person: Person, approval_id: str, quoted: str, reason: str) -> ApprovalView:
        """Approve the set with this hash, and have it carried out by a job (`job_id` of the answer).

        Letters that could not be read have no consumer to be told: they are discarded here and now."""
        require(person, "SUPER_ADMIN")
        said = reason_of(reason)
        approval = await self._waiting(approval_id, person)
        letters = await self._same_set(approval, quoted)
        readable = sorted((letter for letter in letters if letter.is_readable), key=lambda letter: letter.order)
        job_id = str(uuid7()) if readable else None
        await self._connection.execute(self._sql.decide, approval_id, "APPROVED", person.name, said, job_id)
        decided = Decided(approval["requested_by"], approval["reason"], person.name)
        resolution = f"Discarded by {decided.by}, approved by {decided.approved_by}: {decided.why}"
        ids = [letter.line.dlq_id for letter in letters]
        await self._connection.execute(self._sql.approve_letters, ids, job_id, resolution)
        if job_id is not None:
            order = Order("discard", decided.by, decided.why, {"approval": approval_id}, approval_id=approval_id)
            await self._jobs.insert(job_id, order, readable)
        view = await self.get(approval_id)
        details = {"total": view.total, "set_hash": view.set_hash, "requested_by": view.requested_by, "job": job_id}
        await record(self._connection, self._schema, Act(person.name, "approve", "done", approval_id, said, details))
        await failpoint("dlq.job.frozen")
        return view

    async def refuse(self, person: Person, approval_id: str, reason: str) -> ApprovalView:
        """Refuse it: the dead letters are open again."""
        require(person, "SUPER_ADMIN")
        said = reason_of(reason)
        await self._waiting(approval_id, person)
        await self._connection.execute(self._sql.decide, approval_id, "REFUSED", person.name, said, None)
        await self._connection.execute(self._sql.reopen, [approval_id])
        view = await self.get(approval_id)
        await record(self._connection, self._schema, Act(person.name, "refuse", "done", approval_id, said))
        return view

    async def expire(self) -> int:
        """Give back the dead letters of requests that nobody approved in time; how many requests."""
        rows = await self._connection.fetch(self._sql.overdue)
        ids = [row["id"] for row in rows]
        if not ids:
            return 0
        await self._connection.execute(self._sql.expire, ids)
        await self._connection.execute(self._sql.reopen, ids)
        for row in rows:
            why = f"Nobody approved in time what {row['requested_by']} asked for."
            await record(self._connection, self._schema, Act(THE_CLOCK, "expire", "done", row["id"], why))
        return len(ids)

    async def get(self, approval_id: str) -> ApprovalView:
        row = await self._connection.fetchrow(self._sql.one, approval_id) if is_uuid(approval_id) else None
        if row is None:
            raise NoSuchApproval(approval_id)
        return _view(row)

    async def page(self, after: str | None = None, limit: int = 50) -> ApprovalPage:
        """The newest first. `after` is the last of the page before."""
        if after is not None and not is_uuid(after):
            raise NoSuchApproval(after)
        rows = await self._connection.fetch(self._sql.page, after, limit + 1)
        approvals = tuple(map(_view, rows[:limit]))
        return ApprovalPage(approvals=approvals, next=str(approvals[-1].id) if len(rows) > limit else None)

    async def letters(self, approval_id: str, after: str | None = None, limit: int = 50) -> AskedLetterPage:
        """What is to be discarded, the oldest first: nobody should approve what they cannot see."""
        await self.get(approval_id)
        rows = await self._connection.fetch(self._sql.asked, approval_id, after, limit + 1)
        letters = tuple(AskedLetter(**{name: row[name] for name in AskedLetter.model_fields}) for row in rows[:limit])
        return AskedLetterPage(letters=letters, next=str(letters[-1].dlq_id) if len(rows) > limit else None)

    async def _waiting(self, approval_id: str, person: Person) -> Row:
        """The request, locked, if this person may decide it now."""
        row = await self._connection.fetchrow(self._sql.lock, approval_id) if is_uuid(approval_id) else None
        if row is None:
            raise NoSuchApproval(approval_id)
        if row["requested_by"] == person.name:
            raise OwnApproval(f"{person.name} asked for this discard, so somebody else has to decide it.")
        if row["status"] in ("APPROVED", "REFUSED"):
            raise WrongState(f"The request is {row['status']} already, by {row['decided_by']}. Nothing was changed.")
        if row["status"] == "EXPIRED" or row["late"]:
            raise TooLate(
                f"The time in which it could be decided ended at {row['expires_at']:%Y-%m-%d %H:%M:%SZ}: ask for the "
                "discard again."
            )
        return row

    async def _same_set(self, approval: Row, quoted: str) -> Sequence[Letter]:
        """The dead letters of the request, locked, if they are those that were asked for and looked at."""
        rows = await self._connection.fetch(self._sql.letters, approval["id"])
        letters = [letter_of(row) for row in rows]
        now = set_hash(letter.line for letter in letters)
        if quoted != approval["set_hash"]:
            raise SetChanged("The hash that was quoted is not that of the request: look again at what it is of.")
        if now != approval["set_hash"]:
            raise SetChanged(
                "The dead letters are no longer those that the request was made for: one of them has died again, or is "
                "gone. Refuse it, look again, and have the discard asked for again."
            )
        return letters


def _view(row: Row) -> ApprovalView:
    return ApprovalView(**{name: row[name] for name in ApprovalView.model_fields if name != "left_out"})
