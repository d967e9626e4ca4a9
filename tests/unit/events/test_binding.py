"""CloudEvents on Kafka: what we write, and what we refuse to read."""

import pickle
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import field_validator

from surefoot.errors import InvalidEvent, SurefootError
from surefoot.events import (
    BadRecord,
    Catalogue,
    Event,
    EventData,
    Topic,
    decode,
    encode,
    encode_data,
    event_type_of,
    new_event,
    to_event,
)
from surefoot.events.binding import BadRecordReason, version_of
from tests.support.corpus import each_of
from tests.support.order_types import OrderNoted, OrderPlaced, OrderPlacedV2, placed

Headers = list[tuple[str, bytes | None]]

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
PLACED = event_type_of(OrderPlaced)
BODY = b'{"order_id":"o-1","total":{"minor_units":1999,"currency":"EUR"}}'


def record(*more: tuple[str, bytes | None], without: str = "", **changed: bytes) -> Headers:
    headers: dict[str, bytes] = {
        "ce_specversion": b"1.0",
        "ce_id": b"e-1",
        "ce_source": b"/orders",
        "ce_type": b"order.placed",
        "content-type": b"application/json",
    }
    headers |= {f"ce_{name}": value for name, value in changed.items()}
    return [*((name, value) for name, value in headers.items() if name != without), *more]


def reason_of(headers: Headers, value: bytes | None = BODY) -> str:
    with pytest.raises(BadRecord) as refused:
        decode(headers, value)
    assert str(refused.value).endswith(".")
    return refused.value.reason


# Writing


def test_every_attribute_of_an_event_becomes_a_header() -> None:
    event = Event(
        data=placed(),
        id="e-1",
        source="/orders",
        type="order.placed",
        version=1,
        time=NOON + timedelta(microseconds=5),
        key="o-1",
        correlation_id="flow",
        causation_id="c-1",
        sequence="0000000017",
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        tracestate="vendor=x",
        subject="o-1/ä",
        extensions={"tenant": "acme"},
    )
    assert encode(event, BODY) == [
        ("ce_specversion", b"1.0"),
        ("ce_id", b"e-1"),
        ("ce_source", b"/orders"),
        ("ce_type", b"order.placed"),
        ("ce_time", b"2026-01-31T12:00:00.000005Z"),
        ("ce_dataschema", b"urn:surefoot:order.placed:1"),
        ("ce_subject", b"o-1/\xc3\xa4"),
        ("ce_partitionkey", b"o-1"),
        ("ce_correlationid", b"flow"),
        ("ce_causationid", b"c-1"),
        ("ce_sequence", b"0000000017"),
        ("ce_traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("ce_tracestate", b"vendor=x"),
        ("ce_tenant", b"acme"),
        ("content-type", b"application/json"),
    ]


def test_what_is_not_set_has_no_header() -> None:
    names = [name for name, _ in encode(replace(new_event(placed()), correlation_id=None), BODY)]
    assert names == [
        "ce_specversion",
        "ce_id",
        "ce_source",
        "ce_type",
        "ce_time",
        "ce_dataschema",
        "ce_partitionkey",
        "content-type",
    ]


def test_a_time_is_written_in_utc() -> None:
    elsewhere = datetime(2026, 1, 31, 13, 30, tzinfo=timezone(timedelta(hours=1, minutes=30)))
    headers = dict(encode(replace(new_event(placed()), time=elsewhere), BODY))
    assert headers["ce_time"] == b"2026-01-31T12:00:00.000000Z"


def test_a_time_without_a_zone_is_not_written() -> None:
    with pytest.raises(InvalidEvent, match="no time zone"):
        encode(replace(new_event(placed()), time=datetime(2026, 1, 31)), BODY)


@each_of(
    "name",
    ["", "Tenant", "my-tenant", "my_tenant", "x" * 21, "ä", "id", "data", "time", "partitionkey", "datacontenttype"],
)
def test_a_bad_or_taken_extension_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidEvent, match="cannot be an extension"):
        encode(new_event(placed(), extensions={name: "x"}), BODY)


