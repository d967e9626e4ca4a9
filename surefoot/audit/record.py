"""The audit log: what was done and what was refused, in the transaction that does it.

Numbers have no gaps and each row is sealed with the one before it, so writers take turns: one advisory lock, from the
record to the end of the transaction. Record last: whoever waits for a row while holding this lock keeps everybody else
waiting, and two that take both in different orders deadlock. The database seals (`record_act`);
`surefoot.audit.chain` is how whoever verifies seals again.
"""

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from surefoot.audit.chain import AuditRow, Chain, Finding
from surefoot.database.connection import Connection, Row
from surefoot.database.schema import checked_schema
from surefoot.errors import SurefootError
from surefoot.events.text import printable

PAGE = 2000
NAME_LIMIT = 500
"""People and what it is about are indexed, and an index takes so much: a longer one is cut, and recorded."""
REASON_LIMIT = 4000
DETAIL_LIMIT = 10_000

Action = Literal[
    "replay",
    "dry_run",
    "edit_replay",
    "pause",
    "resume",
    "cancel",
    "abandon",
    "discard",
    "approve",
    "refuse",
    "expire",
    "reveal",
    "export",
    "access",
    "request",
    "token_made",
    "token_revoked",
    "retention",
]
"""What can be recorded. `access` is a refused attempt to get in, `request` one that was refused before it was known
what it wanted."""
Outcome = Literal["done", "refused"]

# As it is stored, to the microsecond, whatever the session's settings; also for times that no Python object can hold.
_AT = """coalesce(to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), at::text)
    || CASE WHEN at < '0001-01-01Z' THEN ' BC' ELSE '' END"""
_COLUMNS = f"""number, {_AT} AS at, person, action, outcome, about, reason, details::text AS details,
    previous, seal"""


class NotInTransaction(SurefootError):
    """An act is recorded in the transaction that does it: begin one first."""


@dataclass(frozen=True, slots=True)
class Act:
    """What somebody did, or tried to do."""

    person: str
    action: Action
    outcome: Outcome
    about: str
    """What it was done to: an event, a job, an approval, a route."""
    reason: str
    details: Mapping[str, object] = field(default_factory=dict)


async def record(connection: Connection, schema: str, act: Act) -> int:
    """Add the act to the log, in the caller's transaction and as its last statement. The answer is the row's number."""
    if not connection.is_in_transaction():
        raise NotInTransaction
    number: int = await connection.fetchval(
        f"""SELECT {checked_schema(schema)}.record_act($1::text, $2::text, $3::text, $4::text, $5::text, $6::text)""",
        printable(act.person, NAME_LIMIT),
        act.action,
        act.outcome,
        printable(act.about, NAME_LIMIT),
        printable(act.reason, REASON_LIMIT),
        details_text(act.details),
    )
    return number


def details_text(details: Mapping[str, object]) -> str:
    """The details as JSON that Postgres takes whatever is in them: a refused attempt must be recorded too."""
    return json.dumps(_plain(details), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _plain(value: object) -> object:
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if abs(value) < float("inf") else str(value)
        case Mapping():
            return {printable(str(name), DETAIL_LIMIT): _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case set() | frozenset():
            return sorted((_plain(each) for each in value), key=str)
        case _:
            return printable(str(value), DETAIL_LIMIT)


async def head(connection: Connection, schema: str) -> tuple[int, str] | None:
    """The last row's number and its seal in hexadecimal: what to write down elsewhere. None if the log is empty."""
    row = await connection.fetchrow(
        f"SELECT number, seal FROM {checked_schema(schema)}.audit_log ORDER BY number DESC LIMIT 1"
    )
    return None if row is None else (row["number"], bytes(row["seal"]).hex())


@dataclass(frozen=True, slots=True)
class Examined:
    """What a look through the whole log has found."""

    findings: list[Finding]
    rows: int
    last: tuple[int, str] | None
    """The head of what was looked at: later rows may have come since."""


async def verify(connection: Connection, schema: str, *, head: tuple[int, str] | None = None) -> list[Finding]:
    """Everything that was done to the log, beside adding to it. `head` is one that was written down earlier."""
    return (await examine(connection, schema, head=head)).findings


async def examine(
    connection: Connection,
    schema: str,
    *,
    head: tuple[int, str] | None = None,
    progress: Callable[[int], None] = lambda _: None,
    size: int = PAGE,
) -> Examined:
    """Look through the log page by page, while others may add to it; `progress` hears how many rows a page had."""
    chain = Chain(None if head is None else (head[0], bytes.fromhex(head[1])))
    last: AuditRow | None = None
    async for page in pages(connection, schema, size=size):
        for row in page:
            chain.follow(row)
        last = page[-1]
        progress(len(page))
    findings = chain.end()
    return Examined(findings, chain.count, None if last is None else (last.number, last.seal.hex()))


async def pages(
    connection: Connection, schema: str, *, after: int | None = None, size: int = PAGE
) -> AsyncGenerator[list[AuditRow], None]:
    """The log as it is now, in order, a bounded number of rows at a time."""
    table = f"{checked_schema(schema)}.audit_log"
    last = await connection.fetchval(f"SELECT max(number) FROM {table}")
    condition, values = ("true", []) if after is None else ("number > $3::bigint", [after])
    while last is not None:
        rows = await connection.fetch(
            f"""SELECT {_COLUMNS} FROM {table} WHERE number <= $1::bigint AND {condition}
                ORDER BY number LIMIT $2::int""",
            last,
            size,
            *values,
        )
        if not rows:
            return
        yield [_read(row) for row in rows]
        condition, values = "number > $3::bigint", [rows[-1]["number"]]


def _read(row: Row) -> AuditRow:
    return AuditRow(
        number=row["number"],
        at=row["at"],
        person=row["person"],
        action=row["action"],
        outcome=row["outcome"],
        about=row["about"],
        reason=row["reason"],
        details=row["details"],
        previous=bytes(row["previous"]),
        seal=bytes(row["seal"]),
    )
