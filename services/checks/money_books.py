"""The books that money is in, as plain values for the checker: orders, payments, refunds, and the provider's own.

Each database is read in one snapshot, but they are several: read them when the services have come to rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from services.checks.reading import read
from services.settings import ServiceSettings

ORDERS = "SELECT order_id, status, total_minor, currency FROM orders.orders"
PAYMENTS = "SELECT payment_id, order_id, status, amount, refunded, currency, charge_id FROM payments.payments"
REFUNDS = "SELECT refund_request_id, payment_id, return_id, status, amount, currency FROM payments.refunds"
# What the payments API has charged is no order's: see charges_books.
CHARGES = r"""
    SELECT key, charge_id, order_id, status, amount, refunded, currency FROM provider.charges
    WHERE order_id IS NULL OR order_id NOT LIKE 'ch\_%'"""
GIVEN_BACK = r"""
    SELECT refund_request_id, charge_id, refund.amount, refund.currency
    FROM provider.refunds AS refund JOIN provider.charges AS charge USING (charge_id)
    WHERE order_id NOT LIKE 'ch\_%'"""


class Order(NamedTuple):
    order_id: str
    status: str
    total: int
    currency: str


class Payment(NamedTuple):
    payment_id: str
    order_id: str
    status: str
    amount: int
    refunded: int
    currency: str
    charge_id: str | None


class Refund(NamedTuple):
    """Given back, as the payment service has written it down."""

    refund_request_id: str
    payment_id: str
    return_id: str | None
    status: str
    amount: int
    currency: str


class Charge(NamedTuple):
    """As the provider has it. Without a `charge_id` and an order it is a tombstone, and no money was in it."""

    key: str
    charge_id: str | None
    order_id: str | None
    status: str
    amount: int | None
    refunded: int
    currency: str | None

    @property
    def taken(self) -> int:
        return 0 if self.status == "DECLINED" else self.amount or 0

    @property
    def kept(self) -> int:
        return self.taken - self.refunded


class GivenBack(NamedTuple):
    """Given back, as the provider has it."""

    refund_request_id: str
    charge_id: str
    amount: int
    currency: str


@dataclass(frozen=True, slots=True)
class Books:
    orders: Sequence[Order] = ()
    payments: Sequence[Payment] = ()
    refunds: Sequence[Refund] = ()
    charges: Sequence[Charge] = ()
    given_back: Sequence[GivenBack] = ()


async def read_books(settings: ServiceSettings) -> Books:
    """From the databases of the order and the payment service, and of the provider."""
    (orders,) = await read(settings.database_of("order"), ORDERS)
    payments, refunds = await read(settings.database_of("payment"), PAYMENTS, REFUNDS)
    charges, given_back = await read(settings.database_of("provider"), CHARGES, GIVEN_BACK)
    return Books(
        [Order(*row) for row in orders],
        [Payment(*row) for row in payments],
        [Refund(*row) for row in refunds],
        [Charge(*row) for row in charges],
        [GivenBack(*row) for row in given_back],
    )
