"""What a record is for a consumer: an event with its handler, a control record, nothing, or bad."""

import json

import pytest

from surefoot.consumer import Consumer, Transaction
from surefoot.consumer_runtime.plan import Bad, Delivery, Passed, Told, read
from surefoot.events import Event, new_event
from surefoot.log.port import Record
from tests.support.bad_records import CASES, BadCase
from tests.support.consumer.processes import record_of
from tests.support.consumer.records import happened, raw, stored
from tests.support.corpus import each_of
from tests.support.event_types import ThingHappened, ThingPaid


async def handle(event: Event[ThingHappened], tx: Transaction) -> None: ...


@pytest.fixture
def consumer() -> Consumer:
    consumer = Consumer("warehouse")
    consumer.on(ThingHappened)(handle)
    return consumer


def test_an_event_with_a_handler_is_a_delivery(consumer: Consumer) -> None:
    record = happened("a", 7, offset=5)
    found = read(record, consumer)
    assert isinstance(found, Delivery)
    assert found.record is record
    assert (found.key, found.source, found.event_id) == ("a", "/tests", found.event.id)
    assert found.event.data == ThingHappened(thing_id="a", number=7)
    assert found.handler.name == "handle"


def test_a_type_without_a_handler_is_passed_and_counted(consumer: Consumer) -> None:
    only_paid = Consumer("shipping")
    only_paid.on(ThingPaid)(handle)
    record = happened()
    assert read(record, only_paid) == Passed(record, 1)


def test_another_version_of_a_handled_type_is_bad_but_known(consumer: Consumer) -> None:
    record = happened()
    headers = [(name, b"urn:surefoot:thing.happened:9" if name == "ce_dataschema" else v) for name, v in record.headers]
    found = read(record._replace(headers=headers), consumer)
    assert isinstance(found, Bad)
    assert (found.reason, found.identified, found.event_type) == ("wrong_version", True, "thing.happened")
    assert "warehouse handles version 1" in found.sentence


def test_what_is_no_event_is_known_by_its_place_and_holds_nobody(consumer: Consumer) -> None:
    found = read(raw(b"{", key=b"a", offset=7), consumer)
    assert isinstance(found, Bad)
    assert not found.identified
    assert (found.source, found.event_id, found.key) == ("surefoot:record", "test.things/3/7", "a")
    assert found.event_type is None


def test_a_record_without_a_key_waits_behind_the_events_own_key(consumer: Consumer) -> None:
    record = happened("a")._replace(key=None)
    found = read(record, consumer)
    assert isinstance(found, Delivery)
    assert found.key == "a"


@pytest.fixture
def all_handled(consumer: Consumer) -> Consumer:
    consumer.on(ThingPaid)(handle)
    return consumer


@each_of("case", CASES, named=lambda case: case.name)
def test_every_bad_record_is_bad_for_the_reason_that_is_given(case: BadCase, all_handled: Consumer) -> None:
    found = read(stored(case.record), all_handled)
    assert isinstance(found, Bad)
    assert (found.reason, found.identified) == (case.reason, case.identified)
    assert found.record == stored(case.record)


def control(target: bytes | None, data: object) -> Record:
    headers: list[tuple[str, bytes | None]] = [
        ("ce_specversion", b"1.0"),
        ("ce_id", b"c-1"),
        ("ce_source", b"/dlq"),
        ("ce_type", b"dlq.control"),
        ("content-type", b"application/json"),
    ]
    if target is not None:
        headers.append(("surefoot-target", target))
    return Record(b"a", json.dumps(data).encode(), headers)


REPLAY = {
    "action": "replay",
    "consumer": "warehouse",
    "source": "/tests",
    "event_id": "e-1",
    "by": "ann",
    "why": "mended",
}


def test_a_control_record_for_this_consumer_is_told(consumer: Consumer) -> None:
    found = read(stored(control(b"warehouse", REPLAY)), consumer)
    assert isinstance(found, Told)
    assert (found.source, found.event_id) == ("/dlq", "c-1")
    assert (found.control.action, found.control.event_id) == ("replay", "e-1")


@pytest.mark.parametrize("target", [b"shipping", None, b"\xff"])
def test_a_control_record_for_another_is_passed_and_not_counted(consumer: Consumer, target: bytes | None) -> None:
    record = stored(control(target, "whatever"))
    assert read(record, consumer) == Passed(record, 0)


@pytest.mark.parametrize("data", [{**REPLAY, "action": "explode"}, {**REPLAY, "why": ""}, [], "x"])
def test_a_control_record_that_cannot_be_read_is_bad_and_holds_nobody(consumer: Consumer, data: object) -> None:
    found = read(stored(control(b"warehouse", data)), consumer)
    assert isinstance(found, Bad)
    assert not found.identified


@pytest.mark.parametrize("timestamp_ms", [-1, 0, -(2**62), 2**62])
def test_no_timestamp_of_a_careless_producer_is_too_much(consumer: Consumer, timestamp_ms: int) -> None:
    record = stored(record_of(new_event(ThingHappened(thing_id="a"))), timestamp_ms=timestamp_ms)
    assert isinstance(read(record, consumer), Delivery)
