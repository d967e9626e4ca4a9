"""Stripe's scheme: `Stripe-Signature: t=<seconds>,v1=<hex>,…`, over the time and the body's bytes."""

import hashlib
import hmac
import re

from surefoot.errors import ConfigurationError
from surefoot.webhooks.header_lines import MOST_SIGNATURES, Claimed, Lines, Rejected, malformed, seconds_of, value_of

HEADER = "Stripe-Signature"
SHORTEST_SECRET = 24
_SECRET = re.compile(r"[\x21-\x7e]+")
_HEX = re.compile(r"[0-9a-f]{64}")


def secret_bytes(secret: str) -> bytes:
    """The secret is used as it is written, prefix and all. What is wrong with it is said without quoting it."""
    text = secret.strip()
    if len(text) < SHORTEST_SECRET or not _SECRET.fullmatch(text):
        raise ConfigurationError(
            f"The secret of Stripe's webhooks must be {SHORTEST_SECRET} visible characters or more: copy it from the "
            "endpoint's page, where it begins with whsec_."
        )
    return text.encode("ascii")


def signed_headers(*keys: bytes, at: int, body: bytes) -> dict[str, str]:
    """The one header, with a signature by each key. `at` is this try's time, in seconds since 1970."""
    signatures = [hmac.new(key, _before_body(at) + body, hashlib.sha256).hexdigest() for key in keys]
    return {HEADER: ",".join([f"t={at}", *(f"v1={signature}" for signature in signatures)])}


def claimed(lines: Lines) -> Claimed | Rejected:
    """What the header says. Parts with names we do not know are left alone: Stripe sends `v0` beside `v1`."""
    value = value_of(lines, HEADER)
    if isinstance(value, Rejected):
        return value
    parts = [part.strip().partition("=") for part in value.split(",")]
    if not all(sign for _, sign, _ in parts):
        return malformed(HEADER, "look like t=<seconds>,v1=<hex>")
    times = [given for name, _, given in parts if name == "t"]
    if len(times) != 1:
        return malformed(HEADER, "have one time, t=<seconds>")
    at = seconds_of(HEADER, times[0])
    if isinstance(at, Rejected):
        return at
    given = [text for name, _, text in parts if name == "v1"]
    if len(given) > MOST_SIGNATURES:
        return malformed(HEADER, f"have at most {MOST_SIGNATURES} signatures")
    signatures = tuple(bytes.fromhex(text) for text in given if _HEX.fullmatch(text))
    if not signatures:
        return malformed(HEADER, "have a signature, v1= and 64 hexadecimal digits")
    return Claimed(None, at, _before_body(at), signatures)


def _before_body(at: int) -> bytes:
    return f"{at}.".encode()
