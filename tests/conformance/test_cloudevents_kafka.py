"""The published expectations of CloudEvents, held to our binding.

Three sources, written out here as data: the conformance feature for the Kafka protocol binding
(cloudevents/conformance), the valid and invalid events of its JSON format suite, and the examples of the JSON format's
own specification (section 3.2) with their re-encodings in binary mode. What is expected is what those documents say,
not what our code gives.
"""

import json
from typing import Any

import pytest

from surefoot.events import BadRecord, Envelope, decode
from tests.support.corpus import each_of

HELLO = b'{"message": "Hello World!"}'
EXPECTED = {
    "id": "1234-1234-1234",
    "specversion": "1.0",
    "type": "com.example.someevent",
    "source": "/mycontext/subcontext",
    "time": "2018-04-05T03:56:24Z",
    "datacontenttype": "application/json",
}


def structured(event: dict[str, Any] | str) -> Envelope:
    value = event if isinstance(event, str) else json.dumps(event)
    return decode([("content-type", b"application/cloudevents+json")], value.encode())


# The feature "Kafka Protocol Binding"


def test_binary_content_mode() -> None:
    envelope = decode(
        [
            ("ce_specversion", b"1.0"),
            ("ce_id", b"1234-1234-1234"),
            ("ce_type", b"com.example.someevent"),
            ("ce_source", b"/mycontext/subcontext"),
            ("ce_time", b"2018-04-05T03:56:24Z"),
            ("content-type", b"application/json"),
        ],
        HELLO,
    )
    assert dict(envelope.attributes) == EXPECTED
    assert envelope.data == HELLO


@pytest.mark.parametrize(
    "content_type", ["application/cloudevents+json", "application/cloudevents+json; charset=utf-8"]
)
def test_structured_content_mode(content_type: str) -> None:
    value = b"""{
        "specversion": "1.0",
        "type": "com.example.someevent",
        "time": "2018-04-05T03:56:24Z",
        "id": "1234-1234-1234",
        "source": "/mycontext/subcontext",
        "datacontenttype": "application/json",
        "data": {
            "message": "Hello World!"
        }
    }"""
    envelope = decode([("content-type", content_type.encode())], value)
    assert dict(envelope.attributes) == EXPECTED
    assert envelope.data is not None
    assert json.loads(envelope.data) == {"message": "Hello World!"}


# The binding's own sentences


