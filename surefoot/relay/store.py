"""The database verbs of a relay, on one connection. All SQL of the hot path is here.

Claiming is reading: a shard has one owner at a time, so no row is locked and no transaction stays open while the relay
talks to the log. Marking carries the fence of the lease the rows were claimed under, and takes the lease row's lock, so
that it either happens before a takeover or is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from surefoot.database.connection import Connection, Statement, prepared
from surefoot.database.leases import Lease
from surefoot.database.schema import checked_schema
from surefoot.failpoints import failpoint
from surefoot.relay.plan import PendingRow

# The planner must take the partial index however stale its statistics are: with fresh ones it did, with old ones it
# walked all published rows on every claim (docs/decisions/0002). A lost mark only repeats a record, so marks need not
# wait for the disk.
SESSION_SETTINGS = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "synchronous_commit": "off",
    "jit": "off",
    # So there is one plan to choose, and it is not chosen anew for each claim: that took longer than the claim itself.
    "plan_cache_mode": "force_generic_plan",
}


HOLD_ROWS = 5000


@dataclass(frozen=True, slots=True)
class RefusedMark:
    """A refused row as it is to be written: `retry_after` None means FAILED."""

    position: int
    shard: int
    sentence: str
    retry_after: timedelta | None


class RelayStore:
    """The verbs of a lane. Its statements are prepared beforehand: a process that froze while preparing one inside a
    transaction would keep its locks for good, because the server cannot tell it from one that is busy."""

    def __init__(
        self,
        connection: Connection,
        *,
        claim: Statement,
        fence: Statement,
        published: Statement,
        refused: Statement,
        hold: Statement,
    ) -> None:
        self._connection = connection
        self._claim = claim
        self._fence = fence
        self._published = published
        self._refused = refused
        self._hold = hold

    @classmethod
    async def open(cls, connection: Connection, schema: str) -> "RelayStore":
        checked_schema(schema)
        claim, fence, published, refused, hold = await prepared(
            connection,
            claim_statement(schema),
            fence_statement(schema),
            published_statement(schema),
            refused_statement(schema),
            hold_statement(schema),
        )
        return cls(connection, claim=claim, fence=fence, published=published, refused=refused, hold=hold)

    async def claim(
        self, shards: Sequence[int], *, rows: int, size: int, without_topics: Sequence[str] = ()
    ) -> list[PendingRow]:
        """The oldest publishable rows of each shard, in order. Keys with a failed or backing-off row are left out."""
        per_shard = max(1, rows // len(shards))
        found = await self._claim.fetch(shards, per_shard, max(1, size // len(shards)), without_topics)
        return [PendingRow(*row) for row in found]  # type: ignore[misc]  # columns as in PendingRow

    async def mark(
        self, leases: Mapping[int, Lease], published: Sequence[PendingRow], refused: Sequence[RefusedMark]
    ) -> frozenset[int]:
        """Mark rows under the fences of their shards; returns the shards that are still ours."""
        async with self._connection.transaction():
            still_ours = await self._still_ours(leases)
            positions = [row.position for row in published if row.shard in still_ours]
            await self._published.fetch(sorted(still_ours), positions)
            marks = [mark for mark in refused if mark.shard in still_ours]
            if marks:  # in one statement: thousands of round trips would outlast the transaction's time
                await self._refused.fetch(
                    [mark.shard for mark in marks],
                    [mark.position for mark in marks],
                    [mark.sentence for mark in marks],
                    [mark.retry_after for mark in marks],
                )
            await failpoint("relay.marked")
        return still_ours

    async def hold(self, leases: Mapping[int, Lease]) -> int:
        """Put rows behind a FAILED one of their key out of the claims' way; how many (HOLD_ROWS: maybe more)."""
        async with self._connection.transaction():
            held = await self._hold.fetch(sorted(await self._still_ours(leases)), HOLD_ROWS)
        return len(held)

    async def _still_ours(self, leases: Mapping[int, Lease]) -> frozenset[int]:
        mine = await self._fence.fetch(list(leases), [lease.fence for lease in leases.values()])
        return frozenset(row["unit"] for row in mine)


