"""A consumer with one protection taken out, to show that the crash tests would notice.

Each function below undoes one protection of the real consumer, as a plausible mistake would, and nothing else.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

from surefoot.cli.main import main as main
from surefoot.consumer_runtime import batch
from surefoot.consumer_runtime.parking import Parking
from surefoot.consumer_runtime.partitions import Partitions, Positions
from surefoot.consumer_runtime.plan import Reading
from surefoot.consumer_runtime.statements import Statements
from surefoot.consumer_runtime.unit import Position, Unit
from surefoot.database.connection import Connection
from surefoot.database.guard import Guard
from surefoot.log.port import Subscription, TopicPartition
from tests.support.weakened.statements import change_statement


def fence() -> None:
    """Batches are committed whoever owns the partition by now."""
    change_statement(Statements, "fence", "fence = $4::bigint", "$4::bigint IS NOT NULL")


def fence_and_parked_rows() -> None:
    """The same; and nobody asks whether a parked event is still there when its effect is committed."""
    fence()

    async def resolve(
        self: Parking, driver: Connection, position: Position, offsets: Sequence[int], keys: Sequence[str]
    ) -> None:
        await driver.fetch(self.sql.resolve, *position.place, list(offsets))
        await self.promote(driver, position, keys)

    Parking.resolve = resolve  # type: ignore[method-assign]


def end_others() -> None:
    """A new owner leaves the old one's backend alone."""
    change_statement(Statements, "end_others", "count(pg_terminate_backend(pid))", "count(pid)")


def same_transaction() -> None:
    """Nobody asks whether the transaction that is committed is the one that was begun."""
    change_statement(Statements, "fence", "pg_current_xact_id()::text = $7::text", "$7::text IS NOT NULL")


def guard() -> None:
    """A handler may commit: the session lets it, the database does too, and nobody remembers that it did."""
    change_statement(Statements, "begin", "INSERT INTO surefoot.open_batches VALUES (pg_current_xact_id())", "SELECT 1")

    def allow(self: Guard, what: str) -> None:
        return None

    Guard.refuse = cast(Any, allow)  # type: ignore[method-assign]


def inbox() -> None:
    """Every delivery counts as fresh."""
    real = cast(Any, batch).receive

    async def all_fresh(unit: Unit, known: Sequence[Reading]) -> None:
        await real(unit, known)

    cast(Any, batch).receive = all_fresh


def parking_behind() -> None:
    """Nobody looks whether something earlier of a key waits."""
    real = Unit.begin

    async def holds_nothing(self: Unit, keys: Sequence[str], *, alone: bool = False) -> frozenset[str]:
        await real(self, keys, alone=alone)
        return frozenset()

    Unit.begin = holds_nothing  # type: ignore[method-assign]


def offset_in_the_transaction() -> None:
    """Where to go on is the log's word alone, and the log is told what was read, as a client that commits by itself
    does it. (The log's word alone would do no harm: it lags behind, and the inbox drops what comes twice.)"""
    take, assigned = Positions.take, Partitions.assigned
    joined: list[Subscription] = []

    async def remember(self: Partitions, coming: frozenset[TopicPartition]) -> None:
        joined[:] = [self.subscription]
        await assigned(self, coming)

    async def by_the_log(self: Positions, where: TopicPartition) -> tuple[Position, int]:
        position, _ = await take(self, where)
        return position, await joined[0].committed(where) or 0

    def what_was_read(self: Partitions) -> dict[TopicPartition, int]:
        return {where: worker.buffer.expected for where, worker in self.workers.items()}

    Partitions.assigned = remember  # type: ignore[method-assign]
    Positions.take = by_the_log  # type: ignore[method-assign]
    Partitions.next_offsets = property(what_was_read)  # type: ignore[assignment,method-assign]


PROTECTIONS: dict[str, Callable[[], None]] = {
    "fence": fence,
    "fence_and_parked_rows": fence_and_parked_rows,
    "end_others": end_others,
    "same_transaction": same_transaction,
    "guard": guard,
    "inbox": inbox,
    "parking_behind": parking_behind,
    "offset_in_the_transaction": offset_in_the_transaction,
}
