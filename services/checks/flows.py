"""The services' books fit each other: goods are set aside for orders that are processed, money goes back for returns
that there are, and no more comes back than has left.

What each service says of money and of stock may add up, and the order be cancelled all the same while its goods lie
aside for ever. Pure functions over the books of four services; `check()` reads them and runs all. They know nothing of
how any of them works. To be run when the services have come to rest.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from services.checks.checker import Finding, read
from services.checks.stock import RESERVATIONS, RETURNED, Reservation, Returned, lines_of
from services.settings import ServiceSettings

Violation = Literal["kept_for_nothing", "nothing_kept", "refunded_for_nothing", "refunded_too_much", "never_left"]
"""kept_for_nothing: goods are set aside, or have left, for what is no order under way. nothing_kept: an order was not
cancelled, and its goods were put back, or never set aside though it is being processed. refunded_for_nothing: money
went back for a return that is not there, is of another order, or was not accepted. refunded_too_much: more of it than
the return is worth. never_left: goods came back that were not shipped."""
Found = Finding[Violation]

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


KEPT = ("RESERVED", "SHIPPED")


async def check(settings: ServiceSettings) -> list[Found]:
    return findings(await read_books(settings))


def findings(books: Books) -> list[Found]:
    return [*orders_and_goods(books), *refunds_and_returns(books), *returned_and_shipped(books)]


def orders_and_goods(books: Books) -> Iterable[Found]:
    """Goods are set aside or shipped for the orders that are processed, and for no others; put back for those that were
    cancelled."""
    goods = {one.order_id: one.state for one in books.reservations}
    for order_id, state in goods.items():
        status = books.orders.get(order_id)
        if state in KEPT and status != "PROCESSING":
            words = "which is no order" if status is None else f"which is {status}"
            yield Finding("kept_for_nothing", f"goods are {state} for {order_id}, {words}")
        elif state not in KEPT and status not in ("CANCELLED", None):
            yield Finding("nothing_kept", f"goods were {state} for {order_id}, which is {status}")
    for order_id, status in books.orders.items():
        if status == "PROCESSING" and order_id not in goods:
            yield Finding("nothing_kept", f"order {order_id} is {status}, and no goods were ever set aside for it")


def refunds_and_returns(books: Books) -> Iterable[Found]:
    """What went back for a return went back for one of that order that was accepted, and not beyond its worth."""
    returns = {one.return_id: one for one in books.returns}
    for refund in books.refunds:
        known = returns.get(refund.return_id)
        gave = f"{refund.amount} {refund.currency} went back to the buyer of {refund.order_id} for {refund.return_id}"
        if known is None:
            yield Finding("refunded_for_nothing", f"{gave}, which is no return")
        elif known.order_id != refund.order_id:
            yield Finding("refunded_for_nothing", f"{gave}, which is a return of {known.order_id}")
        elif refund.currency != known.currency or refund.amount > known.amount:
            yield Finding("refunded_too_much", f"{gave}, which is worth {known.amount} {known.currency}")
        if books.verdicts.get(refund.return_id) == "REJECTED":
            yield Finding("refunded_for_nothing", f"{gave}, which was not accepted")


def returned_and_shipped(books: Books) -> Iterable[Found]:
    """Of each order and article, no more came back than had left."""
    order_of = {one.return_id: one.order_id for one in books.returns}
    back: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one in books.returned:
        order_id = order_of.get(one.return_id)
        if order_id is None:
            yield Finding("never_left", f"goods were put away for {one.return_id}, which is no return")
            continue
        for sku, quantity in one.lines:
            back[order_id][sku] += quantity
    shipped = {one.order_id: Counter(dict(one.lines)) for one in books.reservations if one.state == "SHIPPED"}
    for order_id, pieces in back.items():
        for sku, quantity in pieces.items():
            left = shipped.get(order_id, Counter())[sku]
            if quantity > left:
                yield Finding("never_left", f"{quantity} of {sku} came back of {order_id}, and {left} had been shipped")
