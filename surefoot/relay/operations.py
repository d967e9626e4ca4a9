"""What an operator can do with rows that FAILED: look, retry, release. Each is one statement, and does nothing twice.

*Retry* puts the row back at the head of its key. *Release* lets the rest of the key go on without it; the row stays,
with the name of who decided and why.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from surefoot.database.schema import checked_schema

if TYPE_CHECKING:  # the commands import this module, also to print their help
    from surefoot.database.connection import Connection, Row

STATUSES = ("PENDING", "HELD", "PUBLISHED", "FAILED", "RELEASED")
BEHIND_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class OutboxRow:
    event_id: UUID
    position: int
    topic: str
    event_type: str
    key: str
    status: str
    attempts: int
    last_error: str | None
    created_at: datetime
    published_at: datetime | None
    decision: str | None


_COLUMNS = (
    "event_id, position, topic, event_type, key, status, attempts, last_error, created_at, published_at, decision"
)


class Operations:
    def __init__(self, connection: "Connection", schema: str) -> None:
        self._connection = connection
        self._table = f"{checked_schema(schema)}.outbox_events"
        self._status = f"{schema}.outbox_status"
        self._schema = schema

    async def find(self, *, status: str, topic: str | None, key: str | None, limit: int) -> list[OutboxRow]:
        found = await self._connection.fetch(
            f"""SELECT {_COLUMNS} FROM {self._table}
                WHERE status = $1::{self._schema}.outbox_status
                  AND ($2::text IS NULL OR topic = $2) AND ($3::text IS NULL OR key = $3)
                ORDER BY position LIMIT $4""",
            status,
            topic,
            key,
            limit,
        )
        return [_row(row) for row in found]

    async def get(self, event_id: UUID) -> tuple[OutboxRow, str, str | None] | None:
        """The row, its headers and its payload as text."""
        row = await self._connection.fetchrow(
            f"""SELECT {_COLUMNS}, headers::text, jsonb_pretty({self._schema}.as_json(body)) AS payload
                FROM {self._table} WHERE event_id = $1""",
            event_id,
        )
        return None if row is None else (_row(row), row["headers"], row["payload"])

    async def waiting_behind(self, row: OutboxRow) -> int:
        """How many rows of its key wait behind it (counted up to BEHIND_LIMIT)."""
        count = await self._connection.fetchval(
            f"""SELECT count(*) FROM (SELECT FROM {self._table}
                WHERE topic = $1 AND key = $2 AND status IN ('PENDING', 'HELD') AND position > $3
                LIMIT {BEHIND_LIMIT}) AS waiting""",
            row.topic,
            row.key,
            row.position,
        )
        return int(count)

    async def retry(self, event_id: UUID | None, *, topic: str | None, decision: str) -> int:
        """Put FAILED rows back: one, or all (of a topic). Returns how many."""
        return await self._decide("PENDING", event_id, topic, decision)

    async def release(self, event_id: UUID, *, decision: str) -> int:
        return await self._decide("RELEASED", event_id, None, decision)

    async def _decide(self, status: str, event_id: UUID | None, topic: str | None, decision: str) -> int:
        async with self._connection.transaction():
            # Relays hold rows under these locks; without them a row could be held after its key was let go.
            await self._connection.execute(
                f"SELECT FROM {self._schema}.leases WHERE scope = 'outbox' ORDER BY unit FOR UPDATE"
            )
            decided = await self._connection.fetch(
                f"""UPDATE {self._table}
                    SET status = $1::{self._status}, next_attempt_at = NULL,
                        attempts = CASE WHEN $1::{self._status} = 'PENDING' THEN 0 ELSE attempts END,
                        decision = concat_ws(E'\\n', decision, $4::text)
                    WHERE status = 'FAILED' AND ($2::uuid IS NULL OR event_id = $2)
                      AND ($3::text IS NULL OR topic = $3)
                    RETURNING topic, key""",
                status,
                event_id,
                topic,
                decision,
            )
            await self._let_go([row["topic"] for row in decided], [row["key"] for row in decided])
        return len(decided)

    async def _let_go(self, topics: list[str], keys: list[str]) -> None:
        """Put the rest of these keys back in the relays' way, and wake one."""
        await self._connection.execute(
            f"""UPDATE {self._table} e SET status = 'PENDING'
                FROM (SELECT DISTINCT * FROM unnest($1::text[], $2::text[]) AS k(topic, key)) AS k
                WHERE e.topic = k.topic AND e.key = k.key AND e.status = 'HELD' AND NOT EXISTS (
                    SELECT FROM {self._table} f
                    WHERE f.shard = e.shard AND f.topic = e.topic AND f.key = e.key AND f.status = 'FAILED')""",
            topics,
            keys,
        )
        await self._connection.execute("SELECT pg_notify('surefoot_outbox', '')")


def _row(row: "Row") -> OutboxRow:
    return OutboxRow(**{name.strip(): row[name.strip()] for name in _COLUMNS.split(",")})
