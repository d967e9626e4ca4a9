"""Others sign and we verify; we sign and others verify. The peers read the clock themselves, so the moment is now.

`svix` stands on `standardwebhooks` underneath: what it adds is its own names of the headers.
"""

import json
import time
from datetime import UTC, datetime

import pytest
import stripe
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook as StandardWebhook
from standardwebhooks import WebhookVerificationError
from svix.webhooks import Webhook as SvixWebhook

from surefoot.webhooks import Rejected, Verified, sign, verify
from tests.support.webhook_signatures import (
    KEYS,
    OTHER_STANDARD_SECRET,
    OTHER_STRIPE_SECRET,
    STANDARD_SECRET,
    STRIPE_SECRET,
    lines,
)

STANDARD_PEERS = [
    pytest.param(StandardWebhook, "webhook", id="standardwebhooks"),
    pytest.param(SvixWebhook, "svix", id="svix"),
]
bodies = st.dictionaries(st.text(max_size=20), st.text(max_size=50), max_size=5).map(json.dumps)


def seconds() -> int:
    return int(time.time())


@pytest.mark.parametrize(("peer", "prefix"), STANDARD_PEERS)
@given(body=bodies)
def test_what_a_peer_signs_we_verify(peer: type[StandardWebhook], prefix: str, body: str) -> None:
    moment = datetime.now(UTC).replace(microsecond=0)
    headers = {
        f"{prefix}-id": "msg_1",
        f"{prefix}-timestamp": str(int(moment.timestamp())),
        f"{prefix}-signature": peer(STANDARD_SECRET).sign("msg_1", moment, body),
    }
    for known in (KEYS["standard"], KEYS["standard"][::-1], KEYS["standard"][:1]):
        assert verify("standard", lines(headers), body.encode(), known, moment) == Verified("msg_1", moment)
    assert _reason(verify("standard", lines(headers), body.encode(), KEYS["standard"][1:], moment)) == "wrong_signature"


@pytest.mark.parametrize(("peer", "prefix"), STANDARD_PEERS)
@given(body=bodies)
def test_what_we_sign_a_peer_verifies(peer: type[StandardWebhook], prefix: str, body: str) -> None:
    signed = sign("standard", body.encode(), KEYS["standard"], message_id="msg_1", at=seconds())
    headers = {name.replace("webhook-", f"{prefix}-"): value for name, value in signed.items()}
    for secret in (STANDARD_SECRET, OTHER_STANDARD_SECRET):
        peer(secret).verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        peer(STANDARD_SECRET).verify(body + " ", headers)


@given(body=bodies)
def test_what_stripe_signs_we_verify(body: str) -> None:
    moment = datetime.now(UTC).replace(microsecond=0)
    header = stripe.WebhookSignature.generate_signature_header(body, STRIPE_SECRET, int(moment.timestamp()))
    given = lines({"Stripe-Signature": header})
    for known in (KEYS["stripe"], KEYS["stripe"][::-1], KEYS["stripe"][:1]):
        assert verify("stripe", given, body.encode(), known, moment) == Verified(None, moment)
    assert _reason(verify("stripe", given, body.encode(), KEYS["stripe"][1:], moment)) == "wrong_signature"


@given(body=bodies)
def test_what_we_sign_stripe_verifies(body: str) -> None:
    header = sign("stripe", body.encode(), KEYS["stripe"], message_id="-", at=seconds())["Stripe-Signature"]
    for secret in (STRIPE_SECRET, OTHER_STRIPE_SECRET):
        assert stripe.WebhookSignature.verify_header(body, header, secret, tolerance=300)
    with pytest.raises(stripe.SignatureVerificationError):
        stripe.WebhookSignature.verify_header(body + " ", header, STRIPE_SECRET, tolerance=300)


def test_an_event_of_stripes_own_library_can_be_made_of_what_we_sign() -> None:
    body = json.dumps({"id": "evt_1", "object": "event", "type": "charge.captured", "data": {"object": {}}})
    header = sign("stripe", body.encode(), KEYS["stripe"][:1], message_id="-", at=seconds())["Stripe-Signature"]
    event = stripe.Webhook.construct_event(body, header, STRIPE_SECRET)
    assert (event.id, event.type) == ("evt_1", "charge.captured")


def _reason(found: Verified | Rejected) -> str | None:
    return found.reason if isinstance(found, Rejected) else None
