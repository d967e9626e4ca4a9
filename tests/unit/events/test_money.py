"""Money: exact, in one currency, never a float."""

import copy
import pickle
from decimal import Decimal, localcontext

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from surefoot.errors import FloatMoney, InvalidEvent
from surefoot.events import Money
from surefoot.events.money import MAX_MINOR_UNITS, MINOR_UNIT_DIGITS, CurrencyMismatch, InvalidMoney
from tests.support.corpus import each_of

minor_units = st.integers(-MAX_MINOR_UNITS, MAX_MINOR_UNITS)
currencies = st.sampled_from(sorted(MINOR_UNIT_DIGITS))


class Price(BaseModel):
    amount: Money
    before: Money | None = None


def test_a_float_amount_is_refused() -> None:
    with pytest.raises(FloatMoney, match="cannot hold cents exactly"):
        Money(19.99, "EUR")  # type: ignore[arg-type]
    with pytest.raises(FloatMoney):
        Money.minor(1999.0, "EUR")  # type: ignore[arg-type]


def test_float_money_is_both_an_invalid_event_and_a_type_error() -> None:
    assert issubclass(FloatMoney, InvalidEvent)
    assert issubclass(FloatMoney, TypeError)


@pytest.mark.parametrize("amount", [True, "19.99", None, [1]])
def test_only_decimal_and_int_are_amounts(amount: object) -> None:
    with pytest.raises(InvalidMoney, match="must be a Decimal or an int"):
        Money(amount, "EUR")  # type: ignore[arg-type]
    with pytest.raises(InvalidMoney):
        Money.minor(amount, "EUR")  # type: ignore[arg-type]


@each_of("currency", ["XXX", "eur", "", "EURO", "XAU", "BGN", None, 978])
def test_an_unknown_currency_is_refused(currency: object) -> None:
    with pytest.raises(InvalidMoney, match="ISO 4217"):
        Money(1, currency)  # type: ignore[arg-type]


@each_of(
    ("amount", "currency", "minor"),
    [
        ("19.99", "EUR", 1999),
        ("-0.01", "USD", -1),
        ("500", "JPY", 500),
        ("500.00", "JPY", 500),  # zeros say nothing that would be lost
        ("1.234", "KWD", 1234),
        ("0.0001", "CLF", 1),
        ("1E+3", "EUR", 100000),
        ("-0.00", "EUR", 0),
        ("90071992547409.91", "EUR", MAX_MINOR_UNITS),
    ],
)
def test_an_amount_is_a_number_of_minor_units(amount: str, currency: str, minor: int) -> None:
    money = Money(Decimal(amount), currency)
    assert money.minor_units == minor
    assert money == Money.minor(minor, currency)
    assert hash(money) == hash(Money.minor(minor, currency))


@pytest.mark.parametrize(("amount", "currency"), [("0.001", "EUR"), ("0.5", "JPY"), ("1.2345", "KWD")])
def test_more_decimals_than_the_currency_has_are_refused(amount: str, currency: str) -> None:
    with pytest.raises(InvalidMoney, match="round it first"):
        Money(Decimal(amount), currency)


