"""What a webhook's headers say, read out of the lines as they came, or why they cannot be used.

Lines, not a dict: a header that came twice would be one value to one reader and another to the next, and the one that
is verified might not be the one that is used.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Lines = Iterable[tuple[bytes, bytes]]
"""As ASGI has them; a name's case does not matter."""
LONGEST_VALUE = 4096
MOST_SIGNATURES = 32
"""A sender that changes its secret sends two or three; each one more costs us a comparison with every secret."""
_VISIBLE = re.compile(rb"[\x20-\x7e]*")
_SECONDS = re.compile(r"0|[1-9][0-9]{0,10}")
"""In the one way there is to write a whole number, and within the years a datetime knows."""
Reason = Literal["missing", "malformed", "wrong_signature", "too_old", "too_new"]


@dataclass(frozen=True, slots=True)
class Rejected:
    """Whoever sent this is not believed. The sentence quotes nothing of what was sent."""

    reason: Reason
    sentence: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """What the headers say; nobody has checked it yet."""

    id: str | None
    """None in a scheme that has none: Stripe's names the event in the body alone."""
    at: int
    """In seconds since 1970."""
    signed_before_body: bytes
    signatures: tuple[bytes, ...]


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


def missing(name: str) -> Rejected:
    return Rejected("missing", f"The header {name} is missing: send the webhook signed.")


def malformed(name: str, must: str) -> Rejected:
    return Rejected("malformed", f"The header {name} cannot be read: it must {must}.")
