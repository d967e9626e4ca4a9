"""JSON values, and the many ways to write one down that mean the same."""

from decimal import Decimal
from typing import Any

from hypothesis import strategies as some

Value = Any
"""None, bool, Decimal, str, list or dict of such."""

_numbers = some.one_of(
    some.integers(-100, 100).map(Decimal),
    some.integers(-(10**40), 10**40).map(Decimal),
    some.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**6), max_value=10**6, places=3),
    some.tuples(some.integers(-999, 999), some.integers(-400, 400)).map(
        lambda parts: Decimal(f"{parts[0]}e{parts[1]}")
    ),
)
_texts = some.text(some.characters(exclude_categories=["Cs"]), max_size=6)
_names = some.one_of(some.sampled_from("abc"), _texts)
values = some.recursive(
    some.one_of(some.none(), some.booleans(), _numbers, _texts),
    lambda inner: some.one_of(some.lists(inner, max_size=3), some.dictionaries(_names, inner, max_size=4)),
    max_leaves=8,
)


@some.composite
def spellings(draw: some.DrawFn, value: Value) -> bytes:
    return _spell(draw, value).encode("utf-8")


def _spell(draw: some.DrawFn, value: Value) -> str:
    match value:
        case None:
            text = "null"
        case bool():
            text = str(value).lower()
        case Decimal():
            text = spell_number(draw, value)
        case str():
            text = _spell_text(draw, value)
        case list():
            text = "[" + ",".join(_spell(draw, each) for each in value) + "]"
        case dict():
            members = draw(some.permutations(list(value.items())))
            text = "{" + ",".join(f"{_spell_name(draw, name)}:{_spell(draw, each)}" for name, each in members) + "}"
    return draw(_space) + text + draw(_space)


_space = some.sampled_from(["", " ", "\n\t", "\r\n"])


def _spell_name(draw: some.DrawFn, name: str) -> str:
    return draw(_space) + _spell_text(draw, name) + draw(_space)


def spell_number(draw: some.DrawFn, number: Decimal) -> str:
    """As digits with more or fewer zeros and any exponent: 100, 100.0, 1e2, 0.1E+3 …"""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)) + "0" * draw(some.integers(0, 3))
    exponent -= len(text) - len(digits)
    point = draw(some.integers(0, len(text)))  # digits before the point
    power = exponent + len(text) - point
    whole, fraction = text[:point].lstrip("0") or "0", text[point:]
    spelled = ("-" if sign or (not any(digits) and draw(some.booleans())) else "") + whole
    if fraction or draw(some.booleans()):
        spelled += "." + (fraction or "0")
    if power or draw(some.booleans()):
        plus = "+" if power >= 0 and draw(some.booleans()) else ""
        spelled += draw(some.sampled_from("eE")) + plus + str(power)
    return spelled


def _spell_text(draw: some.DrawFn, text: str) -> str:
    escaped = draw(some.booleans())
    return '"' + "".join(_spell_character(character, escaped) for character in text) + '"'


def _spell_character(character: str, escaped: bool) -> str:
    if not escaped and character >= " " and character not in '"\\':
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))


def means_the_same(one: Value, other: Value) -> bool:
    """Equality that does not take true for 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(means_the_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(means_the_same, one, other))
    return type(one) is type(other) and bool(one == other)
