"""What becomes of old keys: their answers go first, then they go themselves. Batch by batch, around whatever is in use.

What may have an effect outside that nobody has accounted for is left alone, however old it is.
"""

from surefoot.idempotency.store.connections import Connections
from surefoot.idempotency.store.statements import Statements

LONG_S = 120.0


class Reaping:
    def __init__(self, connections: Connections, sql: Statements) -> None:
        self._connections = connections
        # Arrays, because a join with thousands of rows makes the planner read the whole table.
        self._expire = f"""
            WITH due AS (
                SELECT key_hash FROM {sql.keys}
                WHERE state IN ('COMPLETED', 'FAILED_TERMINAL') AND replay_until <= now()
                ORDER BY replay_until LIMIT $1::int FOR UPDATE SKIP LOCKED),
            expired AS (
                UPDATE {sql.keys} SET state = 'EXPIRED', headers = NULL, body = NULL, request = NULL
                WHERE key_hash = ANY (ARRAY(SELECT key_hash FROM due)) RETURNING key_hash, tenant, fence),
            noted AS (
                INSERT INTO {sql.history} (key_hash, tenant, fence, what)
                SELECT key_hash, tenant, fence, 'expired' FROM expired)
            SELECT count(*) FROM expired"""
        self._reap = f"""
            WITH old AS (
                SELECT key_hash FROM {sql.keys} k
                WHERE gone_until <= now() AND (
                    state IN ('COMPLETED', 'FAILED_TERMINAL', 'EXPIRED')
                    OR state = 'FAILED_RETRY' AND NOT outcome_unknown AND NOT EXISTS (
                        SELECT FROM {sql.calls} c WHERE c.key_hash = k.key_hash AND c.closed_at IS NULL))
                ORDER BY gone_until LIMIT $1::int FOR UPDATE SKIP LOCKED),
            gone AS (DELETE FROM {sql.keys} WHERE key_hash = ANY (ARRAY(SELECT key_hash FROM old)) RETURNING 1)
            SELECT count(*) FROM gone"""

    async def expire(self, batch: int) -> int:
        """Remove the answers that are given again no longer; how many those were."""
        async with self._connections.driver(LONG_S) as driver:
            return int(await driver.fetchval(self._expire, batch))

    async def reap(self, batch: int) -> int:
        """Delete the keys that are new again; how many those were."""
        async with self._connections.driver(LONG_S) as driver:
            return int(await driver.fetchval(self._reap, batch))