def test_a_control_character_is_never_written() -> None:
    with pytest.raises(InvalidEvent, match="control character"):
        encode(new_event(placed(), extensions={"tenant": "a\0"}), BODY)


# Reading binary mode


def test_attributes_and_data_are_read_as_they_are() -> None:
    envelope = decode(record(time=b"2026-01-31T12:00:00.123456789Z", myext=b"value"), b"\x00\xff", b"o-1")
    assert dict(envelope.attributes) == {
        "specversion": "1.0",
        "id": "e-1",
        "source": "/orders",
        "type": "order.placed",
        "time": "2026-01-31T12:00:00.123456789Z",
        "myext": "value",
        "datacontenttype": "application/json",
    }
    assert envelope.data == b"\x00\xff"
    assert (envelope.id, envelope.source, envelope.type) == ("e-1", "/orders", "order.placed")
    assert envelope.time == NOON + timedelta(microseconds=123456)


def test_the_records_key_is_no_attribute() -> None:
    envelope = decode(record(), BODY, b"o-1")
    assert "partitionkey" not in envelope.attributes
    assert envelope.record_key == b"o-1"


def test_an_event_may_have_no_data() -> None:
    assert decode(record(), None).data is None
    assert decode(record(), b"").data == b""


def test_foreign_headers_may_hold_anything() -> None:
    envelope = decode(
        record(("trace", b"\xff\xfe"), ("trace", b"again"), ("surefoot-attempt", b"3"), ("x", None)), BODY
    )
    assert set(envelope.attributes) == {"specversion", "id", "source", "type", "datacontenttype"}


def test_a_null_header_is_an_attribute_that_is_not_set() -> None:
    assert "subject" not in decode(record(("ce_subject", None)), BODY).attributes
    assert reason_of(record(("ce_id", None), without="ce_id")) == "missing_id"


def test_names_longer_than_advised_are_read() -> None:
    assert decode(record(averyveryverylongextensionname=b"x"), BODY).attributes["averyveryverylongextensionname"] == "x"


@each_of(
    ("headers", "reason"),
    [
        (record(without="ce_id"), "missing_id"),
        (record(id=b""), "missing_id"),
        (record(id=b"  "), "missing_id"),
        (record(without="ce_source"), "missing_source"),
        (record(source=b""), "missing_source"),
        (record(without="ce_type"), "missing_type"),
        (record(type=b"\xe2\x80\x89"), "missing_type"),
        (record(without="ce_specversion"), "bad_specversion"),
        (record(specversion=b"0.3"), "bad_specversion"),
        (record(specversion=b""), "bad_specversion"),
        (record(id=b"\xff"), "not_utf8"),
        (record(anyext=b"\xc3"), "not_utf8"),
        (record(("ce_id", b"e-1")), "duplicate_attribute"),
        (record(("content-type", b"application/json")), "duplicate_attribute"),
        (record(("Content-Type", b"text/plain")), "duplicate_attribute"),
        (record(("ce_datacontenttype", b"text/plain")), "duplicate_attribute"),
        (record(("ce_Id", b"e-1")), "bad_attribute_name"),
        (record(("ce_my-ext", b"x")), "bad_attribute_name"),
        (record(("ce_", b"x")), "bad_attribute_name"),
        (record(data=b"x"), "bad_attribute_name"),
        (record(time=b"yesterday"), "bad_time"),
        (record(time=b""), "bad_time"),
        (record(time=b"2026-01-31 12:00:00Z"), "bad_time"),
        (record(time=b"2026-01-31T12:00:00"), "bad_time"),
        (record(time=b"2026-02-30T12:00:00Z"), "bad_time"),
        (record(source=b"not a uri"), "bad_source"),
        (record(source=b"/%zz"), "bad_source"),
        (record(source=b"1a:b"), "bad_source"),
        (record(subject=b""), "bad_attribute_value"),
        (record(dataschema=b"relative"), "bad_attribute_value"),
        (record(dataschema=b""), "bad_attribute_value"),
        (record(tenant=b"a\x00b"), "bad_attribute_value"),
        (record(id=b"a\x7f"), "bad_attribute_value"),
        (record(id=b"a\xef\xbf\xbf"), "bad_attribute_value"),
        ([*record(without="content-type"), ("content-type", b"json")], "bad_attribute_value"),
        ([("ce_x", b"1")] * 257, "too_many_headers"),
        ([("content-type", b"application/json")], "not_an_event"),
        ([], "not_an_event"),
        ([("content-type", b"\xff")], "not_utf8"),
    ],
)
def test_a_bad_binary_record_is_refused_with_its_reason(headers: Headers, reason: str) -> None:
    assert reason_of(headers) == reason


