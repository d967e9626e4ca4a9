"""Signatures of webhooks by the Standard Webhooks scheme: the receiver knows who sent it, and that it is new.

What is signed is the message's id, the time of this try and the body's bytes. The id stays over the tries, so that the
receiver can drop repeats; the time is each try's own, so that an old message cannot be sent again by somebody else.
"""

import base64
import binascii
import hashlib
import hmac

from surefoot.errors import ConfigurationError

PREFIX = "whsec_"
SHORTEST_SECRET = 24
LONGEST_SECRET = 64


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


def signed_headers(key: bytes, *, message_id: str, at: int, body: bytes) -> dict[str, str]:
    """The three headers. `at` is this try's time, in seconds since 1970."""
    signed = f"{message_id}.{at}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(at), "webhook-signature": f"v1,{signature}"}
