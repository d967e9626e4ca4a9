"""One header's value out of the lines as they came.

Lines, not a dict: a header that came twice would be one value to one reader and another to the next, and the one that
is verified might not be the one that is used.
"""

import re
from collections.abc import Iterable

from surefoot.webhooks.values import Rejected, malformed, missing

Lines = Iterable[tuple[bytes, bytes]]
"""As ASGI has them; a name's case does not matter."""

LONGEST_VALUE = 4096
MOST_SIGNATURES = 32
"""A sender that changes its secret sends two or three; each one more costs us a comparison with every secret."""
_VISIBLE = re.compile(rb"[\x20-\x7e]*")
_SECONDS = re.compile(r"0|[1-9][0-9]{0,10}")
"""In the one way there is to write a whole number, and within the years a datetime knows."""


def has_any(lines: Lines, *names: str) -> bool:
    return any(name.lower() in {wanted.encode() for wanted in names} for name, _ in lines)


def value_of(lines: Lines, name: str) -> str | Rejected:
    found = [value for line, value in lines if line.lower() == name.lower().encode()]
    if not found:
        return missing(name)
    if len(found) > 1:
        return malformed(name, "come once")
    if len(found[0]) > LONGEST_VALUE:
        return malformed(name, f"be at most {LONGEST_VALUE} bytes")
    if not _VISIBLE.fullmatch(found[0]):
        return malformed(name, "be visible ASCII")
    value = found[0].decode("ascii").strip()
    return value or missing(name)


def seconds_of(name: str, value: str) -> int | Rejected:
    if not _SECONDS.fullmatch(value):
        return malformed(name, "have its time as whole seconds since 1970")
    return int(value)
