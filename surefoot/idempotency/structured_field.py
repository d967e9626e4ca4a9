"""Items of Structured Fields (RFC 9651): the values that newer HTTP headers carry, read strictly. Pure.

Lists and dictionaries are not read here: the headers of this layer are single items.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Token:
    """A word without quotes."""

    text: str


@dataclass(frozen=True, slots=True)
class Date:
    """A point in time: seconds since 1970, in UTC."""

    seconds: int


@dataclass(frozen=True, slots=True)
class DisplayString:
    """A text for people, in any script."""

    text: str


BareItem = str | int | Decimal | bool | bytes | Token | Date | DisplayString


@dataclass(frozen=True, slots=True)
class Item:
    value: BareItem
    parameters: Mapping[str, BareItem]


class MalformedField(ValueError):
    """It is no item of a structured field. The message says what was found, and where."""


def parse_item(field: bytes) -> Item:
    """The one item of a header's value. Whatever is not exactly one is refused."""
    if not field.isascii():
        raise MalformedField("there are bytes that are not ASCII")
    text = field.decode("ascii").strip(" ")
    value, place = _bare_item(text, 0)
    parameters, place = _parameters(text, place)
    if place != len(text):
        raise MalformedField(f"there is something after the value, at character {place + 1}")
    return Item(value, parameters)


_KEY = re.compile(r"[a-z*][a-z0-9_\-.*]*")
_NUMBER = re.compile(r"(-?)([0-9]+)(\.[0-9]*)?")
_TOKEN = re.compile(r"[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*")
_STRING = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*+)"')
_ESCAPED = re.compile(r"\\(.)")
_BYTES = re.compile(r":([A-Za-z0-9+/=]*):")
_DISPLAY = re.compile(r'%"((?:[ !#$&-~]|%[0-9a-f]{2})*+)"')
_PERCENT = re.compile(rb"%([0-9a-f]{2})")

Read = tuple[BareItem, int]
"""A value, and the place behind it."""


def _bare_item(text: str, place: int) -> Read:
    read = _READERS.get(text[place : place + 1])
    if read is None:
        found = f"{text[place]!r}" if place < len(text) else "the end"
        raise MalformedField(f"there is {found} where a value should begin, at character {place + 1}")
    return read(text, place)


def _parameters(text: str, place: int) -> tuple[Mapping[str, BareItem], int]:
    parameters: dict[str, BareItem] = {}
    while text.startswith(";", place):
        place += 1
        while text.startswith(" ", place):
            place += 1
        key = _match(_KEY, text, place, "the name of a parameter, in small letters,")
        place = key.end()
        if text.startswith("=", place):
            parameters[key[0]], place = _bare_item(text, place + 1)
        else:
            parameters[key[0]] = True
    return parameters, place


def _match(pattern: re.Pattern[str], text: str, place: int, wanted: str) -> re.Match[str]:
    found = pattern.match(text, place)
    if found is None:
        raise MalformedField(f"{wanted} should begin at character {place + 1}, and is not well formed")
    return found


def _number(text: str, place: int) -> Read:
    found = _match(_NUMBER, text, place, "a number")
    sign, whole, fraction = found.groups()
    if fraction is None:
        if len(whole) > 15:
            raise MalformedField("an integer has more than 15 digits")
        return int(sign + whole), found.end()
    if len(whole) > 12 or not 2 <= len(fraction) <= 4:
        raise MalformedField("a decimal needs up to 12 digits before the point and one to three after it")
    return Decimal(found[0]), found.end()


def _string(text: str, place: int) -> Read:
    found = _match(_STRING, text, place, "a text in double quotes, of printable ASCII,")
    return _ESCAPED.sub(r"\1", found[1]), found.end()


def _token(text: str, place: int) -> Read:
    found = _match(_TOKEN, text, place, "a token")
    return Token(found[0]), found.end()


def _bytes(text: str, place: int) -> Read:
    found = _match(_BYTES, text, place, "a byte sequence, in colons,")
    digits = found[1].rstrip("=")
    padding = len(found[1]) - len(digits)
    if "=" in digits or len(digits) % 4 == 1 or padding > min(2, len(digits)):
        raise MalformedField("a byte sequence is not base64")
    # Padding that was left out is no fault, says the specification.
    return b64decode(digits + "=" * (-len(digits) % 4), validate=True), found.end()


def _boolean(text: str, place: int) -> Read:
    word = text[place : place + 2]
    if word not in ("?0", "?1"):
        raise MalformedField("a boolean must be ?0 or ?1")
    return word == "?1", place + 2


def _date(text: str, place: int) -> Read:
    seconds, place = _number(text, place + 1)
    if not isinstance(seconds, int):
        raise MalformedField("a date must be a whole number of seconds")
    return Date(seconds), place


def _display_string(text: str, place: int) -> Read:
    found = _match(_DISPLAY, text, place, "a display string")
    raw = _PERCENT.sub(lambda escape: bytes.fromhex(escape[1].decode()), found[1].encode())
    try:
        return DisplayString(raw.decode("utf-8")), found.end()
    except UnicodeDecodeError:
        raise MalformedField("a display string is not UTF-8") from None


_READERS: dict[str, Callable[[str, int], Read]] = {
    '"': _string,
    ":": _bytes,
    "?": _boolean,
    "@": _date,
    "%": _display_string,
    **dict.fromkeys("-0123456789", _number),
    **dict.fromkeys("*abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", _token),
}