@pytest.mark.parametrize("amount", ["NaN", "sNaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_refused(amount: str) -> None:
    with pytest.raises(InvalidMoney, match="NaN and infinity"):
        Money(Decimal(amount), "EUR")


@pytest.mark.parametrize("amount", ["90071992547409.92", "-90071992547409.92", "1E+1000000"])
def test_what_a_json_parser_might_round_is_refused(amount: str) -> None:
    with pytest.raises(InvalidMoney, match="9007199254740991"):
        Money(Decimal(amount), "EUR")


def test_the_callers_decimal_context_does_not_round_money() -> None:
    with localcontext() as context:
        context.prec = 3
        money = Money(Decimal("123456.78"), "EUR")
        assert money.minor_units == 12345678
        assert (money + Money.minor(1, "EUR")).minor_units == 12345679
        assert str(money) == "123456.78 EUR"


def test_money_prints_with_the_decimals_of_its_currency() -> None:
    assert str(Money(5, "EUR")) == "5.00 EUR"
    assert str(Money(5, "JPY")) == "5 JPY"
    assert str(Money.minor(1, "KWD")) == "0.001 KWD"
    assert repr(Money(5, "EUR")) == "Money(amount=Decimal('5.00'), currency='EUR')"


def test_money_is_frozen_and_copies_as_it_is() -> None:
    money = Money.minor(1999, "EUR")
    with pytest.raises(AttributeError):
        money.minor_units = 0  # type: ignore[misc]
    assert copy.deepcopy(money) == money
    assert pickle.loads(pickle.dumps(money)).minor_units == 1999  # noqa: S301 - our own bytes


def test_different_currencies_are_neither_added_nor_compared() -> None:
    euro, dollar = Money(1, "EUR"), Money(1, "USD")
    assert euro != dollar
    for wrong in (lambda: euro + dollar, lambda: euro - dollar, lambda: euro < dollar, lambda: euro >= dollar):
        with pytest.raises(CurrencyMismatch, match="EUR and one in USD"):
            wrong()
    with pytest.raises(CurrencyMismatch, match="with money only"):
        euro + 1  # type: ignore[operator]


def test_a_sum_beyond_the_range_is_refused() -> None:
    with pytest.raises(InvalidMoney):
        Money.minor(MAX_MINOR_UNITS, "EUR") + Money.minor(1, "EUR")


@given(minor_units, currencies)
def test_amount_and_minor_units_are_the_same_money(minor: int, currency: str) -> None:
    money = Money.minor(minor, currency)
    assert Money(money.amount, currency) == money
    assert Money(money.amount, currency).minor_units == minor
    assert -money.amount.as_tuple().exponent == MINOR_UNIT_DIGITS[currency]  # type: ignore[operator]


@given(st.integers(-(2**40), 2**40), st.integers(-(2**40), 2**40))
def test_money_adds_and_compares_like_whole_numbers(one: int, other: int) -> None:
    a, b = Money.minor(one, "EUR"), Money.minor(other, "EUR")
    assert (a + b).minor_units == one + other
    assert (a - b).minor_units == one - other
    assert (-a).minor_units == -one
    assert (a < b, a <= b, a == b) == (one < other, one <= other, one == other)
    assert (a > b, a >= b) == (one > other, one >= other)


@given(minor_units, currencies)
def test_money_comes_back_from_json_as_it_was(minor: int, currency: str) -> None:
    price = Price(amount=Money.minor(minor, currency))
    assert price.model_dump_json() == f'{{"amount":{{"minor_units":{minor},"currency":"{currency}"}},"before":null}}'
    assert Price.model_validate_json(price.model_dump_json()) == price


def test_money_dumps_to_what_it_validates_from() -> None:
    price = Price(amount=Money.minor(1999, "EUR"))
    assert price.model_dump()["amount"] == {"minor_units": 1999, "currency": "EUR"}
    assert Price.model_validate(price.model_dump()) == price


@pytest.mark.parametrize(
    "amount",
    [19.99, {"minor_units": 1999.0, "currency": "EUR"}, {"amount": 19.99, "currency": "EUR"}, float("nan")],
)
def test_a_model_given_a_float_raises_float_money_itself(amount: object) -> None:
    with pytest.raises(FloatMoney):
        Price(amount=amount)
    with pytest.raises(FloatMoney):
        Price(amount=Money(1, "EUR"), before=amount)


@pytest.mark.parametrize("number", ["1999.0", "1e3", "19.99"])
def test_a_fraction_in_json_is_float_money_too(number: str) -> None:
    with pytest.raises(FloatMoney):
        Price.model_validate_json(f'{{"amount":{{"minor_units":{number},"currency":"EUR"}}}}')


@each_of(
    "amount",
    [
        "19.99 EUR",
        1999,
        {"minor_units": "1999", "currency": "EUR"},
        {"minor_units": True, "currency": "EUR"},
        {"minor_units": 2**53, "currency": "EUR"},
        {"minor_units": 1, "currency": "XXX"},
        {"minor_units": 1},
        {"currency": "EUR"},
        None,
    ],
)
def test_other_shapes_are_ordinary_validation_errors(amount: object) -> None:
    with pytest.raises(ValidationError):
        Price(amount=amount)


def test_members_that_a_newer_writer_added_are_ignored() -> None:
    assert Price.model_validate({"amount": {"minor_units": 1, "currency": "EUR", "rounding": "up"}}) == Price(
        amount=Money.minor(1, "EUR")
    )


def test_the_json_schema_says_what_is_on_the_wire() -> None:
    schema = Price.model_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate({"amount": {"minor_units": 1999, "currency": "EUR"}}, schema)
    for wrong in ({"minor_units": 19.99, "currency": "EUR"}, {"minor_units": 2**53, "currency": "EUR"}, 5):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"amount": wrong}, schema)


@each_of(
    ("currency", "digits"),
    [("EUR", 2), ("USD", 2), ("JPY", 0), ("ISK", 0), ("XOF", 0), ("KWD", 3), ("TND", 3), ("UYW", 4), ("XCG", 2)],
)
def test_the_table_has_the_decimals_of_iso_4217(currency: str, digits: int) -> None:
    assert MINOR_UNIT_DIGITS[currency] == digits


def test_the_table_has_all_active_currencies_and_no_withdrawn_one() -> None:
    # List one of January 2026, without the metals, bond units, SDR, SUCRE, ADB unit and the two X codes without money.
    assert len(MINOR_UNIT_DIGITS) == 165
    assert not {"BGN", "HRK", "ANG", "CUC", "SLL", "ZWL", "VEF", "XAU", "XDR", "XTS", "XXX"} & MINOR_UNIT_DIGITS.keys()
