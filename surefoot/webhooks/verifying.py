"""Is this webhook from whom it should be, unchanged, and of now?"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from surefoot.webhooks.header_lines import Lines
from surefoot.webhooks.schemes import Scheme, claimed
from surefoot.webhooks.values import Claimed, Rejected

TOLERANCE = timedelta(minutes=5)


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
