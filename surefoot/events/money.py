"""Money: an exact amount in a currency, which no float ever touches.

On the wire it is `{"minor_units": 1999, "currency": "EUR"}`: an integer survives every JSON parser there is, as long as
it stays below 2**53, which is checked here. In Python it is a `Decimal` with exactly the currency's decimals. A float
is refused by its type, before its value is looked at: 19.99 is already wrong when it arrives.

Currencies are those of ISO 4217, list one, as of January 2026 (the Bulgarian lev has become the euro, the Caribbean
guilder has replaced the Antillean one), without the codes that have no minor unit: precious metals, bond units,
testing. A wrong number of decimals is off by a factor of ten or a hundred, so a currency that is not listed is refused
rather than guessed to have two.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation
from types import MappingProxyType
from typing import Any, NoReturn, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from surefoot.errors import FloatMoney, InvalidEvent, SurefootError

_NO_DECIMALS = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"

_TWO_DECIMALS = """
    AED AFN ALL AMD AOA ARS AUD AWG AZN
    BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD
    CAD CDF CHE CHF CHW CNY COP COU CRC CUP CVE CZK
    DKK DOP DZD EGP ERN ETB EUR FJD FKP
    GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF
    IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT
    LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN
    NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB
    SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL
    THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS
    VED VES WST XAD XCD XCG YER ZAR ZMW ZWG
"""

_THREE_DECIMALS = "BHD IQD JOD KWD LYD OMR TND"

_FOUR_DECIMALS = "CLF UYW"

MINOR_UNIT_DIGITS: Mapping[str, int] = MappingProxyType(
    {
        code: digits
        for digits, codes in ((0, _NO_DECIMALS), (2, _TWO_DECIMALS), (3, _THREE_DECIMALS), (4, _FOUR_DECIMALS))
        for code in codes.split()
    }
)
"""Currency code → decimals: JPY 0, EUR 2, KWD 3."""


MAX_MINOR_UNITS = 2**53 - 1

# Arithmetic of our own: the caller's decimal context may round to few digits, and would do so without a word.
_EXACT = Context(prec=34, traps=[Inexact, InvalidOperation])
_ONE_MINOR_UNIT = {digits: Decimal((0, (1,), -digits)) for digits in set(MINOR_UNIT_DIGITS.values())}


class InvalidMoney(InvalidEvent, ValueError):
    """An amount of money cannot be held exactly in its currency."""


class CurrencyMismatch(SurefootError, TypeError):
    """Amounts in different currencies cannot be added or compared: convert one of them first."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Money:
    currency: str
    minor_units: int

    def __init__(self, amount: Decimal | int, currency: str) -> None:
        if isinstance(amount, bool) or not isinstance(amount, Decimal | int):
            _refuse(amount)
        digits = _digits(currency)
        decimal = Decimal(amount)
        if not decimal.is_finite():
            raise InvalidMoney("An amount of money must be a number: NaN and infinity are none.")
        try:
            exact = decimal.quantize(_ONE_MINOR_UNIT[digits], context=_EXACT)
        except Inexact:
            raise InvalidMoney(
                f"An amount in {currency} has at most {digits} decimals, and this one has more: round it first, "
                "in the way your business rounds."
            ) from None
        except InvalidOperation:
            raise InvalidMoney(_OUT_OF_RANGE) from None
        self._fill(int(exact.scaleb(digits, context=_EXACT)), currency)

    @classmethod
    def minor(cls, minor_units: int, currency: str) -> Self:
        """The amount as a whole number of the currency's smallest unit: `Money.minor(1999, "EUR")` is 19.99 EUR."""
        if type(minor_units) is not int:
            _refuse(minor_units)
        money = object.__new__(cls)
        _digits(currency)
        money._fill(minor_units, currency)
        return money

    def _fill(self, minor_units: int, currency: str) -> None:
        if not -MAX_MINOR_UNITS <= minor_units <= MAX_MINOR_UNITS:
            raise InvalidMoney(_OUT_OF_RANGE)
        object.__setattr__(self, "currency", currency)
        object.__setattr__(self, "minor_units", minor_units)

    @property
    def amount(self) -> Decimal:
        """With exactly the currency's decimals."""
        return Decimal(self.minor_units).scaleb(-MINOR_UNIT_DIGITS[self.currency], context=_EXACT)

    def __repr__(self) -> str:
        return f"Money(amount={self.amount!r}, currency={self.currency!r})"

    def __add__(self, other: "Money") -> "Money":
        return Money.minor(self.minor_units + _same_currency(self, other), self.currency)

    def __sub__(self, other: "Money") -> "Money":
        return Money.minor(self.minor_units - _same_currency(self, other), self.currency)

    def __neg__(self) -> "Money":
        return Money.minor(-self.minor_units, self.currency)

    def __lt__(self, other: "Money") -> bool:
        return self.minor_units < _same_currency(self, other)

    def __le__(self, other: "Money") -> bool:
        return self.minor_units <= _same_currency(self, other)

    def __gt__(self, other: "Money") -> bool:
        return self.minor_units > _same_currency(self, other)

    def __ge__(self, other: "Money") -> bool:
        return self.minor_units >= _same_currency(self, other)

    def __str__(self) -> str:
        return f"{self.amount:f} {self.currency}"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            _validate,
            serialization=core_schema.plain_serializer_function_ser_schema(_serialise),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {
            "type": "object",
            "title": "Money",
            "description": "An amount as a whole number of the currency's minor unit: 1999 EUR is 19.99 EUR.",
            "properties": {
                "minor_units": {"type": "integer", "minimum": -MAX_MINOR_UNITS, "maximum": MAX_MINOR_UNITS},
                "currency": {"type": "string", "pattern": "^[A-Z]{3}$"},
            },
            "required": ["minor_units", "currency"],
        }


