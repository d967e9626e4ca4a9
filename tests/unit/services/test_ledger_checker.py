"""The checker of the ledger finds what is planted, and nothing in books that are right."""

from dataclasses import replace

from services.checks.ledger import Account, Books, Entry, Operation, Violation, findings, unbalanced
from tests.support.corpus import each_of

# 10 EUR come in to the wallet, 4 go on to the shop, 1 leaves it; 50 are refused; 3 USD come in beside.
OPERATIONS = [
    Operation("in", "outside:EUR", "wallet", 1000, "EUR", "DONE"),
    Operation("pay", "wallet", "shop", 400, "EUR", "DONE"),
    Operation("out", "shop", "outside:EUR", 100, "EUR", "DONE"),
    Operation("much", "wallet", "shop", 5000, "EUR", "INSUFFICIENT"),
    Operation("dollars", "outside:USD", "other", 300, "USD", "DONE"),
]
ENTRIES = [
    Entry(1, "in", "outside:EUR", "EUR", -1000, None),
    Entry(2, "in", "wallet", "EUR", 1000, 1000),
    Entry(3, "pay", "wallet", "EUR", -400, 600),
    Entry(4, "pay", "shop", "EUR", 400, 400),
    Entry(5, "out", "shop", "EUR", -100, 300),
    Entry(6, "out", "outside:EUR", "EUR", 100, None),
    Entry(7, "dollars", "outside:USD", "USD", -300, None),
    Entry(8, "dollars", "other", "USD", 300, 300),
]
ACCOUNTS = [
    Account("outside:EUR", "outside", "EUR", None, None),
    Account("outside:USD", "outside", "USD", None, None),
    Account("wallet", "inside", "EUR", 600, None),
    Account("shop", "inside", "EUR", 300, 400),
    Account("other", "inside", "USD", 300, None),
    Account("empty", "inside", "EUR", 0, 0),
]
RIGHT = Books(ACCOUNTS, OPERATIONS, ENTRIES)


def changed(number: int, **changes: object) -> list[Entry]:
    return [entry._replace(**changes) if entry.number == number else entry for entry in ENTRIES]  # type: ignore[arg-type]


def account(account_id: str, **changes: object) -> list[Account]:
    return [one._replace(**changes) if one.account_id == account_id else one for one in ACCOUNTS]  # type: ignore[arg-type]


def test_books_that_are_right_are_found_right() -> None:
    assert findings(RIGHT) == []
    assert findings(Books()) == []


def test_entries_that_do_not_sum_to_zero_are_found_by_themselves() -> None:
    assert unbalanced(ENTRIES) == []
    (found,) = unbalanced(ENTRIES[1:])
    assert found.violation == "unbalanced"
    assert found.sentence == "the entries of in sum to 1000 minor units of EUR, and not to zero"


def test_what_is_balanced_only_over_currencies_is_not() -> None:
    found = unbalanced([Entry(1, "x", "a", "EUR", -100, 0), Entry(2, "x", "b", "USD", 100, 100)])
    assert [one.violation for one in found] == ["unbalanced", "unbalanced"]


@each_of(
    ("books", "violations"),
    [
        (replace(RIGHT, entries=ENTRIES[:-1]), {"unbalanced", "not_as_asked", "differs"}),
        (replace(RIGHT, entries=changed(6, change=99)), {"unbalanced", "not_as_asked"}),
        (replace(RIGHT, operations=[*OPERATIONS, OPERATIONS[0]]), {"moved_twice", "not_as_asked"}),
        (
            replace(RIGHT, entries=[*ENTRIES, *(entry._replace(number=9) for entry in ENTRIES[:2])]),
            {"moved_twice", "differs"},
        ),
        (replace(RIGHT, operations=OPERATIONS[1:]), {"not_as_asked"}),
        (replace(RIGHT, entries=[*ENTRIES[:2], *ENTRIES[6:]]), {"not_as_asked", "differs"}),
        (
            replace(
                RIGHT,
                entries=[
                    *ENTRIES,
                    Entry(9, "much", "wallet", "EUR", -5000, -4400),
                    Entry(10, "much", "shop", "EUR", 5000, 5300),
                ],
                accounts=[*account("wallet", balance=-4400)[:3], *account("shop", balance=5300)[3:]],
            ),
            {"not_as_asked", "below_zero", "above_cap"},
        ),
        (replace(RIGHT, accounts=account("wallet", balance=601)), {"differs"}),
        (replace(RIGHT, entries=changed(3, balance_after=599)), {"differs"}),
        (replace(RIGHT, accounts=account("shop", cap=399)), {"above_cap"}),
    ],
)
def test_what_is_wrong_is_found_and_named(books: Books, violations: set[Violation]) -> None:
    assert {found.violation for found in findings(books)} == violations
