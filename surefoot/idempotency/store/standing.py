"""How things stand, for whoever watches: two numbers, each from a small index."""

from dataclasses import dataclass

from surefoot.idempotency.store.connections import Connections
from surefoot.idempotency.store.statements import OPEN, Statements

STUCK_AFTER_S = 60


@dataclass(frozen=True, slots=True)
class Standing:
    stuck: int
    """Keys in flight whose lease ran out more than a minute ago: nobody went on with them."""
    oldest_pending_s: float
    """The age of the oldest call that somebody has to get an answer to; 0 if there is none."""


async def standing(connections: Connections, sql: Statements) -> Standing:
    # What is left to its client (no due_at) is pending for nobody.
    query = f"""
        SELECT (SELECT count(*) FROM {sql.keys}
                WHERE {OPEN} AND state = 'IN_FLIGHT' AND lease_until < now() - interval '{STUCK_AFTER_S} seconds'),
            (SELECT extract(epoch FROM now() - min(c.created_at))::float8
             FROM {sql.calls} c JOIN {sql.keys} k USING (key_hash)
             WHERE c.closed_at IS NULL
                AND (k.state = 'IN_FLIGHT' OR k.state = 'FAILED_RETRY' AND k.due_at IS NOT NULL))"""
    async with connections.driver() as driver:
        row = await driver.fetchrow(query)
    assert row is not None
    return Standing(row[0], row[1] or 0.0)
