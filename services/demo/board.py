"""The live board of the second act: sagas by state, and how far buyers and carriers are."""

from dataclasses import dataclass, field

from rich.table import Table

from services.buyers.buyers import Seen
from surefoot.database.connection import Connection

STATUSES = ("RUNNING", "COMPENSATING", "COMPLETED", "COMPENSATED", "FAILED", "STUCK")
COLOURS = {"COMPLETED": "green", "COMPENSATED": "yellow", "FAILED": "yellow", "STUCK": "red"}
_SAGAS = "SELECT saga_type, status::text, count(*) FROM surefoot.saga_instances GROUP BY 1, 2"
_ORDERS = "SELECT mode, status, count(*) FROM orders.orders GROUP BY 1, 2"
_UNSENT = "SELECT count(*) FROM surefoot.outbox_events WHERE status = 'PENDING'"
_PARKED = "SELECT count(*) FROM surefoot.parked_events"


@dataclass(frozen=True, slots=True)
class Counts:
    """How everything stands now."""

    sagas: dict[str, dict[str, int]] = field(default_factory=dict)
    orders: dict[str, dict[str, int]] = field(default_factory=dict)
    unsent: int = 0
    parked: int = 0

    def of(self, *statuses: str) -> int:
        return sum(found.get(status, 0) for found in self.sagas.values() for status in statuses)

    @property
    def rests(self) -> bool:
        """Every saga has ended, every order of the choreography too, and nothing is on its way."""
        unpaid = ("PENDING_PAYMENT", "PAID")
        open_orders = sum(found.get(status, 0) for found in self.orders.values() for status in unpaid)
        return not (self.of("RUNNING", "COMPENSATING", "PAUSED") or open_orders or self.unsent or self.parked)


async def look(connection: Connection) -> Counts:
    sagas: dict[str, dict[str, int]] = {}
    for row in await connection.fetch(_SAGAS):
        sagas.setdefault(row[0], {})[row[1]] = row[2]
    orders: dict[str, dict[str, int]] = {}
    for row in await connection.fetch(_ORDERS):
        orders.setdefault(row[0], {})[row[1]] = row[2]
    return Counts(sagas, orders, await connection.fetchval(_UNSENT), await connection.fetchval(_PARKED))


def board(counts: Counts, seen: Seen, wanted: int) -> Table:
    table = Table(title="Sagas by state")
    table.add_column("saga")
    for status in STATUSES:
        table.add_column(status.lower(), justify="right", style=COLOURS.get(status))
    for saga_type in ("order_placement", "return_processing"):
        found = counts.sagas.get(saga_type, {})
        table.add_row(saga_type, *(f"{found.get(status, 0):,}" for status in STATUSES))
    driven = counts.orders.get("choreographed", {})
    underway = driven.get("PENDING_PAYMENT", 0) + driven.get("PAID", 0)
    done, undone = driven.get("PROCESSING", 0), driven.get("CANCELLED", 0)
    table.add_row("orders without a saga", f"{underway:,}", "", f"{done:,}", f"{undone:,}", "", "")
    table.caption = (
        f"{len(seen.placed):,} of {wanted:,} orders placed, {seen.turned_away} turned away at checkout, "
        f"{seen.returns} returns, {seen.pickups} parcels fetched"
    )
    return table
