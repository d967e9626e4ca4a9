"""The checker across the services' books finds what is planted, and nothing in books that are right."""

from dataclasses import replace

from services.checks.flows import Books, Refund, Return, Violation, findings
from services.checks.stock import Reservation, Returned
from tests.support.corpus import each_of

TWO = (("table", 2),)
ONE = (("table", 1),)
# o-1 was shipped, and came back in two parts: one on the shelf for all of its money, one damaged, for half. o-2 is set
# aside, o-3 was put back, o-4 was cancelled before that, o-5 waits for its money; of o-6 a return was not accepted.
RIGHT = Books(
    orders={
        "o-1": "PROCESSING",
        "o-2": "PROCESSING",
        "o-3": "CANCELLED",
        "o-4": "CANCELLED",
        "o-5": "PENDING_PAYMENT",
        "o-6": "PROCESSING",
    },
    reservations=[
        Reservation("o-1", "SHIPPED", TWO),
        Reservation("o-2", "RESERVED", ONE),
        Reservation("o-3", "RELEASED", ONE),
        Reservation("o-6", "SHIPPED", ONE),
    ],
    refunds=[Refund("r-1", "o-1", 1000, "EUR"), Refund("r-2", "o-1", 500, "EUR")],
    returns=[
        Return("r-1", "o-1", 1000, "EUR"),
        Return("r-2", "o-1", 1000, "EUR"),
        Return("r-6", "o-6", 1000, "EUR"),
    ],
    verdicts={"r-1": "APPROVED", "r-2": "DAMAGED", "r-6": "REJECTED"},
    returned=[Returned("r-1", "SHELF", ONE), Returned("r-2", "QUARANTINE", ONE)],
)


def with_order(order_id: str, status: str) -> Books:
    return replace(RIGHT, orders={**RIGHT.orders, order_id: status})


def with_goods(*more: Reservation) -> Books:
    changed = {one.order_id for one in more}
    return replace(RIGHT, reservations=[*(one for one in RIGHT.reservations if one.order_id not in changed), *more])


def with_refund(refund: Refund) -> Books:
    return replace(RIGHT, refunds=[*RIGHT.refunds, refund])


def test_right_books_have_no_findings() -> None:
    assert findings(RIGHT) == []
    assert findings(Books()) == []


@each_of(
    ("books", "violation", "words"),
    [
        (with_order("o-2", "CANCELLED"), "kept_for_nothing", "RESERVED for o-2, which is CANCELLED"),
        (with_order("o-6", "CANCELLED"), "kept_for_nothing", "SHIPPED for o-6, which is CANCELLED"),
        (with_order("o-2", "PENDING_PAYMENT"), "kept_for_nothing", "o-2, which is PENDING_PAYMENT"),
        (with_goods(Reservation("o-9", "RESERVED", ONE)), "kept_for_nothing", "o-9, which is no order"),
        (with_order("o-9", "PROCESSING"), "nothing_kept", "order o-9 is PROCESSING, and no goods"),
        (with_goods(Reservation("o-2", "RELEASED", ONE)), "nothing_kept", "RELEASED for o-2, which is PROCESSING"),
        (with_order("o-3", "PAID"), "nothing_kept", "RELEASED for o-3, which is PAID"),
        (with_refund(Refund("r-9", "o-1", 1, "EUR")), "refunded_for_nothing", "r-9, which is no return"),
        (with_refund(Refund("r-2", "o-6", 1, "EUR")), "refunded_for_nothing", "r-2, which is a return of o-1"),
        (with_refund(Refund("r-6", "o-6", 1, "EUR")), "refunded_for_nothing", "r-6, which was not accepted"),
        (with_refund(Refund("r-2", "o-1", 1001, "EUR")), "refunded_too_much", "which is worth 1000 EUR"),
        (with_refund(Refund("r-2", "o-1", 1, "USD")), "refunded_too_much", "which is worth 1000 EUR"),
        (
            replace(RIGHT, returned=[*RIGHT.returned, Returned("r-9", "SHELF", ONE)]),
            "never_left",
            "r-9, which is no return",
        ),
        (
            replace(RIGHT, returned=[Returned("r-1", "SHELF", TWO), *RIGHT.returned[1:]]),
            "never_left",
            "3 of table came back of o-1, and 2 had been shipped",
        ),
        (
            replace(RIGHT, returned=[*RIGHT.returned, Returned("r-6", "SHELF", (("lamp", 1),))]),
            "never_left",
            "1 of lamp came back of o-6, and 0 had been shipped",
        ),
        (
            with_goods(Reservation("o-1", "RESERVED", TWO)),
            "never_left",
            "2 of table came back of o-1, and 0 had been shipped",
        ),
    ],
)
def test_a_planted_violation_is_found_and_nothing_else(books: Books, violation: Violation, words: str) -> None:
    (found,) = findings(books)
    assert found.violation == violation
    assert words in found.sentence
