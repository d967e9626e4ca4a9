"""The texts of a CloudEvent: what its strings, names, URIs and timestamps may look like.

The same rules hold for what we write and for what we read, so that we never write what we would refuse.

What can be said of a JSON text without reading it is here, too: whether it has a NaN or a NUL, and how deep it is
nested. Parsers differ in these; the answers here are the same everywhere and take one pass.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache, wraps
from ipaddress import AddressValueError, IPv6Address
from itertools import accumulate
from typing import TypeVar

Answer = TypeVar("Answer")

# Control characters, surrogates and noncharacters: the specification excludes them from strings, and a NUL would abort
# the transaction of whoever writes it into a Postgres text column.
_FORBIDDEN = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\ud800-\\udfff\\ufdd0-\\ufdef"
    + "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
    + "]"
)
_PRINTABLE = bytes(range(0x20, 0x7F))
_ATTRIBUTE_NAME = re.compile(r"[a-z0-9]+")
_EXTENSION_NAME = re.compile(r"[a-z0-9]{1,20}")

# RFC 3986: scheme, authority, path, query, fragment; each of unreserved, reserved and percent-encoded characters.
_PCHAR = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*:"
_NAME = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})"
_ADDRESS = r"\[(?:(?P<ipv6>[0-9A-Fa-f:.]+)|[Vv][0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&'()*+,;=:]+)\]"
_AUTHORITY = rf"//(?:(?:{_NAME}|:)*@)?(?:{_ADDRESS}|{_NAME}*)(?::[0-9]*)?(?=[/?#]|\Z)"
_TAIL = rf"(?:\?(?:{_PCHAR}|[/?])*)?(?:#(?:{_PCHAR}|[/?])*)?"
_URI = re.compile(rf"{_SCHEME}(?:{_AUTHORITY}|(?!//))(?:{_PCHAR}|/)*{_TAIL}")
_RELATIVE = re.compile(rf"(?:{_AUTHORITY}|(?!//)(?![^/?#]*:))(?:{_PCHAR}|/)*{_TAIL}")

_MEDIA_TYPE = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+/[!#$%&'*+\-.^_`|~0-9A-Za-z]+\s*(?:;.*)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII)


def remembered(check: Callable[[str], Answer]) -> Callable[[str], Answer]:
    """Sources, names and media types are few and short, and repeat from record to record; what is long is not kept."""
    quick = lru_cache(maxsize=1024)(check)
    return wraps(check)(lambda text: quick(text) if len(text) <= 200 else check(text))


def is_plain(text: str) -> bool:
    """Whether it is printable ASCII alone, as nearly all attributes are: then there is nothing forbidden in it."""
    return text.isascii() and not text.encode().translate(None, _PRINTABLE)


def has_forbidden(text: str) -> bool:
    return _FORBIDDEN.search(text) is not None


@remembered
def is_attribute_name(name: str) -> bool:
    """What may be read: the specification only advises against names of more than 20 characters."""
    return _ATTRIBUTE_NAME.fullmatch(name) is not None


def is_extension_name(name: str) -> bool:
    """What we may write ourselves."""
    return _EXTENSION_NAME.fullmatch(name) is not None


@remembered
def is_uri_reference(text: str) -> bool:
    return bool(text) and (is_uri(text) or _is(_RELATIVE, text))


@remembered
def is_uri(text: str) -> bool:
    return _is(_URI, text)


def _is(reference: re.Pattern[str], text: str) -> bool:
    matched = reference.fullmatch(text)
    if matched is None or matched["ipv6"] is None:
        return matched is not None
    try:
        IPv6Address(matched["ipv6"])
    except AddressValueError:
        return False
    return True


@remembered
def is_media_type(text: str) -> bool:
    return _MEDIA_TYPE.fullmatch(text) is not None


def is_json(media_type: str | None) -> bool:
    """Whether data of this media type are JSON. Data that say nothing are, as the specification advises."""
    return media_type is None or _names_json(media_type)


@remembered
def _names_json(media_type: str) -> bool:
    essence = media_type.partition(";")[0].strip().lower()
    return essence.endswith(("/json", "+json"))


def format_time(time: datetime) -> str:
    """RFC 3339 in UTC, always with microseconds, so that times compare as text."""
    in_utc = time if time.tzinfo is UTC else time.astimezone(UTC)
    return in_utc.isoformat(timespec="microseconds")[:-6] + "Z"


def parse_time(text: str) -> datetime | None:
    """An RFC 3339 timestamp in UTC, cut to microseconds; None if it is none. A leap second is the second after it."""
    if _TIME.fullmatch(text) is None:
        return None
    leap = text[17:19] == "60"
    try:
        time = datetime.fromisoformat((f"{text[:17]}59{text[19:]}" if leap else text).upper())
        if leap:
            time += timedelta(seconds=1)
        return time if time.tzinfo is UTC else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def printable(text: str, limit: int) -> str:
    """A text that Postgres, JSON and a terminal all take: no NUL, no half of a surrogate pair, not too long."""
    text = text[:limit].encode("utf-8", errors="replace").decode()
    if not has_forbidden(text.replace("\n", "").replace("\t", "")):
        return text  # nearly always; letter by letter a long stack takes milliseconds
    return "".join(letter if letter in "\n\t" or not has_forbidden(letter) else "�" for letter in text)


# A text that never ends goes to the end: trying again from each of its escaped quotes would take time squared.
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NUL_ESCAPE = b"\\u0000"
_LIVE_NUL_ESCAPE = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_BRACKETS = b"[{]}"
_STEPS = bytes.maketrans(_BRACKETS, b"\x01\x01\xff\xff")  # one down, and one up: -1 as a signed byte
_ALL_BUT_BRACKETS = bytes(set(range(256)) - set(_BRACKETS))


def has_nul(raw: bytes) -> bool:
    """Whether a text in this JSON has a NUL. A backslash that is itself escaped, followed by u0000, is none."""
    return _NUL_ESCAPE in raw and _LIVE_NUL_ESCAPE.search(raw) is not None


def has_non_finite(raw: bytes) -> bool:
    """Whether there is a bare NaN or Infinity, which pydantic writes and reads and nobody else does."""
    if b"NaN" not in raw and b"Infinity" not in raw:
        return False
    bare = _TEXT.sub(b'""', raw)
    return b"NaN" in bare or b"Infinity" in bare


def is_nested_deeper(raw: bytes, levels: int) -> bool:
    """Whether lists and objects lie within each other more than so many levels deep."""
    if raw.count(b"[") + raw.count(b"{") <= levels:
        return False
    steps = _TEXT.sub(b"", raw).translate(_STEPS, _ALL_BUT_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) > levels
