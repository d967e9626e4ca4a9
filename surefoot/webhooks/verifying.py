"""Signing a webhook by one of the schemes, and verifying one: is it from the right sender, unchanged, and of now?"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, assert_never

from surefoot.errors import ConfigurationError
from surefoot.webhooks import standard, stripe
from surefoot.webhooks.header_lines import Claimed, Lines, Rejected

Scheme = Literal["stripe", "standard"]
TOLERANCE = timedelta(minutes=5)


def keys_of(scheme: Scheme, secrets: Sequence[str]) -> tuple[bytes, ...]:
    """The keys behind the secrets, read once at the edge; a secret that is none is refused with a sentence."""
    if not secrets:
        raise ConfigurationError("Webhooks cannot be verified without a secret: give one, or two while it changes.")
    match scheme:
        case "standard":
            return tuple(standard.secret_bytes(secret) for secret in secrets)
        case "stripe":
            return tuple(stripe.secret_bytes(secret) for secret in secrets)
        case _:
            assert_never(scheme)


def sign(scheme: Scheme, body: bytes, keys: Sequence[bytes], *, message_id: str, at: int) -> dict[str, str]:
    """The headers to send, with a signature by each key. Stripe's scheme has no place for the message's id."""
    match scheme:
        case "standard":
            return standard.signed_headers(*keys, message_id=message_id, at=at, body=body)
        case "stripe":
            return stripe.signed_headers(*keys, at=at, body=body)
        case _:
            assert_never(scheme)


@dataclass(frozen=True, slots=True)
class Verified:
    id: str | None
    """The message's id, the same on every try; None in a scheme that has none."""
    at: datetime
    """When this try was signed, by the sender's clock."""


def verify(
    scheme: Scheme,
    headers: Lines,
    body: bytes,
    secrets: Sequence[bytes],
    now: datetime,
    tolerance: timedelta = TOLERANCE,
) -> Verified | Rejected:
    """`headers` are the lines as they came, `body` the bytes as they came, `secrets` what `keys_of` gave; any of them
    will do, so that a secret can be changed without a gap."""
    found = claimed(scheme, headers)
    if isinstance(found, Rejected):
        return found
    if not _signed_by_any(found, body, secrets):
        return Rejected(
            "wrong_signature",
            "No signature of this webhook was made with a secret that is known here: check the secret on both sides, "
            "and that nothing on the way changes the body.",
        )
    # The age is looked at after the signature: nobody without a secret learns anything of our clock.
    return _of_now(found, now, tolerance)


def claimed(scheme: Scheme, lines: Lines) -> Claimed | Rejected:
    match scheme:
        case "standard":
            return standard.claimed(lines)
        case "stripe":
            return stripe.claimed(lines)
        case _:
            assert_never(scheme)


def _signed_by_any(found: Claimed, body: bytes, secrets: Sequence[bytes]) -> bool:
    """Every signature is compared with every secret's, whatever was found before: how long it takes says nothing."""
    matches = 0
    signed = found.signed_before_body + body
    for secret in secrets:
        expected = hmac.new(secret, signed, hashlib.sha256).digest()
        for signature in found.signatures:
            matches += hmac.compare_digest(expected, signature)
    return matches > 0


def _of_now(found: Claimed, now: datetime, tolerance: timedelta) -> Verified | Rejected:
    age_s = now.timestamp() - found.at
    limit_s = tolerance.total_seconds()
    if age_s > limit_s:
        return Rejected("too_old", f"This webhook was signed more than {limit_s:.0f} s ago: sign it anew for each try.")
    if age_s < -limit_s:
        return Rejected(
            "too_new", f"This webhook was signed more than {limit_s:.0f} s from now: set the sender's clock right."
        )
    return Verified(found.id, datetime.fromtimestamp(found.at, UTC))
