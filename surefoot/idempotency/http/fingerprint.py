"""What is asked for under a key, as one hash: a retry has the same, another request has another. Pure.

In it are the method, the path, the query, the tenant, the media type without its parameters, and the body in its
canonical form. Headers of tracing, the user agent and the key itself are not: they change from attempt to attempt.

JSON bodies that mean the same have one canonical text. The order of members, whitespace, escapes in texts and the forms
of numbers do not matter: 100, 100.0 and 1e2 are one number, at any size. Nor do the forms of money: in an object with
an `amount` and a `currency` the amount is counted in minor units, so that "19.9", "19.90" and 19.90 EUR are the same.
The text is for hashing and is no JSON: where a number is no small integer there is a list that begins with NaN, and
where money is, one that begins with Infinity. No body can have these itself, so two bodies have the same text only if
they mean the same. Of a multipart body the parts count, and not the boundary, which clients make up for each attempt.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from json import JSONDecoder, JSONEncoder
from math import inf, nan
from typing import Any, NoReturn

from surefoot.events.money import MAX_MINOR_UNITS, MINOR_UNIT_DIGITS
from surefoot.events.text import is_nested_deeper

VERSION = 1
"""Stored with each fingerprint. It changes when the same request would get another one."""
DEEPEST = 64
"""Levels of nesting. What is deeper has no canonical text: how deep a parser gets would depend on who calls it."""
_SMALL = 18
"""Integers of so many digits are written as they are. Larger ones are not written out: 1e999999 is three signs."""
_AMOUNT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_QUOTED = r""""([0-9A-Za-z'()+_,\-./:=? ]{1,70})\""""
_UNQUOTED = r"([0-9A-Za-z'+_\-.!#$%&*^`|~]{1,70})"
_BOUNDARY = re.compile(rf";[ \t]*boundary=(?:{_QUOTED}|{_UNQUOTED})[ \t]*(?:;|\Z)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    digest: bytes
    version: int


def fingerprint(
    *, method: str, path: str, query: str, tenant: str, content_type: str | None, body: bytes
) -> Fingerprint:
    """The path and the query as they were sent, without `?`."""
    media_type = (content_type or "").partition(";")[0].strip().lower()
    form, canonical = _canonical(media_type, content_type or "", body)
    asked = _prefixed(_bytes(method), _bytes(path), _bytes(query), _bytes(tenant), _bytes(media_type), form, canonical)
    return Fingerprint(sha256(asked).digest(), VERSION)


def key_hash(tenant: str, key: str) -> bytes:
    """What a key is stored and found by. The same key of another tenant is another."""
    return sha256(_prefixed(_bytes(tenant), _bytes(key))).digest()


def _canonical(media_type: str, content_type: str, body: bytes) -> tuple[bytes, bytes]:
    """Which form the body has, and the body in it. The form is hashed too: bytes that only look like one are not it."""
    if media_type.endswith(("/json", "+json")):
        text = canonical_json(body)
        if text is not None:
            return b"json", text
    elif media_type == "multipart/form-data":
        parts = read_parts(content_type, body)
        if parts is not None:
            return b"parts", _prefixed(*(_hashed(part) for part in parts))
    return b"raw", body


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _prefixed(*parts: bytes) -> bytes:
    """Each with its length, so that nothing of one can pass for a part of the next."""
    return b"".join([piece for part in parts for piece in (len(part).to_bytes(8, "big"), part)])


# -- JSON bodies ------------------------------------------------------------------------------------------------------


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


# -- multipart bodies -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    headers: tuple[tuple[bytes, bytes], ...]
    """Its name, file name and content type are in them. Sorted, names in small letters."""
    content: bytes


def read_parts(content_type: str, body: bytes) -> list[Part] | None:
    """The parts in their order; None if the body is not written as it should be."""
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        return None
    delimiter = b"--" + (boundary[1] or boundary[2]).encode("ascii")
    try:
        return list(_parts(delimiter, body))
    except _Malformed:
        return None


class _Malformed(ValueError):
    pass


def _parts(delimiter: bytes, body: bytes) -> Iterator[Part]:
    # A line break belongs to the delimiter after it; the first one may do without.
    before, *pieces = (b"\r\n" + body).split(b"\r\n" + delimiter)
    if before or not pieces or pieces[-1].rstrip(b"\r\n \t") != b"--":
        raise _Malformed  # text around the parts is allowed, and read differently by different servers
    for piece in pieces[:-1]:
        padding, line_break, rest = piece.partition(b"\r\n")
        if padding.strip(b" \t") or not line_break:
            raise _Malformed
        yield _part(rest)


def _part(text: bytes) -> Part:
    if text.startswith(b"\r\n"):
        return Part((), text[2:])
    head, empty_line, content = text.partition(b"\r\n\r\n")
    if not empty_line:
        raise _Malformed
    return Part(tuple(sorted(_header(line) for line in head.split(b"\r\n"))), content)


def _header(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not name or name != name.strip():  # a folded line begins with a space
        raise _Malformed
    return name.lower(), value.strip(b" \t")


def _hashed(part: Part) -> bytes:
    headers = (text for header in part.headers for text in header)
    return _prefixed(*headers, sha256(part.content).digest())