def test_a_tombstone_is_no_event() -> None:
    assert reason_of([], None) == "null_value"
    assert reason_of([("trace", b"x")], None) == "null_value"


def test_many_headers_are_read_up_to_the_limit() -> None:
    assert decode([*record(), *[("x", b"")] * 251], BODY).id == "e-1"


@pytest.mark.parametrize(
    "time",
    ["2016-12-31T23:59:60Z", "2026-01-31t12:00:00z", f"2026-01-31T12:00:00.{'7' * 40}Z", "2026-01-31T12:00:00.1+05:30"],
)
def test_every_rfc_3339_timestamp_is_a_time(time: str) -> None:
    assert decode(record(time=time.encode()), BODY).attributes["time"] == time


def test_a_bad_record_is_an_error_of_ours_with_a_public_reason() -> None:
    refused = BadRecord("missing_id", "It has no id.")
    assert isinstance(refused, SurefootError)
    assert refused.reason in get_args(BadRecordReason)
    again = pickle.loads(pickle.dumps(refused))  # noqa: S301 - our own bytes
    assert (again.reason, str(again)) == ("missing_id", "It has no id.")


# To typed events


def test_a_typed_event_comes_back_as_it_was() -> None:
    cause = new_event(OrderNoted(), id="cause")
    event = new_event(
        placed("o-9", note="ä"), caused_by=cause, traceparent="tp", tracestate="ts", extensions={"a1": "x"}
    )
    event = replace(event, sequence="0000000001", subject="s")
    body = encode_data(event)
    assert to_event(decode(encode(event, body), body), PLACED) == event


def test_a_foreign_event_needs_none_of_our_extensions() -> None:
    envelope = decode(record(time=b"2026-01-31T13:00:00+01:00", subject=b"s", other=b"x"), BODY, b"key-1")
    assert to_event(envelope, PLACED) == Event(
        data=placed("o-1"),
        id="e-1",
        source="/orders",
        type="order.placed",
        version=1,
        time=NOON,
        key="key-1",
        correlation_id=None,
        causation_id=None,
        sequence=None,
        traceparent=None,
        tracestate=None,
        subject="s",
        extensions={"other": "x"},
    )


@pytest.mark.parametrize(
    ("headers", "record_key", "key"),
    [
        (record(partitionkey=b"attribute"), b"record", "attribute"),
        (record(), b"record", "record"),
        (record(), b"\xff\xfe", "o-1"),
        (record(), None, "o-1"),
        (record(), b"", "o-1"),
    ],
)
def test_the_key_is_the_attribute_the_records_or_the_declared_one(
    headers: Headers, record_key: bytes | None, key: str
) -> None:
    assert to_event(decode(headers, BODY, record_key), PLACED).key == key


def test_an_event_without_any_key_is_refused() -> None:
    body = BODY.replace(b"o-1", b"")
    with pytest.raises(BadRecord, match="have no key") as refused:
        to_event(decode(record(), body), PLACED)
    assert refused.value.reason == "invalid_data"
    assert to_event(decode(record(), body, b"key"), PLACED).key == "key"


