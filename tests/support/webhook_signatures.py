"""What the tests of webhooks share: secrets, a moment, and header lines as a server has them."""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime

from surefoot.webhooks import Scheme, keys_of

MOMENT = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
AT = int(MOMENT.timestamp())
BODY = b'{"id":"evt_1","type":"payment.captured"}'
STANDARD_SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OTHER_STANDARD_SECRET = "whsec_" + base64.b64encode(bytes(range(32, 64))).decode()
STRIPE_SECRET = "whsec_0123456789abcdefghijklmnopqrstuv"
OTHER_STRIPE_SECRET = "whsec_vutsrqponmlkjihgfedcba9876543210"
SECRETS: dict[Scheme, tuple[str, str]] = {
    "standard": (STANDARD_SECRET, OTHER_STANDARD_SECRET),
    "stripe": (STRIPE_SECRET, OTHER_STRIPE_SECRET),
}
KEYS: dict[Scheme, tuple[bytes, ...]] = {scheme: keys_of(scheme, secrets) for scheme, secrets in SECRETS.items()}


def lines(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
