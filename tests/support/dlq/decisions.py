"""People, and what tests ask of jobs and approvals: each verb in a transaction of its own, as the service runs it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from surefoot.audit.people import Person
from surefoot.dlq.jobs.approvals import Approvals
from surefoot.dlq.jobs.jobs import Jobs
from surefoot.dlq.jobs.request import Ids
from tests.support.dlq import letter_rows as letters
from tests.support.dlq.service import quick
from tests.support.waiting import eventually

ADA = Person("ada", "OPERATOR")
BOB = Person("bob", "OPERATOR")
EVE = Person("eve", "ADMIN")
GRACE = Person("grace", "SUPER_ADMIN")
HEDY = Person("hedy", "SUPER_ADMIN")
WHY = "the price list is there now"


@asynccontextmanager
async def jobs(connection: asyncpg.Connection, **changes: object) -> AsyncIterator[Jobs]:
    async with connection.transaction():
        yield Jobs(connection, "surefoot", quick(**changes))


@asynccontextmanager
async def approvals(connection: asyncpg.Connection, **changes: object) -> AsyncIterator[Approvals]:
    async with connection.transaction():
        yield Approvals(connection, "surefoot", quick(**changes))


async def dead(connection: asyncpg.Connection, count: int, **changed: Any) -> list[str]:
    """So many open dead letters; their ids."""
    rows = [letters.letter(number, **changed) for number in range(1, count + 1)]
    await letters.insert(connection, rows)
    return [str(row["id"]) for row in rows]


def these(ids: Sequence[str]) -> Ids:
    return Ids(frozenset(ids))


async def a_job(connection: asyncpg.Connection, count: int) -> str:
    ids = await dead(connection, count)
    async with jobs(connection) as verbs:
        return str((await verbs.replay(ADA, these(ids), reason=WHY)).job_id)


async def statuses(connection: asyncpg.Connection) -> dict[str, int]:
    rows = await connection.fetch("SELECT status::text, count(*) FROM surefoot.dlq_events GROUP BY 1")
    return {row[0]: row[1] for row in rows}


async def items(connection: asyncpg.Connection, job_id: object) -> list[tuple[int, str, str]]:
    """Number, id of the letter, state."""
    rows = await connection.fetch(
        "SELECT number, dlq_id::text, state::text FROM surefoot.dlq_job_items WHERE job_id = $1 ORDER BY number", job_id
    )
    return [tuple(row) for row in rows]


async def audited(connection: asyncpg.Connection) -> list[tuple[str, str, str]]:
    """Person, action and outcome, in order."""
    rows = await connection.fetch("SELECT person, action, outcome FROM surefoot.audit_log ORDER BY number")
    return [tuple(row) for row in rows]


async def answer(connection: asyncpg.Connection, job_id: object, number: int, said: str) -> None:
    """As if the consumer had answered, and the answer had been taken."""
    await connection.execute(
        """UPDATE surefoot.dlq_job_items SET state = 'ANSWERED', answer = $3, answered_at = now()
           WHERE job_id = $1 AND number = $2""",
        job_id,
        number,
        said,
    )


async def somebody_waits(url: str) -> None:
    """Until a transaction waits for another one's lock."""
    watching = await asyncpg.connect(url)

    async def look() -> bool:
        return bool(await watching.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))

    try:
        await eventually(look, what="the second waits for the first")
    finally:
        await watching.close()


def weaken(monkeypatch: pytest.MonkeyPatch, of: type, name: str, part: str, instead: str) -> None:
    """Change one of its statements, as a plausible mistake would."""
    real = of.__init__  # type: ignore[misc]

    def changed(self: Any, *arguments: Any) -> None:
        real(self, *arguments)
        before: str = getattr(self, name)
        assert part in before
        setattr(self, name, before.replace(part, instead))

    monkeypatch.setattr(of, "__init__", changed)
