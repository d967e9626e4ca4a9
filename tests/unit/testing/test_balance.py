"""The balance of events: it adds up where nothing is missing, and shows what is."""

import base64
import json

import pytest

from surefoot.consumer.contracts import CONTROL_TYPE, TARGET_HEADER
from surefoot.log.port import Headers, StoredRecord
from surefoot.testing.balance import Balance, Identity, weigh

SOURCE = "/orders"


def record(event_id: str, *, offset: int, value: bytes | None = b"{}", **headers: str) -> StoredRecord:
    attributes = {"ce_specversion": "1.0", "ce_id": event_id, "ce_source": SOURCE, "ce_type": "order.paid"} | headers
    encoded: Headers = [(name, text.encode()) for name, text in attributes.items()]
    return StoredRecord("order.events", 0, offset, 0, b"order-1", value, encoded)


def control(event_id: str, action: str, *, offset: int, target: str = "warehouse", **members: object) -> StoredRecord:
    told = {"action": action, "consumer": target, "source": SOURCE, "event_id": event_id, "by": "ana", "why": "so"}
    return record(
        f"control-{offset}",
        offset=offset,
        value=json.dumps(told | members).encode(),
        ce_source="/dlq",
        ce_type=CONTROL_TYPE,
        **{TARGET_HEADER: target},
    )


def replacement(event_id: str) -> dict[str, object]:
    edited = record(event_id, offset=0)
    headers = [(name, base64.b64encode(value or b"").decode()) for name, value in edited.headers]
    return {"value": base64.b64encode(b"{}").decode(), "headers": headers}


def inbox(**outcomes: str) -> dict[Identity, str]:
    return {Identity(SOURCE, event_id): outcome for event_id, outcome in outcomes.items()}


def test_every_way_an_event_can_end_counts_once() -> None:
    names = ("a", "b", "c", "d", "e", "f", "g")
    records = [record(name, offset=at) for at, name in enumerate(names)]
    books = inbox(a="PROCESSED", b="BARRED", c="PARKED", d="DEAD", e="SUPERSEDED", f="DISCARDED")
    found = weigh("warehouse", records, books, ignored=1)
    assert found == Balance(
        "warehouse",
        published=7,
        edited=0,
        processed=1,
        ignored=1,
        barred=1,
        parked=1,
        dead=1,
        superseded=1,
        discarded=1,
    )
    assert found.adds_up


def test_an_event_that_nobody_accounts_for_is_noticed() -> None:
    found = weigh("warehouse", [record("a", offset=0), record("b", offset=1)], inbox(a="PROCESSED"), ignored=0)
    assert (found.published, found.accounted, found.adds_up) == (2, 1, False)


def test_an_event_that_was_never_published_is_noticed() -> None:
    found = weigh("warehouse", [record("a", offset=0)], inbox(a="PROCESSED", invented="PROCESSED"), ignored=0)
    assert (found.published, found.accounted, found.adds_up) == (1, 2, False)


@pytest.mark.parametrize(("books", "ignored"), [(inbox(a="PROCESSED"), 0), (inbox(), 2)])
def test_a_repeat_in_the_log_is_no_second_event(books: dict[Identity, str], ignored: int) -> None:
    """The inbox drops it; where there is no handler it is passed by twice."""
    found = weigh("warehouse", [record("a", offset=0), record("a", offset=1)], books, ignored=ignored)
    assert (found.published, found.adds_up) == (1, True)


def test_control_records_are_no_events_whoever_they_are_for() -> None:
    records = [
        record("a", offset=0),
        control("a", "replay", offset=1),
        control("a", "replay", offset=2, target="somebody-else"),
    ]
    books = {**inbox(a="PROCESSED"), Identity("/dlq", "control-1"): "PROCESSED"}
    found = weigh("warehouse", records, books, ignored=0)
    assert (found.published, found.processed, found.adds_up) == (1, 1, True)


def test_an_edited_event_counts_beside_the_one_it_replaced() -> None:
    records = [record("a", offset=0), control("a", "supersede", offset=1, replacement=replacement("mended"))]
    books = {**inbox(a="SUPERSEDED", mended="PROCESSED"), Identity("/dlq", "control-1"): "PROCESSED"}
    found = weigh("warehouse", records, books, ignored=0)
    assert (found.published, found.edited, found.adds_up) == (2, 1, True)


def test_an_edited_event_that_was_refused_does_not_count() -> None:
    records = [record("a", offset=0), control("a", "supersede", offset=1, replacement=replacement("mended"))]
    books = {**inbox(a="DEAD"), Identity("/dlq", "control-1"): "PROCESSED"}
    found = weigh("warehouse", records, books, ignored=0)
    assert (found.published, found.edited, found.adds_up) == (1, 0, True)


def test_a_record_that_is_no_event_counts_by_its_place() -> None:
    rubbish = StoredRecord("order.events", 0, 7, 0, None, b"\xff", [])
    books = {Identity("surefoot:record", "order.events/0/7"): "DEAD"}
    found = weigh("warehouse", [rubbish], books, ignored=0)
    assert (found.published, found.dead, found.adds_up) == (1, 1, True)