def test_an_event_without_data_is_a_record_without_a_value() -> None:
    headers = [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_type", b"t"), ("ce_source", b"/s")]
    assert decode(headers, None).data is None


def test_a_record_key_adds_no_attribute() -> None:
    headers = [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_type", b"t"), ("ce_source", b"/s")]
    assert set(decode(headers, None, b"mykey").attributes) == {"specversion", "id", "type", "source"}


@pytest.mark.parametrize(
    "content_type", [b"Application/CloudEvents+Json", b"application/cloudevents+json;charset=UTF-8"]
)
def test_the_mode_is_matched_whatever_the_case(content_type: bytes) -> None:
    value = b'{"specversion":"1.0","id":"1","type":"t","source":"/s"}'
    assert decode([("content-type", content_type)], value).id == "1"


def test_structured_records_may_repeat_the_headers_of_binary_mode() -> None:
    headers = [("ce_id", b"1"), ("ce_type", b"t"), ("content-type", b"application/cloudevents+json")]
    assert decode(headers, b'{"specversion":"1.0","id":"1","type":"t","source":"/s"}').source == "/s"


def test_batches_are_not_part_of_the_binding() -> None:
    with pytest.raises(BadRecord) as refused:
        decode([("content-type", b"application/cloudevents-batch+json")], b"[]")
    assert refused.value.reason == "batch_unsupported"


# The JSON format suite: valid events

MINIMAL = {
    "specversion": "1.0",
    "id": "minimal",
    "type": "io.cloudevents.test",
    "source": "https://cloudevents.io",
}


def test_a_minimal_event() -> None:
    assert dict(structured(MINIMAL).attributes) == MINIMAL


def test_null_for_optional_attributes_is_a_minimal_event() -> None:
    nulls = {"datacontenttype": None, "dataschema": None, "subject": None, "time": None}
    assert dict(structured(MINIMAL | nulls).attributes) == MINIMAL


def test_all_core_attributes() -> None:
    core = {
        "datacontenttype": "text/plain",
        "dataschema": "https://cloudevents.io/dataschema",
        "subject": "tests",
        "time": "2018-04-05T17:31:00Z",
    }
    assert dict(structured(MINIMAL | core).attributes) == MINIMAL | core


@pytest.mark.parametrize(
    "time",
    [
        "2018-04-05T17:31:00Z",
        "2018-04-05T17:31:00.000000000Z",
        "2018-04-05T18:31:00+01:00",
        "2018-04-05T16:31:00-01:00",
    ],
)
def test_valid_times(time: str) -> None:
    assert structured(MINIMAL | {"time": time}).attributes["time"] == time


def test_a_relative_source() -> None:
    assert structured(MINIMAL | {"source": "#fragment"}).source == "#fragment"


def test_simple_text_data() -> None:
    assert structured(MINIMAL | {"datacontenttype": "text/plain", "data": "Simple text"}).data == b"Simple text"


def test_extensions_of_all_types() -> None:
    sent = {
        "extinteger": 10,
        "extboolean": True,
        "extstring": "text",
        "exturi": "https://cloudevents.io",
        "exturiref": "//authority/path",
        "exttimestamp": "2023-03-31T15:12:00Z",
        "extbinary": "TWE=",
    }
    texts = sent | {"extinteger": "10", "extboolean": "true"}
    assert dict(structured(MINIMAL | sent).attributes) == MINIMAL | texts


# The JSON format suite: invalid events


def without(name: str) -> dict[str, Any]:
    return {each: value for each, value in MINIMAL.items() if each != name}


@each_of(
    ("event", "reason"),
    [
        pytest.param(without("specversion"), "bad_specversion", id="no specversion"),
        pytest.param(without("id"), "missing_id", id="no id"),
        pytest.param(without("type"), "missing_type", id="no type"),
        pytest.param(without("source"), "missing_source", id="no source"),
        pytest.param(MINIMAL | {"time": "lunchtime"}, "bad_time", id="garbage time"),
        pytest.param(MINIMAL | {"time": "2018-04-05T18:31Z"}, "bad_time", id="time to the minute"),
        pytest.param(MINIMAL | {"time": "2018-04-05T18:31:00X"}, "bad_time", id="offset X"),
        pytest.param(MINIMAL | {"time": "2018-04-05T18:31:00+25:00"}, "bad_time", id="offset out of range"),
        pytest.param(MINIMAL | {"time": "2018-04-05T18:31:00+xx:00"}, "bad_time", id="offset no integer"),
        pytest.param(MINIMAL | {"time": "2018-04-05T18:31:00+05"}, "bad_time", id="offset of hours only"),
        pytest.param(MINIMAL | {"id": ""}, "missing_id", id="empty id"),
        pytest.param(MINIMAL | {"type": ""}, "missing_type", id="empty type"),
        pytest.param(MINIMAL | {"source": ""}, "missing_source", id="empty source"),
        pytest.param(MINIMAL | {"specversion": ""}, "bad_specversion", id="empty specversion"),
        pytest.param(MINIMAL | {"specversion": "0.9"}, "bad_specversion", id="unknown specversion"),
        pytest.param(MINIMAL | {"datacontenttype": "xyz"}, "bad_attribute_value", id="no media type"),
        pytest.param(MINIMAL | {"datacontenttype": ""}, "bad_attribute_value", id="empty media type"),
        pytest.param(MINIMAL | {"dataschema": ""}, "bad_attribute_value", id="empty dataschema"),
        pytest.param(MINIMAL | {"subject": ""}, "bad_attribute_value", id="empty subject"),
        pytest.param(MINIMAL | {"id": 25}, "bad_attribute_value", id="numeric id"),
        pytest.param(MINIMAL | {"id": {"xyz": "abc"}}, "bad_attribute_value", id="object id"),
        pytest.param(MINIMAL | {"MyExtension": "bad"}, "bad_attribute_name", id="capital extension"),
        pytest.param(MINIMAL | {"my.extension": "bad"}, "bad_attribute_name", id="punctuated extension"),
        pytest.param(MINIMAL | {"myextension": 1.5}, "bad_attribute_value", id="fraction"),
        pytest.param(
            MINIMAL | {"data": "text", "data_base64": "eyAieHl6IjogMTIzIH0="}, "data_and_base64", id="data twice"
        ),
    ],
)
def test_invalid_events_are_refused(event: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadRecord) as refused:
        structured(event)
    assert refused.value.reason == reason


# The JSON format's specification, section 3.2: each event and its re-encoding in binary mode


def example(letter: str, members: str) -> Envelope:
    return structured(f"""{{
        "specversion" : "1.0",
        "type" : "com.example.someevent",
        "source" : "/mycontext",
        "id" : "{letter}234-1234-1234",
        "time" : "2018-04-05T17:31:00Z",
        "comexampleextension1" : "value",
        "comexampleothervalue" : 5,
        {members}
    }}""")


def attributes(letter: str, **more: str) -> dict[str, str]:
    return {
        "specversion": "1.0",
        "type": "com.example.someevent",
        "source": "/mycontext",
        "id": f"{letter}234-1234-1234",
        "time": "2018-04-05T17:31:00Z",
        "comexampleextension1": "value",
        "comexampleothervalue": "5",
        **more,
    }


def test_example_with_binary_data() -> None:
    members = '"datacontenttype" : "application/vnd.apache.thrift.binary", "data_base64" : "gAEAAQ=="'
    envelope = example("A", members)
    assert dict(envelope.attributes) == attributes("A", datacontenttype="application/vnd.apache.thrift.binary")
    assert envelope.data == b"\x80\x01\x00\x01"


def test_example_with_an_xml_document() -> None:
    members = '"unsetextension": null, "datacontenttype" : "application/xml", "data" : "<much wow=\\"xml\\"/>"'
    envelope = example("B", members)
    assert dict(envelope.attributes) == attributes("B", datacontenttype="application/xml")
    assert envelope.data == b'<much wow="xml"/>'


def test_example_with_a_json_object() -> None:
    data = '{\n "appinfoA" : "abc",\n "appinfoB" : 123,\n "appinfoC" : true\n}'
    envelope = example("C", f'"subject": null, "datacontenttype" : "application/json", "data" : {data}')
    assert dict(envelope.attributes) == attributes("C", datacontenttype="application/json")
    assert envelope.data == data.encode()


def test_example_with_a_json_string_and_no_media_type() -> None:
    envelope = example("D", '"subject": null, "data" : "I\'m just a string"')
    assert dict(envelope.attributes) == attributes("D")
    assert envelope.data == b'"I\'m just a string"'


def test_an_explicit_null_is_data_and_an_absent_member_is_none() -> None:
    assert example("E", '"data" : null').data == b"null"
    assert example("F", '"subject" : "s"').data is None