_OUT_OF_RANGE = (
    f"An amount of money must be a number of at most {MAX_MINOR_UNITS} minor units either way, "
    "because larger ones do not survive every JSON parser."
)


def _digits(currency: object) -> int:
    digits = MINOR_UNIT_DIGITS.get(currency) if isinstance(currency, str) else None
    if digits is None:
        raise InvalidMoney(
            "The currency is not an active ISO 4217 code in capital letters, so its number of decimals is unknown: "
            "use a code such as EUR."
        )
    return digits


def _refuse(amount: object) -> NoReturn:
    if isinstance(amount, float):
        raise FloatMoney(
            "An amount of money was given as a float, which cannot hold cents exactly: "
            'give Decimal("19.99") or Money.minor(1999, "EUR").'
        )
    raise InvalidMoney(
        f"An amount of money must be a Decimal or an int, not a {type(amount).__name__}: "
        'give Decimal("19.99") or Money.minor(1999, "EUR").'
    )


def _same_currency(ours: Money, other: object) -> int:
    if not isinstance(other, Money):
        raise CurrencyMismatch(f"Money can be added to or compared with money only, not with a {type(other).__name__}.")
    if ours.currency != other.currency:
        raise CurrencyMismatch(
            f"An amount in {ours.currency} and one in {other.currency} cannot be added or compared: "
            "convert one of them first."
        )
    return other.minor_units


def _validate(value: object) -> Money:
    """What pydantic calls for a field of type Money, with Python values and with parsed JSON alike."""
    if isinstance(value, Money):
        return value
    if isinstance(value, float):
        _refuse(value)
    if not isinstance(value, dict | Mapping):  # dict first: asking an abstract class is slow
        raise InvalidMoney('Money must be a Money or an object such as {"minor_units": 1999, "currency": "EUR"}.')
    if isinstance(value.get("amount"), float):
        _refuse(value["amount"])
    if "minor_units" not in value or "currency" not in value:
        raise InvalidMoney('Money needs both members, as in {"minor_units": 1999, "currency": "EUR"}.')
    return Money.minor(value["minor_units"], value["currency"])


def _serialise(value: Any) -> Any:
    # A value that is no Money got in around validation. It is passed on as it is, so that the check of what was
    # written (see encode_data) refuses it by name; an error raised here would lose its type inside pydantic.
    if isinstance(value, Money):
        return {"minor_units": value.minor_units, "currency": value.currency}
    return value
