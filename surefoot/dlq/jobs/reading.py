"""Looking at jobs: how far they are, what they were answered."""

from collections import Counter

from surefoot.consumer.controls import Action
from surefoot.database.connection import Connection, Row
from surefoot.dlq.errors import NoSuchJob
from surefoot.dlq.jobs.policy import counts_as
from surefoot.dlq.jobs.request import is_uuid
from surefoot.dlq.jobs.store import JobStatements
from surefoot.dlq.jobs.views import ItemPage, ItemView, JobLine, JobPage, JobView


class JobReading:
    def __init__(self, connection: Connection, sql: JobStatements) -> None:
        self._connection = connection
        self._sql = sql

    async def get(self, job_id: str) -> JobView:
        row = await self._connection.fetchrow(self._sql.job, job_id) if is_uuid(job_id) else None
        if row is None:
            raise NoSuchJob(job_id)
        line = _line(row)
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
        row = await self._connection.fetchrow(self._sql.job, job_id) if is_uuid(job_id) else None
        if row is None:
            raise NoSuchJob(job_id)
        rows = await self._connection.fetch(self._sql.items, job_id, after or 0, limit + 1)
        items = tuple(_item(item, row["kind"]) for item in rows[:limit])
        return ItemPage(items=items, next=items[-1].number if len(rows) > limit else None)


def _line(row: Row) -> JobLine:
    return JobLine(**{name: row[name] for name in JobLine.model_fields})


def _item(row: Row, kind: Action) -> ItemView:
    found = {name: row[name] for name in ItemView.model_fields if name != "counts_as"}
    return ItemView(**found, counts_as=None if row["answer"] is None else counts_as(kind, row["answer"]))
