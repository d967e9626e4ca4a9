"""JSON bodies that mean the same have one canonical text: what a retry may write differently is taken out. Pure.

The order of members, whitespace, escapes in texts and the forms of numbers do not matter: 100, 100.0 and 1e2 are one
number, at any size. Nor do the forms of money: in an object with an `amount` and a `currency` the amount is counted in
minor units, so that "19.9", "19.90" and 19.90 EUR are the same. The text is for hashing and is no JSON: where a number
is no small integer there is a list that begins with NaN, and where money is, one that begins with Infinity. No body can
have these itself, so two bodies have the same text only if they mean the same.
"""

import re
from json import JSONDecoder, JSONEncoder
from math import inf, nan
from typing import Any, NoReturn

from surefoot.events.currencies import MINOR_UNIT_DIGITS
from surefoot.events.json_text import is_nested_deeper
from surefoot.events.money import MAX_MINOR_UNITS

DEEPEST = 64
"""Levels of nesting. What is deeper has no canonical text: how deep a parser gets would depend on who calls it."""

_SMALL = 18
"""Integers of so many digits are written as they are. Larger ones are not written out: 1e999999 is three signs."""
_AMOUNT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")

Number = int | list[Any]
"""A small integer, or [nan, significant digits, exponent]."""


class _NotCanonical(ValueError):
    """The body has no one meaning, or none that can be told in bounded time."""


def canonical_json(body: bytes) -> bytes | None:
    """The canonical text; None if there is none: no JSON, a member twice in one object, or nested too deep."""
    if is_nested_deeper(body, DEEPEST):
        return None
    try:
        return _ENCODER.encode(_DECODER.decode(body.decode("utf-8"))).encode("ascii")
    except ValueError:
        return None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _NotCanonical  # which of the two is meant depends on the parser
    if "amount" in members and "currency" in members:
        minor_units = _minor_units(members["amount"], members["currency"])
        if minor_units is not None:
            members["amount"] = [inf, minor_units]
    return members


def _minor_units(amount: object, currency: object) -> int | None:
    """As `surefoot.events.Money` holds it; None if that would refuse it."""
    decimals = MINOR_UNIT_DIGITS.get(currency) if isinstance(currency, str) else None
    if decimals is None:
        return None
    if isinstance(amount, str) and _AMOUNT.fullmatch(amount):
        amount = _number(amount)
    if isinstance(amount, list) and amount and amount[0] is nan:
        _, digits, exponent = amount
    elif isinstance(amount, int) and not isinstance(amount, bool):
        digits, exponent = str(amount), 0
    else:
        return None
    if exponent + decimals < 0 or len(digits) + exponent + decimals > _SMALL:
        return None
    minor_units = int(digits + "0" * (exponent + decimals))
    return minor_units if -MAX_MINOR_UNITS <= minor_units <= MAX_MINOR_UNITS else None


def _integer(text: str) -> Number:
    return int(text) if len(text) <= _SMALL else _number(text)


def _number(text: str) -> Number:
    """By its digits, exactly: neither float nor a decimal context rounds it, and no exponent takes memory."""
    mantissa, _, power = text.lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    sign = "-" if whole.startswith("-") else ""
    digits = (whole + fraction).lstrip("-0")
    significant = digits.rstrip("0")
    if not significant:
        return 0
    if len(power) > _SMALL:
        raise _NotCanonical
    exponent = int(power or 0) - len(fraction) + len(digits) - len(significant)
    if 0 <= exponent <= _SMALL - len(significant):
        return int(sign + significant + "0" * exponent)
    return [nan, sign + significant, exponent]


def _refuse(constant: str) -> NoReturn:
    raise _NotCanonical(constant)  # NaN and Infinity: Python takes them, JSON has none


_DECODER = JSONDecoder(object_pairs_hook=_members, parse_int=_integer, parse_float=_number, parse_constant=_refuse)
_ENCODER = JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, check_circular=False)
