"""The Standard Webhooks scheme, for whoever signs and whoever verifies.

What is signed is the message's id, the time of this try and the body's bytes. The id stays over the tries, so that the
receiver can drop repeats; the time is each try's own, so that an old message cannot be sent again by somebody else.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

from surefoot.errors import ConfigurationError
from surefoot.webhooks.header_lines import (
    MOST_SIGNATURES,
    Claimed,
    Lines,
    Rejected,
    has_any,
    malformed,
    seconds_of,
    value_of,
)

PREFIX = "whsec_"
SHORTEST_SECRET = 24
LONGEST_SECRET = 64
LONGEST_ID = 256
VERSION = "v1"


def secret_bytes(secret: str) -> bytes:
    """The key behind `whsec_…`. What is wrong with it is said without quoting it."""
    text = secret.strip()
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith(PREFIX) or not SHORTEST_SECRET <= len(key) <= LONGEST_SECRET:
        raise ConfigurationError(
            f"The webhook's secret must be {PREFIX} followed by {SHORTEST_SECRET} to {LONGEST_SECRET} random "
            f'bytes in Base64. Make one: echo "{PREFIX}$(openssl rand -base64 32)"'
        )
    return key


def signed_headers(*keys: bytes, message_id: str, at: int, body: bytes) -> dict[str, str]:
    """The three headers, with a signature by each key. `at` is this try's time, in seconds since 1970."""
    signed = _before_body(message_id, at) + body
    signatures = [base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in keys]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": " ".join(f"{VERSION},{signature}" for signature in signatures),
    }


def claimed(lines: Lines) -> Claimed | Rejected:
    """What the headers say, under the scheme's names or, if none of those is there, under svix's."""
    lines = list(lines)
    names = _names("webhook")
    if not has_any(lines, *names):
        names = _names("svix") if has_any(lines, *_names("svix")) else names
    values = [value_of(lines, name) for name in names]
    for value in values:
        if isinstance(value, Rejected):
            return value
    return _claimed(names, [str(value) for value in values])


def _claimed(names: Sequence[str], values: Sequence[str]) -> Claimed | Rejected:
    message_id, time, signature = values
    if "." in message_id or " " in message_id or len(message_id) > LONGEST_ID:
        # With a full stop in the id, what was signed could be cut up in another way.
        return malformed(names[0], f"be at most {LONGEST_ID} characters, without a full stop or a space")
    at = seconds_of(names[1], time)
    if isinstance(at, Rejected):
        return at
    parts = signature.split()
    if len(parts) > MOST_SIGNATURES:
        return malformed(names[2], f"have at most {MOST_SIGNATURES} signatures")
    signatures = tuple(found for part in parts if (found := _signature(part)) is not None)
    if not signatures:
        return malformed(names[2], "have a signature like v1,<Base64>, or several with a space between them")
    return Claimed(message_id, at, _before_body(message_id, at), signatures)


def _signature(part: str) -> bytes | None:
    """None for a version that is not ours (`v1a`), and for what can be no signature."""
    version, _, encoded = part.partition(",")
    if version != VERSION:
        return None
    try:
        found = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    return found if len(found) == hashlib.sha256().digest_size else None


def _before_body(message_id: str, at: int) -> bytes:
    return f"{message_id}.{at}.".encode()


def _names(prefix: str) -> tuple[str, str, str]:
    return f"{prefix}-id", f"{prefix}-timestamp", f"{prefix}-signature"
