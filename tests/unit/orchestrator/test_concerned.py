"""Whom a stored record concerns: the command it answers, its key, and what a saga that waits for it finds in it."""

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from surefoot.events import EventData, encode, encode_data, new_event
from surefoot.orchestrator.concerned import Concerned, Stored, cause_of, concerned, outbox_headers, parked_headers
from surefoot.orchestrator.registry import Registry
from surefoot.saga import Saga
from tests.support.saga.trips import TicketSent, TripRequested, send_ticket, trip_events, trips

Headers = Sequence[tuple[str, bytes | None]]
TRIP = "0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b11"


@trips.event("trip.seen", topic=trip_events, key="camera")
class Seen(EventData):
    """From outside, and about its camera as far as the log knows."""

    camera: str
    trip: UUID | None


def watching() -> Registry:
    saga = Saga("watching", version=1, starts_on=TripRequested)
    saga.wait("seen", until=Seen, entity="trip", deadline=timedelta(days=1))
    saga.step("send_ticket", do=send_ticket, done_on=TicketSent, nothing_to_undo=True)
    return Registry([saga])


def headers(**given: str) -> Headers:
    return [(name.replace("__", "-"), value.encode()) for name, value in given.items()]


def stored(data: Seen) -> Stored:
    event = new_event(data)
    body = encode_data(event)
    return Stored(event.key, event.type, encode(event, body), body)


def test_the_cause_is_a_header_where_the_event_is_in_the_headers() -> None:
    assert cause_of(headers(ce_id="1", ce_causationid="command-1"), b"{}") == "command-1"


def test_the_cause_is_in_the_body_where_the_whole_event_is() -> None:
    body = json.dumps({"id": "1", "causationid": "command-1"}).encode()
    assert cause_of(headers(content__type="application/cloudevents+json; charset=utf-8"), body) == "command-1"


def test_what_cannot_be_read_answers_nothing() -> None:
    structured = headers(content__type="application/cloudevents+json")
    assert [cause_of(structured, body) for body in (None, b"", b"no json", b"[]", b'{"id": "1"}')] == [None] * 5
    assert cause_of(headers(content__type="application/json"), b'{"causationid": "command-1"}') is None
    assert cause_of([], None) is None


def test_headers_of_parked_events_are_stored_in_base64() -> None:
    text = base64.b64encode(b"command-1").decode()
    assert parked_headers(json.dumps([["ce_causationid", text], ["x", None]])) == [
        ("ce_causationid", b"command-1"),
        ("x", None),
    ]


def test_headers_of_the_outbox_are_stored_as_text() -> None:
    assert outbox_headers('[["ce_causationid", "command-1"]]') == [("ce_causationid", b"command-1")]


def test_what_is_waited_for_concerns_what_its_data_name_and_not_only_its_key() -> None:
    found = concerned(watching(), stored(Seen(camera="c-1", trip=UUID(TRIP))))
    assert found == Concerned(None, frozenset({"c-1", TRIP}), frozenset())


def test_what_it_is_about_is_read_as_a_saga_reads_it() -> None:
    one = stored(Seen(camera="c-1", trip=UUID(TRIP)))
    foreign = replace(one, value=(one.value or b"").replace(TRIP.encode(), TRIP.upper().encode()))
    assert concerned(watching(), foreign).entities == {"c-1", TRIP}


def test_what_leaves_open_what_it_is_about_concerns_its_key_alone() -> None:
    assert concerned(watching(), stored(Seen(camera="c-1", trip=None))) == Concerned(
        None, frozenset({"c-1"}), frozenset()
    )


def test_data_that_do_not_fit_may_name_it_all_the_same() -> None:
    unfit = replace(stored(Seen(camera="c-1", trip=None)), value=b'{"trip": "t-1"}')
    assert concerned(watching(), unfit) == Concerned(None, frozenset({"c-1", "t-1"}), frozenset())


@pytest.mark.parametrize("value", [None, b"no json", b"[]", b'{"camera": "c-1", "trip": 1}'])
def test_what_cannot_be_read_may_be_about_any_saga_that_waits_for_it(value: bytes | None) -> None:
    unread = replace(stored(Seen(camera="c-1", trip=None)), value=value)
    assert concerned(watching(), unread) == Concerned(None, frozenset({"c-1"}), frozenset({("watching", "seen")}))


def test_what_nobody_waits_for_concerns_its_key_and_is_not_read_further() -> None:
    assert concerned(watching(), Stored("k", "some.event", [], b"no json")) == Concerned(
        None, frozenset({"k"}), frozenset()
    )
    assert concerned(watching(), Stored("k", None, [], None)) == Concerned(None, frozenset({"k"}), frozenset())
