"""Who owns which shard or partition, by lease, with a fence.

A *scope* ("outbox", "log/billing/order.events") has numbered units; each unit has at most one owner at a time. Whoever
takes a unit raises its fence; writes that carry an older fence are refused by the statement that checks it, so an owner
that was frozen past its lease can wake up and harm nothing. All times are the database's.

No member owns more than its fair share (rounded up), so that one that joins finds something to take, and no member
gives up units that no other would take.
"""

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta

from surefoot.database.connection import Connection, Statement, prepared
from surefoot.database.schema import checked_schema

HEARTBEAT_VERBS = ("alive", "renew", "count", "take")


@dataclass(frozen=True, slots=True)
class Lease:
    unit: int
    fence: int
    valid_until: float
    """On this process's monotonic clock; never later than the database's own idea of it."""

    def is_valid(self) -> bool:
        return time.monotonic() < self.valid_until


@dataclass(frozen=True, slots=True)
class Standing:
    """What a heartbeat found: the leases we hold, those we should let go, and how many members are alive."""

    held: dict[int, Lease]
    surplus: frozenset[int]
    members: int
    units: int


class Leases:
    """The database verbs of one member of one scope. Its connection is its own: calls from several tasks queue up."""

    def __init__(self, connection: Connection, *, scope: str, member: str, lease: timedelta, schema: str) -> None:
        self._connection = connection
        self._scope = scope
        self._member = member
        self._lease = lease
        self._sql = _statements(checked_schema(schema))
        self._ready: dict[str, Statement] = {}
        self._turn = asyncio.Lock()

    async def heartbeat(self, *, acquire: bool = True) -> Standing:
        """Say that we live, renew what we hold, take what is ours to take."""
        async with self._turn:
            verbs = await self._prepared()
            asked_at = time.monotonic()
            async with self._connection.transaction():
                await verbs["alive"].fetch(self._scope, self._member, self._lease)
                renewed = await verbs["renew"].fetch(self._scope, self._member, self._lease)
                (counts,) = await verbs["count"].fetch(self._scope)
                units, members = int(counts["units"]), int(counts["members"])
                wanted = to_acquire(held=len(renewed), units=units, members=members) if acquire else 0
                taken = await verbs["take"].fetch(self._scope, self._member, self._lease, wanted) if wanted else []
        valid_until = asked_at + self._lease.total_seconds()
        held = {row["unit"]: Lease(row["unit"], row["fence"], valid_until) for row in [*renewed, *taken]}
        return Standing(held, to_release(frozenset(held), units=units, members=members), members, units)

    async def _prepared(self) -> dict[str, Statement]:
        """The statements of a heartbeat, prepared before its transaction begins: a process that froze while preparing
        one inside it would keep its locks for good."""
        if not self._ready:
            statements = await prepared(self._connection, *(self._sql[name] for name in HEARTBEAT_VERBS))
            self._ready = dict(zip(HEARTBEAT_VERBS, statements, strict=True))
        return self._ready

    async def release(self, lease: Lease) -> None:
        """Let a unit go at once, so that another member need not wait for the lease to run out."""
        async with self._turn:
            await self._connection.execute(self._sql["release"], self._scope, lease.unit, self._member, lease.fence)

    async def leave(self) -> None:
        """Let everything go and stop counting as a member."""
        async with self._turn, self._connection.transaction():
            await self._connection.execute(self._sql["release_all"], self._scope, self._member)
            await self._connection.execute(self._sql["gone"], self._scope, self._member)

    async def set_asleep(self, asleep: bool) -> None:
        """Tell writers whether a notification is worth sending (see `outbox_write`)."""
        async with self._turn:
            await self._connection.execute(self._sql["asleep"], self._scope, self._member, asleep)


async def declare_units(connection: Connection, *, scope: str, units: int, schema: str) -> None:
    """Make the units of a scope; those that exist stay as they are."""
    await connection.execute(
        f"INSERT INTO {checked_schema(schema)}.leases (scope, unit) "
        "SELECT $1, n FROM generate_series(0, $2::int - 1) AS n ON CONFLICT DO NOTHING",
        scope,
        units,
    )


def _statements(schema: str) -> dict[str, str]:
    leases, members = f"{schema}.leases", f"{schema}.lease_members"
    return {
        "alive": f"""
            INSERT INTO {members} (scope, member, alive_until) VALUES ($1, $2, now() + $3::interval)
            ON CONFLICT (scope, member) DO UPDATE SET alive_until = excluded.alive_until""",
        # Rows are locked in the order of their unit everywhere (also by the relay's marks), so that nobody deadlocks.
        "renew": f"""
            UPDATE {leases} l SET lease_until = now() + $3::interval
            FROM (SELECT unit FROM {leases} WHERE scope = $1 AND owner = $2 ORDER BY unit FOR UPDATE) mine
            WHERE l.scope = $1 AND l.unit = mine.unit RETURNING l.unit, l.fence""",
        "count": f"""
            SELECT (SELECT count(*) FROM {leases} WHERE scope = $1) AS units,
                   (SELECT count(*) FROM {members} WHERE scope = $1 AND alive_until > now()) AS members""",
        "take": f"""
            UPDATE {leases} l SET owner = $2, fence = l.fence + 1, lease_until = now() + $3::interval, taken_at = now()
            FROM (SELECT unit FROM {leases} WHERE scope = $1 AND lease_until <= now() AND owner IS DISTINCT FROM $2
                  ORDER BY unit LIMIT $4 FOR UPDATE SKIP LOCKED) free
            WHERE l.scope = $1 AND l.unit = free.unit RETURNING l.unit, l.fence""",
        "release": f"""
            UPDATE {leases} SET owner = NULL, lease_until = '-infinity'
            WHERE scope = $1 AND unit = $2 AND owner = $3 AND fence = $4""",
        "release_all": f"""
            UPDATE {leases} SET owner = NULL, lease_until = '-infinity' WHERE scope = $1 AND owner = $2""",
        "gone": f"DELETE FROM {members} WHERE scope = $1 AND (member = $2 OR alive_until < now() - interval '1 hour')",
        "asleep": f"UPDATE {members} SET asleep = $3 WHERE scope = $1 AND member = $2",
    }


def fair_share(*, units: int, members: int) -> int:
    return -(-units // max(1, members))


def to_acquire(*, held: int, units: int, members: int) -> int:
    """How many more units to take, if there are free ones."""
    return max(0, fair_share(units=units, members=members) - held)


def to_release(held: frozenset[int], *, units: int, members: int) -> frozenset[int]:
    """Which units to let go: the highest-numbered ones above the fair share."""
    share = fair_share(units=units, members=members)
    return frozenset(sorted(held)[share:])
