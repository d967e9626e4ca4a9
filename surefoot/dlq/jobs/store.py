"""The rows of jobs: made over a set of dead letters that is locked, moved, counted and shown.

A set is frozen while its rows are locked, in the order of their ids. Who decides about one of them at the same time
waits, and then sees what was decided: it is left out of the second set. Rows are moved by compare-and-set where two
could meet. All of it runs in the caller's transaction.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import orjson
from uuid_utils import uuid7

from surefoot.consumer.contracts import Action
from surefoot.database import locks
from surefoot.database.connection import Connection, Row
from surefoot.database.schema import checked_schema
from surefoot.dlq.errors import NoSuchJob, NothingToDo, TooMany
from surefoot.dlq.jobs.controls import lane_of
from surefoot.dlq.jobs.policy import counts_as
from surefoot.dlq.jobs.request import Ids, Letter, Line, Matching, Order, Wanted, is_uuid
from surefoot.dlq.jobs.views import ItemPage, ItemView, JobLine, JobPage, JobView, LeftOut, WhyLeftOut
from surefoot.events.text import has_forbidden

LETTER_COLUMNS = """e.id::text AS id, e.consumer, e.source, e.event_id, e.topic, e.partition, e.log_offset, e.key,
    e.deaths, e.letter_id, e.status::text AS status"""
_IN_HAND = "('REPLAYING', 'DISCARD_REQUESTED')"


def letter_of(row: Row) -> Letter:
    line = Line(row["id"], row["consumer"], row["source"], row["event_id"], row["deaths"], row["letter_id"])
    return Letter(line, row["topic"], row["partition"], row["log_offset"], row["key"])


@dataclass(frozen=True, slots=True)
class Found:
    open: tuple[Letter, ...]
    """In the order of the log."""
    left_out: tuple[LeftOut, ...]


class Finding:
    def __init__(self, connection: Connection, schema: str, most: int) -> None:
        self._connection = connection
        self._most = most
        events = f"{checked_schema(schema)}.dlq_events e"
        self.by_ids = f"""
            SELECT {LETTER_COLUMNS} FROM {events} WHERE e.id = ANY ($1::uuid[]) OR e.event_id = ANY ($2::text[])
            ORDER BY e.id FOR UPDATE"""
        self.by_filter = f"""
            SELECT {LETTER_COLUMNS} FROM {events} WHERE e.status = 'OPEN' AND {{conditions}}
            ORDER BY e.id LIMIT $1::int FOR UPDATE"""
        self.in_hand = f"""
            SELECT status::text, count(*) FROM (
                SELECT e.status FROM {events} WHERE e.status IN {_IN_HAND} AND {{conditions}} LIMIT $1::int) x
            GROUP BY 1"""

    async def lock(self, wanted: Wanted, *, unreadable_too: bool) -> Found:
        """The open ones of what is wanted, and how many are left out and why. None at all is NothingToDo."""
        rows, left_out = await (self._ids(wanted) if isinstance(wanted, Ids) else self._matching(wanted))
        taken: list[Letter] = []
        for row in rows:
            letter = letter_of(row)
            if row["status"] != "OPEN":
                left_out[row["status"].lower()] += 1
            elif not (letter.is_readable or unreadable_too):
                left_out["unreadable"] += 1
            else:
                taken.append(letter)
        if len(taken) > self._most:
            raise self._too_many()
        found = Found(tuple(sorted(taken, key=lambda letter: letter.order)), _left_out(left_out))
        if not taken:
            raise NothingToDo(_nothing(found.left_out))
        return found

    async def _ids(self, wanted: Ids) -> tuple[Sequence[Row], Counter[WhyLeftOut]]:
        if len(wanted.ids) > self._most:
            raise self._too_many()
        texts = [one for one in wanted.ids if not has_forbidden(one)]
        rows = await self._connection.fetch(self.by_ids, [one for one in texts if is_uuid(one)], texts)
        known = {row["id"] for row in rows} | {row["event_id"] for row in rows}
        unknown = sum(1 for one in wanted.ids if one not in known and _plain(one) not in known)
        return rows, Counter({"no_such_letter": unknown} if unknown else {})

    async def _matching(self, wanted: Matching) -> tuple[Sequence[Row], Counter[WhyLeftOut]]:
        conditions, values = wanted.filter.where("e", first=2)
        text = " AND ".join(conditions) or "true"
        rows = await self._connection.fetch(self.by_filter.format(conditions=text), self._most + 1, *values)
        counted = await self._connection.fetch(self.in_hand.format(conditions=text), self._most + 1, *values)
        return rows, Counter({row[0].lower(): row[1] for row in counted})

    def _too_many(self) -> TooMany:
        return TooMany(f"More than {self._most} dead letters were asked for, which is the most at once: ask for fewer.")


def _plain(text: str) -> str:
    """An id may be written in capitals, or without its dashes."""
    return str(UUID(text)) if is_uuid(text) else text


def _left_out(counted: Counter[WhyLeftOut]) -> tuple[LeftOut, ...]:
    return tuple(LeftOut(why=why, many=many) for why, many in sorted(counted.items()))


def _nothing(left_out: Sequence[LeftOut]) -> str:
    if not left_out:
        return "There is no open dead letter like this: somebody decided about them before, or there are none."
    said = ", ".join(f"{one.many} {one.why.replace('_', ' ')}" for one in left_out)
    return f"None of what was asked for is open ({said}): somebody decided about it before. Look again."


class JobStatements:
    def __init__(self, schema: str) -> None:
        s = checked_schema(schema)
        self.turn = "SELECT pg_advisory_xact_lock($1::int, hashtext($2::text))"
        self.under_way_of = f"""
            SELECT count(*) FROM {s}.dlq_jobs WHERE created_by = $1::text AND ended_at IS NULL AND kind <> 'discard'"""
        self.take = f"""
            UPDATE {s}.dlq_events SET status = 'REPLAYING', job_id = $1::uuid, superseded_by = $3::text
            WHERE id = ANY ($2::uuid[]) AND status = 'OPEN' RETURNING id::text"""
        self.make = f"""
            INSERT INTO {s}.dlq_jobs (id, kind, asked, reason, created_by, total, canary, rate, stop_on_error_rate,
                approval_id)
            VALUES ($1::uuid, $2::text::{s}.dlq_job_kind, $3::text::json, $4::text, $5::text, $6::int, $7::int,
                $8::float8, $9::float8, $10::uuid)"""
        self.add_items = f"""
            INSERT INTO {s}.dlq_job_items (job_id, number, dlq_id, lane, control_id, replacement)
            SELECT $1::uuid, i.number, i.dlq_id, i.lane, i.control_id, $6::text::json
            FROM unnest($2::int[], $3::uuid[], $4::text[], $5::uuid[]) AS i(number, dlq_id, lane, control_id)"""
        self.letter = f"""
            SELECT {LETTER_COLUMNS}, e.record_key, e.value, e.headers::text AS headers, e.headers_left_out
            FROM {s}.dlq_events e WHERE e.id = $1::uuid FOR UPDATE"""
        self.lock = f"SELECT status::text, kind::text FROM {s}.dlq_jobs WHERE id = $1::uuid FOR UPDATE"
        self.pause = f"UPDATE {s}.dlq_jobs SET status = 'PAUSED', note = $2::text WHERE id = $1::uuid"
        self.resume = f"""
            UPDATE {s}.dlq_jobs SET status = 'RUNNING', note = NULL, allowance = 0, looked_at = now(),
                counted_from = CASE WHEN counted_from IS NOT NULL THEN now() END
            WHERE id = $1::uuid"""
        self.cancel = f"UPDATE {s}.dlq_jobs SET status = 'CANCELLING', note = $2::text WHERE id = $1::uuid"
        self.cancel_items = f"""
            UPDATE {s}.dlq_job_items SET state = 'CANCELLED' WHERE job_id = $1::uuid AND state = 'PENDING'
            RETURNING dlq_id"""
        self.lock_unanswered = f"""
            SELECT e.id FROM {s}.dlq_events e WHERE e.id IN (
                SELECT i.dlq_id FROM {s}.dlq_job_items i WHERE i.job_id = $1::uuid AND i.state = 'SENT')
            ORDER BY e.id FOR UPDATE"""
        self.abandon_items = f"""
            UPDATE {s}.dlq_job_items SET state = 'CANCELLED', sentence = $2::text
            WHERE job_id = $1::uuid AND state = 'SENT' RETURNING dlq_id"""
        self.reopen = f"""
            UPDATE {s}.dlq_events SET status = 'OPEN', resolution = NULL, resolved_at = NULL, superseded_by = NULL
            WHERE id = ANY ($2::uuid[]) AND job_id = $1::uuid AND status IN ('REPLAYING', 'DISCARD_REQUESTED')"""
        self._reading(s)

    def _reading(self, s: str) -> None:
        line = """j.id, j.kind::text, j.status::text, j.reason, j.created_by, j.created_at, j.total, j.canary, j.rate,
            j.stop_on_error_rate, j.note, j.ended_at, j.approval_id"""
        self.job = f"SELECT {line} FROM {s}.dlq_jobs j WHERE j.id = $1::uuid"
        self.page = f"""
            SELECT {line} FROM {s}.dlq_jobs j WHERE $1::uuid IS NULL OR j.id < $1::uuid
            ORDER BY j.id DESC LIMIT $2::int"""
        self.counts = f"""
            SELECT state::text, answer, count(*) AS many, coalesce(sum(waiting_behind), 0)::bigint AS waiting_behind,
                count(*) FILTER (WHERE past_retention) AS past_retention
            FROM {s}.dlq_job_items WHERE job_id = $1::uuid GROUP BY 1, 2"""
        self.items = f"""
            SELECT i.number, i.dlq_id, e.consumer, e.event_id, i.state::text, i.sends, i.sent_at, i.answer, i.sentence,
                i.waiting_behind, i.past_retention, i.answered_at
            FROM {s}.dlq_job_items i LEFT JOIN {s}.dlq_events e ON e.id = i.dlq_id
            WHERE i.job_id = $1::uuid AND i.number > $2::int ORDER BY i.number LIMIT $3::int"""


class JobStore:
    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._sql = JobStatements(schema)

    async def under_way_of(self, person: str) -> int:
        """Counted in turn: two requests at once would both find room for one more."""
        await self._connection.execute(self._sql.turn, locks.JOBS_OF_PERSON, person)
        count: int = await self._connection.fetchval(self._sql.under_way_of, person)
        return count

    async def letter(self, dlq_id: str) -> Row | None:
        """A dead letter with its record, locked."""
        return await self._connection.fetchrow(self._sql.letter, dlq_id) if is_uuid(dlq_id) else None

    async def take(self, job_id: str, letters: Sequence[Letter], superseded_by: str | None = None) -> Sequence[Letter]:
        """Those that are still open are in the hands of the job from here on."""
        ids = [letter.line.dlq_id for letter in letters]
        rows = await self._connection.fetch(self._sql.take, job_id, ids, superseded_by)
        taken = {row[0] for row in rows}
        if not taken:
            raise NothingToDo
        return [letter for letter in letters if letter.line.dlq_id in taken]

    async def insert(self, job_id: str, order: Order, letters: Sequence[Letter]) -> None:
        """The job and its items, in the order of the log, each with the id that its control record will have."""
        await self._connection.execute(
            self._sql.make,
            job_id,
            order.kind,
            orjson.dumps(order.asked).decode(),
            order.reason,
            order.by,
            len(letters),
            order.pace.canary,
            order.pace.rate,
            order.pace.stop_on_error_rate,
            order.approval_id,
        )
        await self._connection.execute(
            self._sql.add_items,
            job_id,
            list(range(1, len(letters) + 1)),
            [letter.line.dlq_id for letter in letters],
            [lane_of(letter.line.consumer, letter.topic, letter.partition, letter.key) for letter in letters],
            [str(uuid7()) for _ in letters],
            None if order.replacement is None else order.replacement.model_dump_json(),
        )

    async def lock(self, job_id: str) -> Row:
        row = await self._connection.fetchrow(self._sql.lock, job_id) if is_uuid(job_id) else None
        if row is None:
            raise NoSuchJob(job_id)
        return row

    async def pause(self, job_id: str, note: str) -> None:
        await self._connection.execute(self._sql.pause, job_id, note)

    async def resume(self, job_id: str) -> None:
        await self._connection.execute(self._sql.resume, job_id)

    async def cancel(self, job_id: str, note: str) -> None:
        await self._connection.execute(self._sql.cancel, job_id, note)
        await self.give_back(job_id)

    async def give_back(self, job_id: str) -> None:
        """What was not sent will not be, and is open again."""
        rows = await self._connection.fetch(self._sql.cancel_items, job_id)
        await self.reopen(job_id, [row[0] for row in rows])

    async def abandon(self, job_id: str, sentence: str) -> None:
        """What was sent and not answered is open again."""
        await self._connection.fetch(self._sql.lock_unanswered, job_id)  # before the items, as who takes answers does
        rows = await self._connection.fetch(self._sql.abandon_items, job_id, sentence)
        await self.reopen(job_id, [row[0] for row in rows])

    async def reopen(self, job_id: str, dlq_ids: Sequence[UUID]) -> None:
        await self._connection.execute(self._sql.reopen, job_id, dlq_ids)

    async def get(self, job_id: str) -> JobView:
        line = _line(await self._job(job_id))
        states: Counter[str] = Counter()
        answers: Counter[str] = Counter()
        behind = past = 0
        for counted in await self._connection.fetch(self._sql.counts, job_id):
            states[counted["state"]] += counted["many"]
            behind += counted["waiting_behind"]
            past += counted["past_retention"]
            if counted["answer"] is not None:
                answers[counted["answer"]] += counted["many"]
        failed = sum(many for answer, many in answers.items() if counts_as(line.kind, answer) == "failed")
        return JobView(
            **dict(line),
            pending=states["PENDING"],
            sent=states["SENT"],
            answered=states["ANSWERED"],
            cancelled=states["CANCELLED"],
            ok=states["ANSWERED"] - failed,
            failed=failed,
            answers=dict(sorted(answers.items())),
            waiting_behind=behind,
            past_retention=past,
        )

    async def page(self, after: str | None, limit: int) -> JobPage:
        """The newest first. `after` is the last of the page before."""
        if after is not None and not is_uuid(after):
            raise NoSuchJob(after)
        rows = await self._connection.fetch(self._sql.page, after, limit + 1)
        jobs = tuple(_line(row) for row in rows[:limit])
        return JobPage(jobs=jobs, next=str(jobs[-1].id) if len(rows) > limit else None)

    async def items(self, job_id: str, after: int | None, limit: int) -> ItemPage:
        """In their order. `after` is the number of the last of the page before."""
        row = await self._job(job_id)
        rows = await self._connection.fetch(self._sql.items, job_id, after or 0, limit + 1)
        items = tuple(_item(item, row["kind"]) for item in rows[:limit])
        return ItemPage(items=items, next=items[-1].number if len(rows) > limit else None)

    async def _job(self, job_id: str) -> Row:
        row = await self._connection.fetchrow(self._sql.job, job_id) if is_uuid(job_id) else None
        if row is None:
            raise NoSuchJob(job_id)
        return row


def _line(row: Row) -> JobLine:
    return JobLine(**{name: row[name] for name in JobLine.model_fields})


def _item(row: Row, kind: Action) -> ItemView:
    found = {name: row[name] for name in ItemView.model_fields if name != "counts_as"}
    return ItemView(**found, counts_as=None if row["answer"] is None else counts_as(kind, row["answer"]))
