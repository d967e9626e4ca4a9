"""What a webhook's headers were found to say, or why they cannot be used."""

from dataclasses import dataclass
from typing import Literal

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


def missing(name: str) -> Rejected:
    return Rejected("missing", f"The header {name} is missing: send the webhook signed.")


def malformed(name: str, must: str) -> Rejected:
    return Rejected("malformed", f"The header {name} cannot be read: it must {must}.")
