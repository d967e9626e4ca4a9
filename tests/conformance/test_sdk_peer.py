"""The CloudEvents SDK as an independent peer: what we write it reads, what it writes we read.

The second half pins where the SDK differs from the specification, and that we do not. When one of those tests fails
after an upgrade, the SDK has improved: take the test out.
"""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings import kafka as sdk
from cloudevents.core.bindings.kafka import KafkaMessage
from cloudevents.core.v1.event import CloudEvent

from surefoot.events import (
    BadRecord,
    Envelope,
    Event,
    Money,
    decode,
    encode,
    encode_data,
    event_type_of,
    to_event,
)
from tests.support.order_types import OrderPlaced

TIME = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
OURS = Event(
    data=OrderPlaced(order_id="o-ä", total=Money(Decimal("19.99"), "EUR")),
    id="e-1",
    source="/shop/orders",
    type="order.placed",
    version=1,
    time=TIME,
    key="o-ä",
    correlation_id="flow-1",
    causation_id="c-1",
    sequence="0000000007",
    traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    tracestate="vendor=x",
    subject="o-ä",
    extensions={"tenant": "acme"},
)
DATA: dict[str, Any] = {"order_id": "o-ä", "total": {"minor_units": 1999, "currency": "EUR"}, "note": None, "tags": []}
EXTENSIONS = {
    "partitionkey": "o-ä",
    "correlationid": "flow-1",
    "causationid": "c-1",
    "sequence": "0000000007",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate": "vendor=x",
    "tenant": "acme",
}


def theirs(data: Any = DATA, **attributes: Any) -> CloudEvent:
    given: dict[str, Any] = {
        "id": "e-1",
        "source": "/shop/orders",
        "type": "order.placed",
        "time": TIME,
        "datacontenttype": "application/json",
        "dataschema": "urn:surefoot:order.placed:1",
        "subject": "o-ä",
        **EXTENSIONS,
        **attributes,
    }
    return CloudEvent({name: value for name, value in given.items() if value is not None}, data)


def received(message: KafkaMessage) -> Envelope:
    key = message.key.encode() if isinstance(message.key, str) else message.key
    return decode(list(message.headers.items()), message.value, key)


def sdk_reads(headers: list[tuple[str, bytes]], value: bytes, key: bytes | None = None) -> BaseCloudEvent:
    return sdk.from_kafka_event(KafkaMessage(headers=dict(headers), key=key, value=value))


# Both directions


def test_what_we_write_the_sdk_reads() -> None:
    body = encode_data(OURS)
    event = sdk_reads(encode(OURS, body), body, b"o-\xc3\xa4")
    assert (event.get_id(), event.get_source(), event.get_type()) == ("e-1", "/shop/orders", "order.placed")
    assert (event.get_specversion(), event.get_subject(), event.get_time()) == ("1.0", "o-ä", TIME)
    assert event.get_datacontenttype() == "application/json"
    assert event.get_dataschema() == "urn:surefoot:order.placed:1"
    assert {name: event.get_extension(name) for name in EXTENSIONS} == EXTENSIONS
    assert event.get_data() == DATA


def test_what_the_sdk_writes_in_binary_mode_we_read() -> None:
    assert to_event(received(sdk.to_binary_event(theirs())), event_type_of(OrderPlaced)) == OURS


def test_what_the_sdk_writes_in_structured_mode_we_read() -> None:
    assert to_event(received(sdk.to_structured_event(theirs())), event_type_of(OrderPlaced)) == OURS


def test_the_sdk_writes_the_headers_that_we_write() -> None:
    body = encode_data(OURS)
    assert sdk.to_binary_event(theirs()).headers == dict(encode(OURS, body))


def test_binary_data_of_the_sdk_are_read_in_both_modes() -> None:
    event = theirs(b"\x00\xff", datacontenttype="application/octet-stream")
    assert received(sdk.to_binary_event(event)).data == b"\x00\xff"
    assert received(sdk.to_structured_event(event)).data == b"\x00\xff"


def test_text_of_the_sdk_is_read_in_both_modes() -> None:
    event = theirs("<a/>", datacontenttype="application/xml")
    assert received(sdk.to_binary_event(event)).data == b"<a/>"
    assert received(sdk.to_structured_event(event)).data == b"<a/>"


def test_extensions_of_other_types_are_read() -> None:
    attributes = received(sdk.to_structured_event(theirs(attempt=3, urgent=True))).attributes
    assert (attributes["attempt"], attributes["urgent"]) == ("3", "true")


# Where the SDK differs, and we do not


REQUIRED = {"ce_specversion": b"1.0", "ce_id": b"e-1", "ce_source": b"/s", "ce_type": b"t"}


def refusal(headers: dict[str, bytes], value: bytes | None) -> str:
    with pytest.raises(BadRecord) as refused:
        decode(list(headers.items()), value)
    return refused.value.reason


def test_the_sdk_makes_up_an_id_and_we_refuse() -> None:
    headers = {name: value for name, value in REQUIRED.items() if name != "ce_id"}
    message = KafkaMessage(headers=headers, key=None, value=b"{}")
    assert sdk.from_kafka_event(message).get_id() != sdk.from_kafka_event(message).get_id()
    assert refusal(headers, b"{}") == "missing_id"