def test_whatever_a_check_of_the_model_raises_the_record_is_bad(catalogue: Catalogue, topic: Topic) -> None:
    @catalogue.event("a.checked", topic=topic, key=None)
    class Checked(EventData):
        code: str

        @field_validator("code")
        @classmethod
        def known(cls, code: str) -> str:
            if code == "secret":
                raise ValueError(f"{code} is unknown")
            return {"a": "b"}[code]

    checked = event_type_of(Checked)
    with pytest.raises(BadRecord, match="raise KeyError") as refused:
        to_event(decode(record(type=b"a.checked"), b'{"code":"x"}'), checked)
    assert refused.value.reason == "invalid_data"
    with pytest.raises(BadRecord, match="code: refused by a check of its own") as refused:
        to_event(decode(record(type=b"a.checked"), b'{"code":"secret"}'), checked)
    assert "secret" not in str(refused.value)


def test_an_event_without_a_time_has_that_of_the_log() -> None:
    envelope = decode(record(), BODY)
    assert to_event(envelope, PLACED, recorded_at=NOON).time == NOON
    assert to_event(envelope, PLACED).time == datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        (b"2016-12-31T23:59:60Z", datetime(2017, 1, 1, tzinfo=UTC)),
        (b"2016-12-31T23:59:60.5Z", datetime(2017, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)),
        (b"2026-01-31T12:00:00.1234567Z", datetime(2026, 1, 31, 12, 0, 0, 123_456, tzinfo=UTC)),
        (b"2026-01-31t17:30:00+05:30", NOON),
    ],
)
def test_times_are_in_utc_to_the_microsecond(text: bytes, time: datetime) -> None:
    event = to_event(decode(record(time=text), BODY), PLACED)
    assert event.time == time
    assert event.time.tzinfo is UTC


def test_members_that_a_newer_writer_added_do_not_matter() -> None:
    body = b'{"order_id":"o-1","total":{"minor_units":1,"currency":"EUR"},"gift":true}'
    assert to_event(decode(record(), body), PLACED).data == placed("o-1", 1)


@each_of(
    ("headers", "body", "reason", "sentence"),
    [
        (record(type=b"order.paid"), BODY, "wrong_type", "not of type order.placed"),
        (record(dataschema=b"urn:surefoot:order.placed:2"), BODY, "wrong_version", "of version 2"),
        ([*record(without="content-type"), ("content-type", b"text/xml")], BODY, "wrong_content_type", "not JSON"),
        (record(), b'{"order_id"', "invalid_json", "no JSON"),
        (record(), b"", "invalid_json", "no JSON"),
        (record(), b"\xff", "invalid_json", "no JSON"),
        (record(), b"[" * 100_000, "invalid_json", "no JSON"),
        (record(), None, "invalid_data", "no data"),
        (record(), b"null", "invalid_data", "as a whole: "),
        (record(), b'{"order_id":"o-1"}', "invalid_data", "total: Field required"),
        (record(), b'{"order_id":7,"total":{"minor_units":1,"currency":"EUR"}}', "invalid_data", "order_id: "),
        (record(), b'{"order_id":"","total":{"minor_units":1.5,"currency":"EUR"}}', "invalid_data", "whole number"),
        (record(), b'{"order_id":"","total":{"minor_units":1,"currency":"XXX"}}', "invalid_data", "ISO 4217"),
        (record(), BODY[:-1] + b',"x":NaN}', "invalid_json", "NaN"),
    ],
)
def test_data_that_do_not_fit_are_refused_with_a_sentence(
    headers: Headers, body: bytes | None, reason: str, sentence: str
) -> None:
    with pytest.raises(BadRecord, match=sentence) as refused:
        to_event(decode(headers, body), PLACED)
    assert refused.value.reason == reason


