"""The books that a flow goes through, as plain values for the checker: orders, reservations, refunds, returns.

They are in several databases, each read in one snapshot: read them when the services have come to rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from services.checks.reading import read
from services.checks.stock_books import RESERVATIONS, RETURNED, Reservation, Returned, lines_of
from services.settings import ServiceSettings

ORDERS = "SELECT order_id, status FROM orders.orders"
REFUNDS = """
    SELECT refund.return_id, payment.order_id, sum(refund.amount)::bigint, refund.currency
    FROM payments.refunds refund JOIN payments.payments payment USING (payment_id)
    WHERE refund.return_id IS NOT NULL GROUP BY refund.return_id, payment.order_id, refund.currency"""
RETURNS = "SELECT return_id, order_id, amount_minor, currency FROM returns.returns"
VERDICTS = "SELECT return_id, verdict FROM warehouse.inspections"


class Refund(NamedTuple):
    """What was given back for a return, all of it together."""

    return_id: str
    order_id: str
    amount: int
    currency: str


class Return(NamedTuple):
    return_id: str
    order_id: str
    amount: int
    """What it gives back at most."""
    currency: str


@dataclass(frozen=True, slots=True)
class Books:
    orders: Mapping[str, str] = field(default_factory=dict)
    """The status of each."""
    reservations: Sequence[Reservation] = ()
    refunds: Sequence[Refund] = ()
    returns: Sequence[Return] = ()
    verdicts: Mapping[str, str] = field(default_factory=dict)
    """By return."""
    returned: Sequence[Returned] = ()
    """What came back and was put away."""


async def read_books(settings: ServiceSettings) -> Books:
    (orders,) = await read(settings.database_of("order"), ORDERS)
    reservations, verdicts, returned = await read(settings.database_of("warehouse"), RESERVATIONS, VERDICTS, RETURNED)
    (refunds,) = await read(settings.database_of("payment"), REFUNDS)
    (returns,) = await read(settings.database_of("returns"), RETURNS)
    return Books(
        dict(orders),
        [Reservation(order_id, state, lines_of(lines)) for order_id, state, lines in reservations],
        [Refund(*row) for row in refunds],
        [Return(*row) for row in returns],
        dict(verdicts),
        [Returned(return_id, place, lines_of(lines)) for return_id, place, lines in returned],
    )
