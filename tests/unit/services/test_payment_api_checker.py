"""The checker of charges finds nothing in books that add up, and each kind of trouble that is planted in them."""

from dataclasses import replace
from typing import Any

from services.checks.charges import Books, LedgerLine, OurRefund, Ours, findings
from services.checks.money import Charge, GivenBack
from tests.support.corpus import each_of

SOUND = Books(
    ours=[
        Ours("ch_1", "acme", "CAPTURED", 2000, 500, "EUR", "t-1"),
        Ours("ch_2", "acme", "DECLINED", 900, 0, "EUR", None),
        Ours("ch_3", "bolt", "REFUNDED", 700, 700, "JPY", "t-3"),
        Ours("ch_4", "bolt", "VOIDED", 100, 0, "EUR", None),
    ],
    refunds=[
        OurRefund("re_1", "ch_1", "REFUNDED", 500, "EUR"),
        OurRefund("re_2", "ch_1", "REFUSED", 300, "EUR"),
        OurRefund("ch_3:elsewhere:700", "ch_3", "REFUNDED", 700, "JPY"),
    ],
    theirs=[
        Charge("k-1", "t-1", "ch_1", "CAPTURED", 2000, 500, "EUR"),
        Charge("k-2", "t-2", "ch_2", "DECLINED", 900, 0, "EUR"),
        Charge("k-3", "t-3", "ch_3", "CAPTURED", 700, 700, "JPY"),
    ],
    given_back=[GivenBack("re_1", "t-1", 500, "EUR"), GivenBack("by-hand", "t-3", 700, "JPY")],
    lines=[
        LedgerLine("ch_1", "acme/main-EUR", 2000, "EUR"),
        LedgerLine("re_1", "acme/main-EUR", -500, "EUR"),
        LedgerLine("re_2", "acme/main-EUR", -300, "EUR"),
        LedgerLine("re_2:refused", "acme/main-EUR", 300, "EUR"),
        LedgerLine("ch_3", "bolt/main-JPY", 700, "JPY"),
        LedgerLine("ch_3:elsewhere:700", "bolt/main-JPY", -700, "JPY"),
    ],
)


def changed(part: str, position: int, **values: Any) -> Books:
    """The sound books with one row changed."""
    rows = list(getattr(SOUND, part))
    rows[position] = rows[position]._replace(**values)
    return replace(SOUND, **{part: rows})


def added(part: str, row: Any) -> Books:
    return replace(SOUND, **{part: [*getattr(SOUND, part), row]})


def without(part: str, position: int) -> Books:
    rows = list(getattr(SOUND, part))
    del rows[position]
    return replace(SOUND, **{part: rows})


def violations(books: Books) -> set[str]:
    return {found.violation for found in findings(books)}


def test_books_that_add_up_have_no_findings() -> None:
    assert findings(SOUND) == []


@each_of(
    ("books", "violation"),
    [
        (added("theirs", Charge("k-1b", "t-1b", "ch_1", "CAPTURED", 2000, 0, "EUR")), "charged_twice"),
        (added("theirs", Charge("k-9", "t-9", "ch_9", "CAPTURED", 10, 0, "EUR")), "unknown_charge"),
        (changed("theirs", 0, amount=2001), "disagreement"),
        (changed("theirs", 0, refunded=0), "disagreement"),
        (changed("theirs", 1, status="CAPTURED"), "disagreement"),
        (changed("ours", 0, gateway_txn_id="t-other"), "disagreement"),
        (without("theirs", 0), "disagreement"),
        (without("given_back", 0), "disagreement"),
        (changed("given_back", 0, amount=499), "disagreement"),
        (changed("given_back", 1, refund_request_id="re_2"), "disagreement"),
        (changed("ours", 1, status="PENDING"), "unfinished"),
        (changed("refunds", 0, status="PENDING"), "unfinished"),
        (without("lines", 0), "not_on_the_ledger"),
        (added("lines", LedgerLine("ch_1", "acme/main-EUR", 2000, "EUR")), "not_on_the_ledger"),
        (added("lines", LedgerLine("ch_2", "acme/main-EUR", 900, "EUR")), "not_on_the_ledger"),
        (added("lines", LedgerLine("ch_9", "acme/main-EUR", 900, "EUR")), "not_on_the_ledger"),
        (without("lines", 1), "not_on_the_ledger"),
        (without("lines", 3), "not_on_the_ledger"),
    ],
)
def test_each_kind_of_trouble_is_found(books: Books, violation: str) -> None:
    assert violation in violations(books)
