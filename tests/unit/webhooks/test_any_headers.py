"""Whatever comes as headers and body: an answer, never an exception; and nobody is believed whom a peer would not."""

import hmac
import time
from datetime import UTC, datetime

import pytest
import stripe
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook

from surefoot.webhooks import Rejected, Scheme, Verified, sign, verify
from surefoot.webhooks import verifying as module
from tests.support.webhook_signatures import BODY, KEYS, MOMENT, STANDARD_SECRET, STRIPE_SECRET, lines

NAMES = [
    b"stripe-signature",
    b"webhook-id",
    b"webhook-timestamp",
    b"webhook-signature",
    b"svix-id",
    b"svix-timestamp",
    b"SVIX-Signature",
]
digits = st.integers().map(lambda number: str(number).encode())
pieces = st.sampled_from([b"v1,", b"v1=", b"t=", b",", b" ", b".", b"=", b"v1a,", b"\xff", b"\x00", b"1772366400"])
values = st.one_of(
    st.binary(max_size=80),
    digits,
    st.lists(st.one_of(pieces, st.binary(max_size=44), digits), max_size=8).map(b"".join),
    st.integers(4090, 5000).map(lambda size: b"1" * size),
)
any_lines = st.lists(st.tuples(st.one_of(st.sampled_from(NAMES), st.binary(max_size=10)), values), max_size=8)
schemes: st.SearchStrategy[Scheme] = st.sampled_from(["standard", "stripe"])


@settings(max_examples=500)
@given(scheme=schemes, headers=any_lines, body=st.binary(max_size=50))
def test_any_headers_are_answered_and_never_believed(
    scheme: Scheme, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    assert isinstance(verify(scheme, headers, body, KEYS[scheme], MOMENT), Rejected)


@settings(max_examples=300)
@given(
    scheme=schemes,
    place=st.integers(0, 200),
    length=st.integers(0, 5),
    put=st.one_of(st.binary(max_size=5), digits, pieces),
    which=st.integers(0, 2),
)
def test_a_peer_believes_whom_we_believe_though_a_header_was_changed(
    scheme: Scheme, place: int, length: int, put: bytes, which: int
) -> None:
    signed = lines(sign(scheme, BODY, KEYS[scheme][:1], message_id="msg_1", at=int(time.time())))
    name, value = signed[which % len(signed)]
    place %= len(value) + 1
    signed[which % len(signed)] = (name, value[:place] + put + value[place + length :])
    if isinstance(verify(scheme, signed, BODY, KEYS[scheme][:1], datetime.now(UTC)), Verified):
        headers = {name.decode(): value.decode() for name, value in signed}
        if scheme == "standard":
            stripped = {name: value.strip() for name, value in headers.items()}  # a server strips them, too
            known = [part for part in stripped["webhook-signature"].split() if part.count(",") == 1]
            Webhook(STANDARD_SECRET).verify(BODY, stripped | {"webhook-signature": " ".join(known)})
        else:
            header = ",".join(part.strip() for part in headers["stripe-signature"].split(","))
            stripe.WebhookSignature.verify_header(BODY, header, STRIPE_SECRET, 300)


def test_every_signature_is_compared_with_every_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the first pair fits: an early end would tell how far one has come."""
    compared: list[tuple[bytes, bytes]] = []

    def noted(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return hmac.compare_digest(one, other)

    headers = lines(sign("standard", BODY, KEYS["standard"], message_id="msg_1", at=int(MOMENT.timestamp())))
    with monkeypatch.context() as patched:
        patched.setattr(module, "hmac", type("hmac", (), {"new": hmac.new, "compare_digest": staticmethod(noted)}))
        assert isinstance(verify("standard", headers, BODY, KEYS["standard"], MOMENT), Verified)
    assert len(set(compared)) == 4
