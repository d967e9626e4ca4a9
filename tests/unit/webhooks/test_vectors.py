"""Frozen signatures: made once with openssl, and written down here. No code of ours computes what is expected."""

import pytest

from surefoot.webhooks import Scheme, Verified, keys_of, sign, verify
from tests.support.webhook_signatures import AT, BODY, MOMENT, SECRETS, lines

STANDARD = "v1,97vFpbv3GCm/bkRBwG6Iux1QITbXG7QO9Cs01UoJhhU="
STANDARD_BY_THE_OTHER = "v1,kUsX4Xi0ZfvMkwBL0D2eP8WnGI2ofxFhuXY11aBdLu8="
STRIPE = "e6d682a64cf2c6974e31aa2720d04a95163dc39a542f4211faf8752558cbe012"
STRIPE_BY_THE_OTHER = "07098124655a24c3474afe0babd5a9edd6ce1c2c28947b9082f48013c142ed5d"
HEADERS: dict[Scheme, dict[str, str]] = {
    "standard": {"webhook-id": "msg_1", "webhook-timestamp": "1772366400", "webhook-signature": STANDARD},
    "stripe": {"Stripe-Signature": f"t=1772366400,v1={STRIPE}"},
}
HEADERS_WHILE_ROTATING: dict[Scheme, dict[str, str]] = {
    "standard": HEADERS["standard"] | {"webhook-signature": f"{STANDARD_BY_THE_OTHER} {STANDARD}"},
    "stripe": {"Stripe-Signature": f"t=1772366400,v1={STRIPE_BY_THE_OTHER},v1={STRIPE}"},
}
SCHEMES: list[Scheme] = ["standard", "stripe"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_frozen_signature_is_what_we_sign(scheme: Scheme) -> None:
    keys = keys_of(scheme, SECRETS[scheme][:1])
    assert sign(scheme, BODY, keys, message_id="msg_1", at=AT) == HEADERS[scheme]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_signature_by_each_of_several_keys_is_sent(scheme: Scheme) -> None:
    keys = keys_of(scheme, SECRETS[scheme][::-1])
    assert sign(scheme, BODY, keys, message_id="msg_1", at=AT) == HEADERS_WHILE_ROTATING[scheme]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("headers", [HEADERS, HEADERS_WHILE_ROTATING], ids=["one", "rotating"])
@pytest.mark.parametrize("known", [slice(0, 1), slice(0, 2)], ids=["one secret", "two secrets"])
def test_the_frozen_signature_is_verified(scheme: Scheme, headers: dict[Scheme, dict[str, str]], known: slice) -> None:
    keys = keys_of(scheme, SECRETS[scheme][known])
    expected = Verified("msg_1" if scheme == "standard" else None, MOMENT)
    assert verify(scheme, lines(headers[scheme]), BODY, keys, MOMENT) == expected


def test_the_specifications_own_example_is_verified() -> None:
    """From the specification of Standard Webhooks and its reference libraries."""
    keys = keys_of("standard", ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    at = MOMENT.fromtimestamp(1614265330, MOMENT.tzinfo)
    body = b'{"test": 2432232314}'
    assert verify("standard", lines(headers), body, keys, at) == Verified("msg_p5jXN8AQM9LWM0D4loKWxJek", at)
