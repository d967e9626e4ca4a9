"""Structured mode: a whole event as one JSON object in the record's value (CloudEvents JSON format 1.0).

The top level is scanned member by member, so that the text of `data` stays exactly as it was sent: parsing and writing
it again would round decimals, reorder members and lose which of two equal names was meant.
"""

import base64
import binascii
import json
import re
from typing import NamedTuple

from surefoot.events.envelope import CORE_ATTRIBUTES, BadRecord
from surefoot.events.text import is_json, is_nested_deeper

_SPACE = re.compile(r"[ \t\n\r]*")
_MAX_INTEGER = 2**31 - 1
_MAX_INTEGER_CHARACTERS = len("-2147483648")
MAX_DATA_LEVELS = 200
"""How deep lists and objects of data may lie within each other. Pydantic reads hardly any deeper in binary mode."""


class _OtherNumber:
    """Stands for a number that no attribute may be: a fraction, or far too long."""


def _refuse_constant(_: str) -> object:
    raise ValueError("NaN and Infinity are not JSON")


def _integer(digits: str) -> object:
    return int(digits) if len(digits) <= _MAX_INTEGER_CHARACTERS else _OtherNumber()


# A very long number is not read: converting it costs time squared, or is refused by Python. In data none is.
_attributes = json.JSONDecoder(
    parse_int=_integer, parse_float=lambda _: _OtherNumber(), parse_constant=_refuse_constant
)
_data = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=_refuse_constant)


class _Member(NamedTuple):
    value: object
    text: str


def read(value: bytes) -> tuple[dict[str, str], bytes | None]:
    """The attributes and the data of an event in JSON format."""
    # Counted, not left to the parser: how deep that one gets depends on the stack of whoever calls, and whether an
    # event can be identified must not.
    if is_nested_deeper(value, MAX_DATA_LEVELS + 1):
        raise BadRecord(
            "invalid_json",
            f"The event in JSON format is nested more than {MAX_DATA_LEVELS} levels deep: look at its producer.",
        )
    try:
        members = _members(value.decode("utf-8"))
    except ValueError:
        raise BadRecord(
            "invalid_json",
            "The record says that it is an event in JSON format, and its value is no JSON in UTF-8: look at its "
            "producer.",
        ) from None
    data, binary = members.pop("data", None), members.pop("data_base64", None)
    attributes = {name: _attribute(name, member.value) for name, member in members.items() if member.value is not None}
    if binary is not None and binary.value is not None:
        if data is not None:
            raise BadRecord(
                "data_and_base64",
                "The event has both data and data_base64, so nobody knows which is meant: have the producer send one.",
            )
        return attributes, _binary(binary.value)
    return attributes, None if data is None else _text(data, attributes.get("datacontenttype"))


def _members(text: str) -> dict[str, _Member]:
    at = _skip(text, 0)
    if text[at : at + 1] != "{":
        _data.decode(text)  # broken JSON is a different complaint
        raise BadRecord("not_an_object", "The event in JSON format is not a JSON object: look at its producer.")
    members: dict[str, _Member] = {}
    at = _skip(text, at + 1)
    if text[at : at + 1] == "}":
        at += 1
    else:
        while True:
            at, last = _member(text, at, members)
            if last:
                break
    if _skip(text, at) != len(text):
        raise ValueError("there is more after the object")
    return members


def _member(text: str, at: int, members: dict[str, _Member]) -> tuple[int, bool]:
    """Read one member from `at`; gives where the next one starts, and whether this was the last."""
    name, at = _attributes.raw_decode(text, at)
    if not isinstance(name, str):
        raise ValueError("a member has no name")
    at = _skip(text, at)
    if text[at : at + 1] != ":":
        raise ValueError("a colon is missing")
    start = _skip(text, at + 1)
    value, end = (_data if name == "data" else _attributes).raw_decode(text, start)
    if name in members:
        raise BadRecord(
            "duplicate_attribute",
            "The event in JSON format has a member twice, so nobody knows which is meant: look at its producer.",
        )
    members[name] = _Member(value, text[start:end])
    at = _skip(text, end)
    match text[at : at + 1]:
        case ",":
            return _skip(text, at + 1), False
        case "}":
            return at + 1, True
        case _:
            raise ValueError("a comma or the end is missing")


def _skip(text: str, at: int) -> int:
    matched = _SPACE.match(text, at)
    return at if matched is None else matched.end()


def _attribute(name: str, value: object) -> str:
    """The canonical text of a value, by the specification's own type system."""
    core = name in CORE_ATTRIBUTES  # those are all texts
    match value:
        case str():
            return value
        case bool() if not core:
            return "true" if value else "false"
        case int() if not core and -_MAX_INTEGER - 1 <= value <= _MAX_INTEGER:
            return str(value)
        case _:
            raise BadRecord(
                "bad_attribute_value",
                "An attribute of the event is not a text (or, for an extension, a boolean or a 32-bit integer): "
                "have the producer put structures and fractions into data.",
            )


def _text(data: _Member, content_type: str | None) -> bytes:
    if isinstance(data.value, str) and not is_json(content_type):
        try:
            return data.value.encode("utf-8")
        except UnicodeEncodeError:
            raise BadRecord(
                "invalid_json", "The event's data are a text with half of a surrogate pair: look at its producer."
            ) from None
    return data.text.encode("utf-8")


def _binary(value: object) -> bytes:
    try:
        return base64.b64decode(value if isinstance(value, str) else "?", validate=True)
    except (binascii.Error, ValueError):
        raise BadRecord(
            "bad_base64", "The event's data_base64 is not a text in Base64: have the producer encode it."
        ) from None