def test_the_sentence_names_the_field_and_never_the_value() -> None:
    body = b'{"order_id":"o-1","total":{"minor_units":1,"currency":"EUR"},"tags":["ok",4111111111111111]}'
    with pytest.raises(BadRecord, match=r"tags\.1: Input should be a valid string") as refused:
        to_event(decode(record(), body), PLACED)
    assert "4111" not in str(refused.value)


@pytest.mark.parametrize(
    "content_type", [b"application/json; charset=utf-8", b"text/json", b"application/vnd.shop+JSON"]
)
def test_every_media_type_that_is_json_is_read(content_type: bytes) -> None:
    headers = [*record(without="content-type"), ("content-type", content_type)]
    assert to_event(decode(headers, BODY), PLACED).data == placed("o-1")


def test_data_without_a_media_type_are_tried_as_json() -> None:
    assert to_event(decode(record(without="content-type"), BODY), PLACED).data == placed("o-1")


@each_of(
    ("dataschema", "version"),
    [
        (b"urn:surefoot:order.placed:1", 1),
        (b"urn:surefoot:order.placed:23", 23),
        (b"URN:SureFoot:order.placed:2", 2),
        (b"urn:surefoot:Order.Placed:2", None),
        (b"urn:surefoot:order.paid:2", None),
        (b"urn:surefoot:order.placed:0", None),
        (b"urn:surefoot:order.placed:x", None),
        (b"https://example.com/schema/2", None),
    ],
)
def test_the_version_is_read_from_a_dataschema_of_ours(dataschema: bytes, version: int | None) -> None:
    assert version_of(decode(record(dataschema=dataschema), BODY)) == version


def test_an_event_without_a_dataschema_has_no_version() -> None:
    assert version_of(decode(record(), BODY)) is None


def test_each_version_is_read_by_its_own_declaration() -> None:
    body = b'{"order_id":"018f0000-0000-7000-8000-000000000001","lines":3}'
    envelope = decode(record(dataschema=b"urn:surefoot:order.placed:2"), body)
    assert to_event(envelope, event_type_of(OrderPlacedV2)).data.lines == 3


# Round trips

texts = st.text(st.characters(exclude_categories=("Cc", "Cs", "Cn")), min_size=1, max_size=20)
ids = texts.filter(str.strip)
names = st.from_regex(r"x[a-z0-9]{1,18}", fullmatch=True)
optional = st.none() | texts
times = st.datetimes(timezones=st.just(UTC))


@st.composite
def events(draw: st.DrawFn) -> Event[OrderPlaced]:
    body_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
    order_id = draw(ids)
    return Event(
        data=placed(order_id, draw(st.integers(-(2**53) + 1, 2**53 - 1)), note=draw(st.none() | body_text)),
        id=draw(ids),
        source=draw(st.sampled_from(["/orders", "urn:shop:orders", "https://shop.example/orders?x=1#y", "#frag"])),
        type="order.placed",
        version=1,
        time=draw(times),
        key=draw(texts),
        correlation_id=draw(optional),
        causation_id=draw(optional),
        sequence=draw(optional),
        traceparent=draw(optional),
        tracestate=draw(optional),
        subject=draw(optional),
        extensions=draw(st.dictionaries(names, texts, max_size=3)),
    )


@given(events())
def test_any_event_survives_the_way_over_kafka(event: Event[OrderPlaced]) -> None:
    body = encode_data(event)
    assert to_event(decode(encode(event, body), body, event.key.encode()), PLACED) == event


some_headers = st.lists(
    st.tuples(st.sampled_from(["ce_id", "ce_type", "content-type", "ce_", "x", "ce_time"]), st.binary()), max_size=8
)


@given(some_headers, st.none() | st.binary())
def test_any_bytes_are_an_event_or_a_bad_record(headers: Headers, value: bytes | None) -> None:
    with suppress(BadRecord):
        decode(headers, value)
