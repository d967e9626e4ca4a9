"""Moves that make sense, and the statements they become: all of it without a database."""

import re
from decimal import Decimal
from typing import Any

import pytest

from services.ledger import InvalidMove, InvalidName, Move, statements
from services.ledger.statements import Statement
from surefoot.errors import FloatMoney
from surefoot.events import Money
from tests.support.corpus import each_of

FIVE = Money(Decimal("5.00"), "EUR")


def test_a_transfer_is_one_statement_with_its_values_beside_it() -> None:
    statement = statements.move(Move("op", "wallet", "shop", FIVE))
    assert statement.parameters == {
        "operation_id": "op",
        "giver": "wallet",
        "taker": "shop",
        "amount": 500,
        "currency": "EUR",
        "inside": 2,
        "outside": None,
        "shown": "wallet",
    }


@pytest.mark.parametrize(
    ("source", "target", "sides"),
    [(None, "wallet", ("outside:EUR", "wallet")), ("wallet", None, ("wallet", "outside:EUR"))],
)
def test_what_comes_or_goes_has_the_world_outside_on_the_other_side(
    source: str | None, target: str | None, sides: tuple[str, str]
) -> None:
    parameters = statements.move(Move("op", source, target, FIVE)).parameters
    assert (parameters["giver"], parameters["taker"]) == sides
    assert (parameters["inside"], parameters["outside"], parameters["shown"]) == (1, "outside:EUR", "wallet")


def test_the_statement_has_its_conditions_its_claim_and_its_order_in_it() -> None:
    sql = statements.move(Move("op", "wallet", "shop", FIVE)).sql
    for protection in (
        "balance >= - change",
        "balance <= coalesce(cap, 9007199254740991) - change",
        "ON CONFLICT (operation_id) DO NOTHING",
        "ORDER BY account.account_id FOR NO KEY UPDATE OF account",
    ):
        assert sql.count(protection) == 1


def test_nothing_of_a_value_is_ever_in_the_text() -> None:
    nasty = "'; DROP TABLE ledger.entries; --"
    plain = statements.move(Move("op", "wallet", "shop", FIVE))
    assert statements.move(Move(nasty, nasty + "1", nasty, FIVE)).sql == plain.sql


@each_of(
    "statement",
    [
        statements.move(Move("op", "wallet", "shop", FIVE)),
        statements.first_outcome(Move("op", "wallet", "shop", FIVE)),
        statements.open_account("wallet", "EUR", 500),
        statements.balance("wallet"),
        statements.freeze("wallet"),
        statements.release("wallet"),
        statements.lines("wallet", 10),
    ],
)
def test_every_statement_has_a_value_for_each_name_and_no_other(statement: Statement) -> None:
    assert set(re.findall(r"(?<!:):(\w+)", statement.sql)) == statement.parameters.keys()


def test_a_float_is_no_amount() -> None:
    wrong: Any = 5.0
    with pytest.raises(FloatMoney):
        Move("op", "a", None, wrong)
    with pytest.raises(FloatMoney):
        Money(wrong, "EUR")
    with pytest.raises(FloatMoney):
        Money.minor(wrong, "EUR")


def test_an_amount_without_its_currency_is_refused() -> None:
    wrong: Any = Decimal("5.00")
    with pytest.raises(InvalidMove, match="Money"):
        Move("op", "a", None, wrong)


@pytest.mark.parametrize(
    ("source", "target", "amount"),
    [("a", None, Money(0, "EUR")), ("a", None, Money(-1, "EUR")), ("a", "a", FIVE), (None, None, FIVE)],
)
def test_moves_that_make_no_sense_are_refused(source: str | None, target: str | None, amount: Money) -> None:
    with pytest.raises(InvalidMove):
        Move("op", source, target, amount)


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "\ud800", "a" * 201])
def test_names_that_the_database_would_choke_on_are_refused_before_it_sees_them(name: str) -> None:
    with pytest.raises(InvalidName, match="An operation's id must be 1 to 200 printable characters"):
        Move(name, "a", "b", FIVE)
    with pytest.raises(InvalidName, match="An account's name must be"):
        Move("op", "a", name, FIVE)


def test_nobody_speaks_for_the_world_outside() -> None:
    with pytest.raises(InvalidName, match="leave the account out"):
        Move("op", "outside:EUR", "a", FIVE)
