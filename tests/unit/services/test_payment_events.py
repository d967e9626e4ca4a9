"""The bodies of payment webhooks: whatever comes is read, left alone, or refused with a sentence; nothing is raised."""

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from services.payment.charge_news import News
from services.payment.payment_events import Foreign, PaymentEvent, Unreadable, event_of
from surefoot.events import Money

GOOD: dict[str, Any] = {
    "id": "evt-1",
    "type": "payment.captured",
    "created": "2026-03-01T13:00:00+01:00",
    "data": {
        "gateway_txn_id": "txn-1",
        "charge_id": "ch-1",
        "amount": {"minor_units": 2000, "currency": "EUR"},
        "something": "new",
    },
}
PATHS = [("id",), ("type",), ("created",), ("data",), ("data", "gateway_txn_id"), ("data", "charge_id")]
PATHS += [("data", "amount"), ("data", "amount", "minor_units"), ("data", "amount", "currency"), ("data", "reason")]
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=300)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)


def test_an_event_is_read_and_what_is_new_in_it_left_alone() -> None:
    assert event_of("provider", json.dumps(GOOD).encode()) == PaymentEvent(
        gateway="provider",
        event_id="evt-1",
        kind="payment.captured",
        charge_id="ch-1",
        happened_at=datetime(2026, 3, 1, 12, tzinfo=UTC),
        news=News("CAPTURED", "txn-1", Money.minor(2000, "EUR")),
        gateway_txn_id="txn-1",
        amount=Money.minor(2000, "EUR"),
    )


def test_a_kind_that_is_nothing_to_us_may_have_any_data() -> None:
    assert event_of("provider", b'{"id": "evt-1", "type": "payout.paid", "data": 7}') == Foreign("evt-1")


def test_a_refusal_says_where_it_is_and_quotes_nothing() -> None:
    data = {**GOOD["data"], "gateway_txn_id": "a secret\x00"}
    found = event_of("provider", json.dumps({**GOOD, "data": data}).encode())
    assert isinstance(found, Unreadable)
    assert "data.gateway_txn_id" in found.sentence
    assert "secret" not in found.sentence


@given(raw=st.binary(max_size=200))
def test_any_bytes_are_refused_and_raise_nothing(raw: bytes) -> None:
    assert isinstance(event_of("provider", raw), Unreadable)


@settings(max_examples=400)
@given(path=st.sampled_from(PATHS), value=anything)
def test_any_value_in_any_place_is_answered_and_what_is_read_can_be_stored(path: tuple[str, ...], value: Any) -> None:
    changed = json.loads(json.dumps(GOOD))
    *outer, last = path
    place = changed
    for name in outer:
        place = place[name]
    place[last] = value
    found = event_of("provider", json.dumps(changed).encode())
    if isinstance(found, PaymentEvent):
        texts = [found.event_id, found.kind, found.gateway_txn_id, found.charge_id or "", found.news.reason or ""]
        assert all("\x00" not in text and text.encode() for text in texts[:3])
        assert 0 < found.amount.minor_units < 2**53
        assert 2000 <= found.happened_at.astimezone(UTC).year <= 2200
