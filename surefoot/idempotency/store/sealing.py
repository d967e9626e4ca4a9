"""Sealing the history in batches, looking whether it is whole, and removing what is old enough.

A range is sealed when no transaction can add to it any more. Lines have the time at which they are written, and whoever
writes one holds a lock on the table until its end: so later than a second ago, and than the beginning of every
transaction that holds such a lock, lines may be missing. Others, however long they run, delay nothing.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from surefoot.database import locks
from surefoot.database.connection import Connection, Row
from surefoot.idempotency.store.seals import NOTHING_SEALED, Chain, Line, Seal, Verified, next_seal, whole_range
from surefoot.idempotency.store.statements import Statements
from surefoot.idempotency.store.transaction import Connections

LINES_IN_A_SEAL = 5_000
SEALS_IN_A_LOOK = 50
LONG_S = 120.0
_TIME = """coalesce(to_char({0} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), {0}::text)"""
# A prepared transaction tells nobody when it began, so nothing is sealed before it is over. Nor does a session of
# another user, if we may not see it; but those of the layer's are ended by the server after the longest lease.
_HORIZON = """
    SELECT {time} FROM (
        SELECT least(statement_timestamp() - interval '1 second', min(
            CASE WHEN l.pid IS NULL THEN '-infinity'
                 WHEN a.query = '<insufficient privilege>' THEN statement_timestamp() - $1::interval
                 ELSE a.xact_start END)) AS horizon
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        WHERE l.locktype = 'relation' AND l.relation = '{history}'::regclass AND l.mode = 'RowExclusiveLock'
            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()) AS h"""


class Sealing:
    def __init__(self, connections: Connections, sql: Statements, *, longest: timedelta) -> None:
        self._connections = connections
        self._longest = longest
        history, seals = sql.history, f"{sql.schema}.idempotency_seals"
        columns = f"number, {_TIME.format('after')} AS after, {_TIME.format('until')} AS until, rows, previous, seal"
        within = "h.at >= $1::text::timestamptz AND h.at < $2::text::timestamptz"
        self._horizon = _HORIZON.format(time=_TIME.format("horizon"), history=history)
        self._last = f"SELECT {columns} FROM {seals} ORDER BY number DESC LIMIT 1"
        self._following = f"""
            SELECT {columns}, s.until <= now() - $2::interval AS is_past FROM {seals} s
            WHERE number > $1::bigint ORDER BY number LIMIT $3::int"""
        self._lines = f"""
            SELECT number, {_TIME.format("h.at")} AS at, encode(key_hash, 'hex') AS key_hash, tenant, fence, what,
                details::text AS details
            FROM {history} h WHERE {within} ORDER BY h.at, number LIMIT $3::bigint"""
        self._add = f"""
            INSERT INTO {seals} (number, after, until, rows, previous, seal)
            VALUES ($1::bigint, $2::text::timestamptz, $3::text::timestamptz, $4::bigint, $5::bytea, $6::bytea)"""
        self._oldest = f"""
            SELECT {columns} FROM {seals} s WHERE s.until <= now() - $1::interval
                AND s.until > (SELECT h.at FROM {history} h ORDER BY h.at LIMIT 1)
            ORDER BY number LIMIT 1"""
        self._remove = f"WITH gone AS (DELETE FROM {history} h WHERE {within} RETURNING 1) SELECT count(*) FROM gone"

    async def seal(self) -> int:
        """Seal the oldest lines that are not sealed; how many that were. 0: there are none, or somebody else is at
        it."""
        async with self._connections.driver(LONG_S) as driver, _transaction(driver, "READ COMMITTED"):
            if not await driver.fetchval(f"SELECT pg_try_advisory_xact_lock({locks.HISTORY_SEAL})"):
                return 0
            found = await driver.fetchrow(self._last)
            last = NOTHING_SEALED if found is None else _seal(found)
            until = await driver.fetchval(self._horizon, self._longest)
            if until <= last.until:
                return 0
            # After the look at the locks, and in a statement of its own: it sees what was committed by then.
            lines, until = await self._next_lines(driver, last.until, until)
            if not lines:
                return 0
            made = next_seal(last, until, lines)
            await driver.execute(self._add, made.number, made.after, made.until, made.rows, made.previous, made.seal)
            return made.rows

    async def _next_lines(self, driver: Connection, after: str, until: str) -> tuple[Sequence[Line], str]:
        most = LINES_IN_A_SEAL
        while True:
            found = await driver.fetch(self._lines, after, until, most + 1)
            lines, end = whole_range([_line(row) for row in found], until, most)
            if lines or not found:
                return lines, end
            most *= 2  # so many have one time

    async def verify(self, *, keep: timedelta, head: tuple[int, str] | None) -> Verified:
        """Make every seal again from its lines. Those whose lines are older than `keep` may have none."""
        chain = Chain(head)
        async with self._connections.driver(timeout_s=None) as driver:
            while True:
                # The lines of some seals at a time, as they were at one moment: others go on sealing and removing.
                async with _transaction(driver, "REPEATABLE READ, READ ONLY"):
                    seals = await driver.fetch(self._following, chain.last.number, keep, SEALS_IN_A_LOOK)
                    for row in seals:
                        lines = await driver.fetch(self._lines, row["after"], row["until"], None)
                        chain.follow(_seal(row), [_line(line) for line in lines], is_past=row["is_past"])
                if not seals:
                    return chain.end()

    async def prune(self, *, keep: timedelta, batch: int) -> int:
        """Remove the lines of seals older than that, a seal at a time, until `batch` are gone. The seals stay."""
        removed = 0
        while removed < batch:
            async with self._connections.driver(LONG_S) as driver, _transaction(driver, "READ COMMITTED"):
                found = await driver.fetchrow(self._oldest, keep)
                if found is None:
                    break
                await driver.execute("SET LOCAL idempotency.pruning = 'on'")
                removed += await driver.fetchval(self._remove, found["after"], found["until"])
        return removed


@asynccontextmanager
async def _transaction(driver: Connection, level: str) -> AsyncIterator[None]:
    """Whatever the database's default is. Where it fails, the connection is not used again."""
    await driver.execute(f"BEGIN ISOLATION LEVEL {level}")
    yield
    await driver.execute("COMMIT")


def _seal(row: Row) -> Seal:
    return Seal(row["number"], row["after"], row["until"], row["rows"], row["previous"], row["seal"])


def _line(row: Row) -> Line:
    return Line(row["number"], row["at"], row["key_hash"], row["tenant"], row["fence"], row["what"], row["details"])
