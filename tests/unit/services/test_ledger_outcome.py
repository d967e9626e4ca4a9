"""Why a balance is not changed, and which of the reasons are worth another try."""

from decimal import Decimal
from typing import Any

import pytest

from services.ledger import AccountFrozen, InvalidMove, Refused
from services.ledger.moves import Move
from services.ledger.outcome import Account, Overtaken, Reason, reason_of, refusal
from surefoot.errors import FloatMoney
from surefoot.events import Money
from surefoot.events.money import CurrencyMismatch

FIVE = Money(Decimal("5.00"), "EUR")


def account(balance: int, cap: int | None = None, *, currency: str = "EUR", frozen: bool = False) -> Account:
    return Account("wallet", currency, balance, cap, frozen)


class DatabaseError(Exception):
    def __init__(self, sqlstate: str) -> None:
        super().__init__("the database says no")
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("sqlstate", "reason"),
    [
        ("40P01", "CONFLICT"),
        ("40001", "CONFLICT"),
        ("55P03", "THROTTLED"),
        ("57014", "THROTTLED"),
        ("53300", "THROTTLED"),
        ("53100", "THROTTLED"),
        ("23514", None),
        ("42P01", None),
        ("08006", None),
    ],
)
def test_the_databases_own_code_says_what_it_was(sqlstate: str, reason: Reason | None) -> None:
    assert reason_of(DatabaseError(sqlstate)) == reason


def test_an_error_that_wraps_the_databases_own_is_the_same() -> None:
    wrapped = RuntimeError("outer")
    wrapped.__cause__ = DatabaseError("40P01")
    assert reason_of(wrapped) == "CONFLICT"


def test_being_overtaken_is_a_conflict_and_a_bug_is_nothing() -> None:
    assert reason_of(Overtaken()) == "CONFLICT"
    assert reason_of(ValueError("a bug")) is None


def test_only_conflicts_and_throttling_are_worth_another_try() -> None:
    reasons: list[Reason] = ["INSUFFICIENT", "CAP_EXCEEDED", "CONFLICT", "THROTTLED"]
    assert [Refused(reason).is_retriable for reason in reasons] == [False, False, True, True]


def test_all_of_a_balance_can_be_taken_and_not_a_cent_more() -> None:
    assert refusal(FIVE, account(500), None) is None
    assert refusal(FIVE, account(499), None) == "INSUFFICIENT"


def test_an_account_can_be_filled_to_its_cap_and_not_a_cent_more() -> None:
    assert refusal(FIVE, None, account(500, cap=1000)) is None
    assert refusal(FIVE, None, account(501, cap=1000)) == "CAP_EXCEEDED"
    assert refusal(FIVE, None, account(10**12)) is None


def test_who_gives_need_not_be_below_its_cap() -> None:
    assert refusal(FIVE, account(2000, cap=1000), account(0)) is None


def test_frozen_accounts_and_other_currencies_are_errors_and_no_reasons() -> None:
    with pytest.raises(AccountFrozen, match="wallet is frozen"):
        refusal(FIVE, account(500, frozen=True), None)
    with pytest.raises(CurrencyMismatch, match="is in USD"):
        refusal(FIVE, None, account(0, currency="USD"))


def test_a_float_is_no_amount() -> None:
    wrong: Any = 5.0
    with pytest.raises(FloatMoney):
        Move("op", "a", None, wrong)
    with pytest.raises(FloatMoney):
        Money(wrong, "EUR")


@pytest.mark.parametrize(
    ("source", "target", "amount"),
    [("a", None, Money(0, "EUR")), ("a", None, Money(-1, "EUR")), ("a", "a", FIVE), (None, None, FIVE)],
)
def test_moves_that_make_no_sense_are_refused(source: str | None, target: str | None, amount: Money) -> None:
    with pytest.raises(InvalidMove):
        Move("op", source, target, amount)


def test_an_amount_without_its_currency_is_refused() -> None:
    wrong: Any = Decimal("5.00")
    with pytest.raises(InvalidMove, match="Money"):
        Move("op", "a", None, wrong)
