"""The schemes by name: their secrets, their way of signing, what they make of headers."""

from collections.abc import Sequence
from typing import Literal, assert_never

from surefoot.errors import ConfigurationError
from surefoot.webhooks import standard, stripe
from surefoot.webhooks.header_lines import Lines
from surefoot.webhooks.values import Claimed, Rejected

Scheme = Literal["stripe", "standard"]


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


def claimed(scheme: Scheme, lines: Lines) -> Claimed | Rejected:
    match scheme:
        case "standard":
            return standard.claimed(lines)
        case "stripe":
            return stripe.claimed(lines)
        case _:
            assert_never(scheme)