def test_the_sdk_makes_up_an_id_in_structured_mode_too_and_we_refuse() -> None:
    headers, value = (
        {"content-type": b"application/cloudevents+json"},
        b'{"specversion":"1.0","source":"/s","type":"t"}',
    )
    message = KafkaMessage(headers=headers, key=None, value=value)
    assert sdk.from_kafka_event(message).get_id() != sdk.from_kafka_event(message).get_id()
    assert refusal(headers, value) == "missing_id"


def test_the_sdk_makes_up_a_specversion_and_we_refuse() -> None:
    headers = {name: value for name, value in REQUIRED.items() if name != "ce_specversion"}
    assert sdk.from_kafka_event(KafkaMessage(headers=headers, key=None, value=b"{}")).get_specversion() == "1.0"
    assert refusal(headers, b"{}") == "bad_specversion"


def test_the_sdk_takes_any_ce_header_for_binary_mode_and_we_go_by_content_type() -> None:
    value = b'{"specversion":"1.0","id":"inner","source":"/s","type":"t"}'
    headers = {**REQUIRED, "ce_id": b"outer", "content-type": b"application/cloudevents+json"}
    assert sdk_reads(list(headers.items()), value).get_id() == "outer"
    assert decode(list(headers.items()), value).id == "inner"


def test_the_sdk_takes_a_record_without_ce_headers_for_structured_and_we_refuse() -> None:
    value = b'{"specversion":"1.0","id":"1","source":"/s","type":"t"}'
    assert sdk_reads([("content-type", b"application/json")], value).get_id() == "1"
    assert refusal({"content-type": b"application/json"}, value) == "not_an_event"


def test_the_sdk_reads_broken_json_as_text_and_we_keep_the_bytes() -> None:
    headers = {**REQUIRED, "content-type": b"application/json", "ce_type": b"order.placed"}
    assert sdk_reads(list(headers.items()), b'{"order_id":').get_data() == '{"order_id":'
    envelope = decode(list(headers.items()), b'{"order_id":')
    assert envelope.data == b'{"order_id":'
    with pytest.raises(BadRecord) as refused:
        to_event(envelope, event_type_of(OrderPlaced))
    assert refused.value.reason == "invalid_json"


def test_the_sdk_writes_a_list_as_python_and_that_is_no_json_to_us() -> None:
    message = sdk.to_binary_event(theirs(["a"]))
    assert message.value == b"['a']"
    with pytest.raises(BadRecord) as refused:
        to_event(received(message), event_type_of(OrderPlaced))
    assert refused.value.reason == "invalid_json"


def test_the_sdk_makes_the_key_an_attribute_and_we_leave_the_event_alone() -> None:
    headers = {**REQUIRED, "ce_partitionkey": b"attribute"}
    assert sdk_reads(list(headers.items()), b"{}", b"record").get_extension("partitionkey") == "record"
    envelope = decode(list(headers.items()), b"{}", b"record")
    assert (envelope.attributes["partitionkey"], envelope.record_key) == ("attribute", b"record")


def test_the_sdk_fails_on_a_key_that_is_no_text_and_we_do_not() -> None:
    with pytest.raises(UnicodeDecodeError):
        sdk_reads(list(REQUIRED.items()), b"{}", b"\xff")
    assert decode(list(REQUIRED.items()), b"{}", b"\xff").id == "e-1"


def test_the_sdk_fails_on_a_foreign_header_that_is_no_text_and_we_do_not() -> None:
    headers = {**REQUIRED, "b3": b"\xff"}
    with pytest.raises(UnicodeDecodeError):
        sdk_reads(list(headers.items()), b"{}")
    assert decode(list(headers.items()), b"{}").id == "e-1"


def test_the_sdk_cuts_nanoseconds_and_we_keep_the_text() -> None:
    headers = {**REQUIRED, "ce_time": b"2026-01-31T12:00:00.123456789Z"}
    assert sdk_reads(list(headers.items()), b"{}").get_time() == TIME
    assert decode(list(headers.items()), b"{}").attributes["time"] == "2026-01-31T12:00:00.123456789Z"


def test_the_sdk_writes_no_data_as_an_empty_value_and_we_keep_the_difference() -> None:
    message = sdk.to_binary_event(theirs(None))
    assert message.value == b""
    assert received(message).data == b""
    assert decode(list(message.headers.items()), None).data is None


def test_the_sdk_rounds_numbers_in_structured_data_and_we_keep_the_text() -> None:
    data = '{"amount":0.10000000000000000001}'
    value = f'{{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{data}}}'.encode()
    headers = [("content-type", b"application/cloudevents+json")]
    assert json.dumps(sdk_reads(headers, value).get_data()) == '{"amount": 0.1}'
    assert decode(headers, value).data == data.encode()


def test_the_sdk_changes_the_mapping_it_is_given_and_we_do_not() -> None:
    attributes = {"source": "/s", "type": "t"}
    CloudEvent(attributes)
    assert set(attributes) == {"source", "type", "specversion", "id", "time"}
    headers = list(REQUIRED.items())
    decode(headers, b"{}")
    assert headers == list(REQUIRED.items())
