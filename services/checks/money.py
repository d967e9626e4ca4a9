"""Money adds up, to the minor unit: what the provider has taken and kept is what the orders under way cost.

Pure functions over the books of the order service, the payment service and the provider; `check()` reads them and runs
all. They know nothing of how any of them works. To be run when the services have come to rest.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from services.checks.checker import Finding, read
from services.settings import ServiceSettings

Violation = Literal[
    "charged_twice",
    "unpaid",
    "not_given_back",
    "kept_for_nothing",
    "ledger",
    "disagreement",
    "unfinished",
    "unbalanced",
]
"""charged_twice: the provider has taken an order's money more than once. unpaid: an order is being processed, and what
was kept for it is not what it costs. not_given_back: an order was cancelled, and money of it was kept.
kept_for_nothing: money was kept that no order knows of. ledger: the provider's own books do not add up. disagreement:
the payment service and the provider say different things. unfinished: something was begun, and never answered.
unbalanced: the sums differ."""
Found = Finding[Violation]

ORDERS = "SELECT order_id, status, total_minor, currency FROM orders.orders"
PAYMENTS = "SELECT payment_id, order_id, status, amount, refunded, currency, charge_id FROM payments.payments"
REFUNDS = "SELECT refund_request_id, payment_id, return_id, status, amount, currency FROM payments.refunds"
# What the payments API has charged is no order's: see `services.checks.charges`.
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


DELIVERED = ("PAID", "PROCESSING")


async def check(settings: ServiceSettings) -> list[Found]:
    return findings(await read_books(settings))


def findings(books: Books) -> list[Found]:
    return [
        *charged_twice(books),
        *orders_and_charges(books),
        *ledger(books),
        *disagreement(books),
        *unfinished(books),
        *unbalanced(books),
    ]


def charged_twice(books: Books) -> list[Found]:
    """Money is taken for an order once at most, even if it was given back in between."""
    charges = Counter(charge.order_id for charge in books.charges if charge.taken)
    return [
        Finding("charged_twice", f"order {order_id} was charged {times} times")
        for order_id, times in charges.items()
        if times > 1
    ]


def orders_and_charges(books: Books) -> Iterable[Found]:
    """For each order: what was kept is what it costs, less what its returns gave back; nothing if it was cancelled."""
    kept = _kept(books.charges)
    returned = _returned(books)
    orders = {order.order_id: order for order in books.orders}
    for order in books.orders:
        has = kept.get((order.order_id, order.currency), 0)
        if order.status in DELIVERED:
            costs = order.total - returned.get((order.order_id, order.currency), 0)
            if has != costs:
                yield Finding("unpaid", f"order {order.order_id} is {order.status}, costs {costs}, and {has} was kept")
        elif order.status == "CANCELLED" and has:
            yield Finding("not_given_back", f"order {order.order_id} was cancelled, and {has} was kept")
        elif has:
            yield Finding("unfinished", f"order {order.order_id} is {order.status}, and {has} was kept")
    for (order_id, currency), has in kept.items():
        known = orders.get(order_id)
        if has and (known is None or known.currency != currency):
            yield Finding("kept_for_nothing", f"{has} {currency} was kept for {order_id}, which is no order in it")


def ledger(books: Books) -> Iterable[Found]:
    """The provider itself: what a charge says was given back is what was, and not more than was taken."""
    sums: dict[str, int] = defaultdict(int)
    for refund in books.given_back:
        sums[refund.charge_id] += refund.amount
    for charge in books.charges:
        given_back = sums.pop(charge.charge_id, 0) if charge.charge_id else 0
        if given_back != charge.refunded:
            yield Finding("ledger", f"charge {charge.key} says {charge.refunded} was given back, and {given_back} was")
        if charge.kept < 0:
            yield Finding("ledger", f"charge {charge.key} took {charge.taken} and gave back {charge.refunded}")
        if charge.status == "VOIDED" and charge.kept:
            yield Finding("ledger", f"charge {charge.key} was voided, and {charge.kept} of it was kept")
    for charge_id in sums:
        yield Finding("ledger", f"money was given back from {charge_id}, which is no charge")


def disagreement(books: Books) -> Iterable[Found]:
    """Charge by charge and refund by refund, both sides know the same."""
    ours = {payment.charge_id: payment for payment in books.payments if payment.charge_id is not None}
    theirs = {charge.charge_id: charge for charge in books.charges if charge.charge_id is not None and charge.taken}
    for charge_id in ours.keys() - theirs.keys():
        payment = ours[charge_id]
        yield Finding("disagreement", f"payment {payment.payment_id} has charge {charge_id}, which took no money")
    for charge_id, charge in theirs.items():
        known = ours.get(charge_id)
        if known is None:
            yield Finding("disagreement", f"charge {charge_id} of {charge.order_id} is in nobody's payments")
            continue
        mine = (known.order_id, known.amount, known.refunded, known.currency)
        other = (charge.order_id, charge.amount, charge.refunded, charge.currency)
        if mine != other:
            yield Finding(
                "disagreement",
                f"payment {known.payment_id} (order, amount, refunded, currency) is {mine}, the provider has {other}",
            )
    yield from _refunds_disagree(books)


def _refunds_disagree(books: Books) -> Iterable[Found]:
    ours = {one.refund_request_id: one.amount for one in books.refunds if one.status == "REFUNDED"}
    theirs = {one.refund_request_id: one.amount for one in books.given_back}
    for request_id in sorted(ours.keys() | theirs.keys()):
        mine, other = ours.get(request_id), theirs.get(request_id)
        if mine != other:
            yield Finding("disagreement", f"refund {request_id} is {mine} here and {other} at the provider")


def unfinished(books: Books) -> Iterable[Found]:
    """Nothing is left that was asked for and never answered."""
    for payment in books.payments:
        if payment.status == "PENDING":
            yield Finding("unfinished", f"payment {payment.payment_id} of {payment.order_id} was never answered")
    for refund in books.refunds:
        if refund.status == "PENDING":
            yield Finding("unfinished", f"refund {refund.refund_request_id} was never answered")


def unbalanced(books: Books) -> Iterable[Found]:
    """The sums, from one end to the other: taken less given back = cost of what is delivered less returns' refunds."""
    returned = _returned(books)
    balance: Counter[str] = Counter()
    for charge in books.charges:
        balance[charge.currency or ""] += charge.kept
    for order in books.orders:
        if order.status in DELIVERED:
            balance[order.currency] -= order.total - returned.get((order.order_id, order.currency), 0)
    for currency, off in balance.items():
        if off:
            yield Finding("unbalanced", f"{off} minor units of {currency} more were kept than what was delivered costs")


def _kept(charges: Iterable[Charge]) -> dict[tuple[str, str], int]:
    kept: dict[tuple[str, str], int] = defaultdict(int)
    for charge in charges:
        if charge.order_id is not None and charge.currency is not None:
            kept[charge.order_id, charge.currency] += charge.kept
    return kept


def _returned(books: Books) -> dict[tuple[str, str], int]:
    """By order and currency, what its returns gave back."""
    order_of = {payment.payment_id: payment.order_id for payment in books.payments}
    returned: dict[tuple[str, str], int] = defaultdict(int)
    for refund in books.refunds:
        if refund.return_id is not None and refund.status == "REFUNDED":
            returned[order_of.get(refund.payment_id, ""), refund.currency] += refund.amount
    return returned
