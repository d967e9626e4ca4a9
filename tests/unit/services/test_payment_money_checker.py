"""The checker of money finds nothing in books that add up, and each kind of trouble that is planted in them."""

from dataclasses import replace
from typing import Any

import pytest

from services.checks.money import Books, Charge, GivenBack, Order, Payment, Refund, findings
from tests.support.corpus import each_of

SOUND = Books(
    orders=[
        Order("o-paid", "PROCESSING", 2000, "EUR"),
        Order("o-cancelled", "CANCELLED", 3000, "EUR"),
        Order("o-declined", "CANCELLED", 500, "EUR"),
        Order("o-returned", "PROCESSING", 4000, "EUR"),
        Order("o-voided", "CANCELLED", 700, "EUR"),
        Order("o-yen", "PAID", 900, "JPY"),
    ],
    payments=[
        Payment("p-1", "o-paid", "CAPTURED", 2000, 0, "EUR", "c-1"),
        Payment("p-2", "o-cancelled", "REFUNDED", 3000, 3000, "EUR", "c-2"),
        Payment("p-3", "o-declined", "DECLINED", 500, 0, "EUR", None),
        Payment("p-4", "o-returned", "CAPTURED", 4000, 1500, "EUR", "c-4"),
        Payment("p-5", "o-voided", "VOIDED", 700, 0, "EUR", None),
        Payment("p-6", "o-yen", "CAPTURED", 900, 0, "JPY", "c-6"),
    ],
    refunds=[
        Refund("void:k-2", "p-2", None, "REFUNDED", 3000, "EUR"),
        Refund("return:1", "p-4", "r-1", "REFUNDED", 1500, "EUR"),
    ],
    charges=[
        Charge("k-1", "c-1", "o-paid", "CAPTURED", 2000, 0, "EUR"),
        Charge("k-2", "c-2", "o-cancelled", "VOIDED", 3000, 3000, "EUR"),
        Charge("k-3", "c-3", "o-declined", "DECLINED", 500, 0, "EUR"),
        Charge("k-4", "c-4", "o-returned", "CAPTURED", 4000, 1500, "EUR"),
        Charge("k-5", None, None, "VOIDED", None, 0, None),
        Charge("k-6", "c-6", "o-yen", "CAPTURED", 900, 0, "JPY"),
    ],
    given_back=[GivenBack("void:k-2", "c-2", 3000, "EUR"), GivenBack("return:1", "c-4", 1500, "EUR")],
)


def changed(part: str, position: int, **values: Any) -> Books:
    """The sound books with one row changed."""
    rows = list(getattr(SOUND, part))
    rows[position] = rows[position]._replace(**values)
    return replace(SOUND, **{part: rows})


def added(**rows: Any) -> Books:
    return replace(SOUND, **{part: [*getattr(SOUND, part), row] for part, row in rows.items()})


def without(part: str, position: int) -> Books:
    rows = list(getattr(SOUND, part))
    del rows[position]
    return replace(SOUND, **{part: rows})


def violations(books: Books) -> set[str]:
    return {finding.violation for finding in findings(books)}


def test_books_that_add_up_have_no_findings() -> None:
    assert findings(SOUND) == []
    assert findings(Books()) == []


AGAIN = Charge("k-7", "c-7", "o-cancelled", "VOIDED", 3000, 3000, "EUR")
STRAY = Charge("k-8", "c-8", "o-unknown", "CAPTURED", 100, 0, "EUR")
BACK_AGAIN = GivenBack("void:k-7", "c-7", 3000, "EUR")


@each_of(
    ("books", "expected"),
    [
        pytest.param(
            added(charges=AGAIN, given_back=BACK_AGAIN),
            {"charged_twice", "disagreement"},
            id="charged twice, though given back",
        ),
        pytest.param(changed("orders", 0, total=2001), {"unpaid", "unbalanced"}, id="a cent too little was taken"),
        pytest.param(
            changed("orders", 0, status="CANCELLED"), {"not_given_back", "unbalanced"}, id="cancelled and kept"
        ),
        pytest.param(changed("orders", 2, status="PROCESSING"), {"unpaid", "unbalanced"}, id="delivered and not paid"),
        pytest.param(
            changed("orders", 0, status="PENDING_PAYMENT"), {"unfinished", "unbalanced"}, id="paid and never told"
        ),
        pytest.param(without("orders", 0), {"kept_for_nothing", "unbalanced"}, id="money of no order"),
        pytest.param(
            added(charges=STRAY), {"kept_for_nothing", "unbalanced", "disagreement"}, id="a charge that nobody knows"
        ),
        pytest.param(
            changed("charges", 5, currency="USD"),
            {"unpaid", "kept_for_nothing", "unbalanced", "disagreement"},
            id="taken in another currency",
        ),
        pytest.param(without("given_back", 0), {"ledger", "disagreement"}, id="given back on one side only"),
        pytest.param(
            added(given_back=GivenBack("void:k-9", "c-9", 5, "EUR")),
            {"ledger", "disagreement"},
            id="given back from no charge",
        ),
        pytest.param(
            changed("charges", 1, refunded=2999),
            {"ledger", "disagreement", "not_given_back", "unbalanced"},
            id="a cent of a void was kept",
        ),
        pytest.param(without("refunds", 1), {"unpaid", "unbalanced", "disagreement"}, id="a refund not written down"),
        pytest.param(changed("refunds", 0, amount=2999), {"disagreement"}, id="a refund written down wrong"),
        pytest.param(
            changed("refunds", 1, status="PENDING"),
            {"unpaid", "unbalanced", "disagreement", "unfinished"},
            id="a refund never finished",
        ),
        pytest.param(changed("payments", 4, status="PENDING"), {"unfinished"}, id="a payment never answered"),
        pytest.param(changed("payments", 0, amount=1999), {"disagreement"}, id="a payment written down wrong"),
        pytest.param(changed("payments", 0, charge_id=None), {"disagreement"}, id="a charge that a payment forgot"),
        pytest.param(changed("payments", 2, charge_id="c-3"), {"disagreement"}, id="a decline taken for a charge"),
    ],
)
def test_a_planted_violation_is_found(books: Books, expected: set[str]) -> None:
    assert violations(books) == expected


def test_more_given_back_than_taken_is_found() -> None:
    books = replace(
        changed("charges", 0, refunded=2100), given_back=[*SOUND.given_back, GivenBack("x", "c-1", 2100, "EUR")]
    )
    sentences = [finding.sentence for finding in findings(books) if finding.violation == "ledger"]
    assert sentences == ["charge k-1 took 2000 and gave back 2100"]


def test_a_finding_says_which_order_and_how_much() -> None:
    sentences = [finding.sentence for finding in findings(changed("orders", 0, status="CANCELLED"))]
    assert sentences == [
        "order o-paid was cancelled, and 2000 was kept",
        "2000 minor units of EUR more were kept than what was delivered costs",
    ]