class Housekeeping:
    """The verbs of a relay's housekeeping."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._schema = checked_schema(schema)

    async def oldest_ages(self, shards: Sequence[int]) -> dict[int, float]:
        """Seconds the oldest unpublished row of each shard has waited; shards without one are left out."""
        found = await self._connection.fetch(
            f"""
            SELECT s.shard, extract(epoch FROM now() - r.created_at)::float8 AS age
            FROM unnest($1::smallint[]) AS s(shard) CROSS JOIN LATERAL (
                SELECT created_at FROM {self._schema}.outbox_events e
                WHERE e.shard = s.shard AND e.status = 'PENDING' ORDER BY e.position LIMIT 1) r""",
            shards,
        )
        return {row["shard"]: row["age"] for row in found}

    async def remove_published(self, *, older_than: timedelta, at_most: int) -> int:
        """Remove old published rows, oldest first; how many were removed."""
        done = await self._connection.execute(
            f"""
            DELETE FROM {self._schema}.outbox_events WHERE event_id IN (
                SELECT event_id FROM {self._schema}.outbox_events
                WHERE status = 'PUBLISHED' AND published_at < now() - $1::interval ORDER BY published_at LIMIT $2)""",
            older_than,
            at_most,
        )
        return int(done.rpartition(" ")[2])


def claim_statement(schema: str) -> str:
    # The inner SELECT has a LIMIT so that it stays a look-up in `outbox_events_refused` for each row. As NOT EXISTS the
    # planner makes a join of it, and with the statistics of a table without failures one that compares every row with
    # every failure (measured: 600 ms for a claim beside 5,000 FAILED rows; 3 ms this way).
    return f"""
        SELECT r.position, r.shard, r.key_hash, r.topic, r.key, r.body, r.headers, r.attempts
        FROM unnest($1::smallint[]) AS s(shard) CROSS JOIN LATERAL (
            SELECT e.position, e.shard, e.key_hash, e.topic, e.key, e.body, e.headers, e.attempts,
                   sum(coalesce(octet_length(e.body), 0)) OVER (ORDER BY e.position ROWS UNBOUNDED PRECEDING) AS bytes
            FROM {schema}.outbox_events e
            WHERE e.shard = s.shard AND e.status = 'PENDING' AND e.topic <> ALL ($4::text[]) AND (
                SELECT true FROM {schema}.outbox_events f
                WHERE f.shard = e.shard AND f.topic = e.topic AND f.key = e.key
                  AND (f.status IN ('FAILED', 'HELD') OR (f.status = 'PENDING' AND f.attempts > 0))
                  AND (f.status = 'FAILED' OR (f.status = 'HELD' AND f.position < e.position)
                       OR f.next_attempt_at > now())
                LIMIT 1) IS NULL
            ORDER BY e.position LIMIT $2) r
        WHERE r.bytes - coalesce(octet_length(r.body), 0) < $3"""


def fence_statement(schema: str) -> str:
    return f"""
        SELECT l.unit FROM {schema}.leases l JOIN unnest($1::int[], $2::bigint[]) AS mine(unit, fence)
               ON l.scope = 'outbox' AND l.unit = mine.unit AND l.fence = mine.fence
        ORDER BY l.unit FOR SHARE OF l"""


def published_statement(schema: str) -> str:
    return f"""
        UPDATE {schema}.outbox_events SET status = 'PUBLISHED', published_at = now(), next_attempt_at = NULL
        WHERE shard = ANY ($1::smallint[]) AND position = ANY ($2::bigint[]) AND status = 'PENDING'"""


def refused_statement(schema: str) -> str:
    return f"""
        UPDATE {schema}.outbox_events e
        SET attempts = e.attempts + 1, last_error = r.sentence, next_attempt_at = now() + r.retry_after,
            status = CASE WHEN r.retry_after IS NULL THEN 'FAILED' ELSE 'PENDING' END::{schema}.outbox_status
        FROM unnest($1::smallint[], $2::bigint[], $3::text[], $4::interval[])
             AS r(shard, position, sentence, retry_after)
        WHERE e.shard = r.shard AND e.position = r.position AND e.status = 'PENDING'"""


def hold_statement(schema: str) -> str:
    """PENDING rows of a key whose head is FAILED become HELD; HELD rows of a key that has none become PENDING again
    (an operator's retry does that by itself; this is for a head that was changed or deleted by hand).

    Rows stay in order whether they are held or not: a claim leaves out the whole key while its head is FAILED, and what
    is behind a HELD row. The lease row's lock, taken before, keeps an operator from deciding at the same time."""
    events = f"{schema}.outbox_events"
    return f"""
        UPDATE {events} SET status = CASE status WHEN 'HELD' THEN 'PENDING' ELSE 'HELD' END::{schema}.outbox_status
        WHERE event_id IN (
            (SELECT e.event_id FROM {events} e JOIN (
                SELECT DISTINCT f.shard, f.topic, f.key FROM {events} f
                WHERE f.shard = ANY ($1::smallint[]) AND f.status = 'FAILED'
             ) failed ON e.shard = failed.shard AND e.topic = failed.topic AND e.key = failed.key
             WHERE e.shard = ANY ($1::smallint[]) AND e.status = 'PENDING' LIMIT $2)
            UNION ALL
            (SELECT h.event_id FROM {events} h
             WHERE h.shard = ANY ($1::smallint[]) AND h.status = 'HELD' AND (
                SELECT true FROM {events} f
                WHERE f.shard = h.shard AND f.topic = h.topic AND f.key = h.key AND f.status = 'FAILED' LIMIT 1) IS NULL
             LIMIT $2))
        RETURNING event_id"""
