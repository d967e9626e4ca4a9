"""Structured mode: a whole event in the value, its data kept to the letter."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.events import BadRecord, Envelope, decode, event_type_of, to_event
from tests.support.corpus import each_of
from tests.support.order_types import OrderPlaced, placed

HEADERS = [("content-type", b"application/cloudevents+json")]
REQUIRED = '"specversion":"1.0","id":"e-1","source":"/orders","type":"order.placed"'


def read(members: str) -> Envelope:
    return decode(HEADERS, f"{{{REQUIRED}{members}}}".encode())


def reason_of(value: bytes | None, content_type: bytes = HEADERS[0][1]) -> str:
    with pytest.raises(BadRecord) as refused:
        decode([("content-type", content_type)], value)
    return refused.value.reason


@each_of(
    "data",
    [
        '{ "b" : 1 , "a": [1,2 , 3] }',
        "123456789012345678901234567890",
        "0.1000000000000000055511151231257827",
        "1E400",
        "-0",
        '"a \\u00e4 \\ud83d\\ude00 \\/ text"',
        "null",
        "true",
        '{"a":1,"a":2}',
        "9" * 5000,
        '"ä"',
    ],
)
def test_the_text_of_data_stays_as_it_was_sent(data: str) -> None:
    assert read(f' , "data" :  {data}  , "subject":"s"').data == data.encode()


def test_an_event_without_data_has_none() -> None:
    assert read("").data is None
    assert read(',"data_base64":null').data is None


def test_data_in_base64_become_bytes() -> None:
    assert read(',"data_base64":"AP8="').data == b"\x00\xff"
    assert read(',"data_base64":""').data == b""


def test_a_text_of_another_media_type_becomes_its_bytes() -> None:
    envelope = read(',"datacontenttype":"application/xml","data":"<a b=\\"\\u00e4\\"/>"')
    assert envelope.data == '<a b="ä"/>'.encode()


def test_a_text_that_is_json_stays_json() -> None:
    assert read(',"datacontenttype":"application/json","data":"text"').data == b'"text"'
    assert read(',"data":"text"').data == b'"text"'


def test_extensions_become_their_canonical_texts() -> None:
    envelope = read(',"yes":true,"no":false,"count":-7,"least":-2147483648,"text":"x","unset":null')
    assert {name: envelope.attributes.get(name) for name in ("yes", "no", "count", "least", "text", "unset")} == {
        "yes": "true",
        "no": "false",
        "count": "-7",
        "least": "-2147483648",
        "text": "x",
        "unset": None,
    }


def test_a_null_optional_attribute_is_not_set() -> None:
    envelope = read(',"subject":null,"time":null,"dataschema":null,"datacontenttype":null')
    assert set(envelope.attributes) == {"specversion", "id", "source", "type"}


def test_the_mode_is_chosen_by_content_type_whatever_the_headers_say() -> None:
    headers = [("ce_id", b"other"), ("Content-Type", b'Application/CloudEvents+JSON ; Charset="UTF-8"')]
    assert decode(headers, f"{{{REQUIRED}}}".encode()).id == "e-1"


def test_space_around_everything_is_allowed() -> None:
    value = b' \r\n\t{ "specversion" : "1.0" , "id":"e-1"\n,"source":"/a","type":"t" } \n'
    assert decode(HEADERS, value).id == "e-1"


def test_names_may_be_escaped() -> None:
    assert read(',"\\u0073ubject":"s"').attributes["subject"] == "s"


@each_of(
    ("members", "reason"),
    [
        (',"subject":1', "bad_attribute_value"),
        (',"count":1.0', "bad_attribute_value"),
        (',"count":1e3', "bad_attribute_value"),
        (',"count":2147483648', "bad_attribute_value"),
        (',"thing":{}', "bad_attribute_value"),
        (',"thing":[]', "bad_attribute_value"),
        (',"thing":"\\u0000"', "bad_attribute_value"),
        (',"thing":"\\ud800"', "bad_attribute_value"),
        (',"subject":""', "bad_attribute_value"),
        (',"myThing":"x"', "bad_attribute_name"),
        (',"my_thing":"x"', "bad_attribute_name"),
        (',"":"x"', "bad_attribute_name"),
        (',"id":"e-2"', "duplicate_attribute"),
        (',"\\u0069d":"e-1"', "duplicate_attribute"),
        (',"data":1,"data":1', "duplicate_attribute"),
        (',"data":1,"data_base64":"AA=="', "data_and_base64"),
        (',"data":null,"data_base64":"AA=="', "data_and_base64"),
        (',"data_base64":"A"', "bad_base64"),
        (',"data_base64":"A A="', "bad_base64"),
        (',"data_base64":"-_8="', "bad_base64"),
        (',"data_base64":"ä"', "bad_base64"),
        (',"data_base64":7', "bad_base64"),
        (',"time":"now"', "bad_time"),
        (',"data":NaN', "invalid_json"),
        (',"data":-Infinity', "invalid_json"),
        (',"data":{"a":01}', "invalid_json"),
        (',"data":"\t"', "invalid_json"),
        (',"data":', "invalid_json"),
        (",", "invalid_json"),
        (',"a"', "invalid_json"),
        (',"a" "b"', "invalid_json"),
        (",1:2", "invalid_json"),
        (',"a":"b" "c":"d"', "invalid_json"),
        (',"count":' + "9" * 5000, "bad_attribute_value"),
        (',"data_base64":' + "9" * 5000, "bad_base64"),
        ("," + "9" * 5000 + ":1", "invalid_json"),
        (',"data":' + "[" * 100_000, "invalid_json"),
        (',"data":' + "[" * 100_000 + "]" * 100_000, "invalid_json"),
        (',"datacontenttype":"text/plain","data":"\\ud800"', "invalid_json"),
    ],
)
def test_a_bad_event_is_refused_with_its_reason(members: str, reason: str) -> None:
    assert reason_of(f"{{{REQUIRED}{members}}}".encode()) == reason


@each_of(
    ("value", "reason"),
    [
        (None, "null_value"),
        (b"", "invalid_json"),
        (b"\xff", "invalid_json"),
        (b"\xef\xbb\xbf{}", "invalid_json"),
        (b"{", "invalid_json"),
        (b"[", "invalid_json"),
        (b"{} {}", "invalid_json"),
        (b"[]", "not_an_object"),
        (b'"text"', "not_an_object"),
        (b"null", "not_an_object"),
        (b"{}", "bad_specversion"),
        (b'{"specversion":1.0}', "bad_attribute_value"),
        (b'{"specversion":"1.0","source":"/a","type":"t"}', "missing_id"),
        (b'{"specversion":"1.0","source":"/a","type":"t","id":null}', "missing_id"),
        (b'{"specversion":"1.0","source":"/a","type":"t","id":7}', "bad_attribute_value"),
        (b'{"specversion":"1.0","id":"1","type":"t"}', "missing_source"),
        (b'{"specversion":"1.0","id":"1","source":"/a"}', "missing_type"),
    ],
)
def test_a_bad_value_is_refused_with_its_reason(value: bytes | None, reason: str) -> None:
    assert reason_of(value) == reason


@each_of(
    ("content_type", "reason"),
    [
        (b"application/cloudevents-batch+json", "batch_unsupported"),
        (b"APPLICATION/CLOUDEVENTS-BATCH+JSON; charset=utf-8", "batch_unsupported"),
        (b"application/cloudevents+avro", "unsupported_format"),
        (b"application/cloudevents", "unsupported_format"),
        (b"application/cloudevents+jsonx", "unsupported_format"),
        (b"application/cloudevents+json; charset=iso-8859-1", "unsupported_format"),
    ],
)
def test_other_formats_are_refused(content_type: bytes, reason: str) -> None:
    assert reason_of(f"{{{REQUIRED}}}".encode(), content_type) == reason


def test_a_structured_event_becomes_a_typed_one() -> None:
    envelope = read(',"partitionkey":"o-1","data":{"order_id":"o-1","total":{"currency":"EUR","minor_units":1999}}')
    event = to_event(envelope, event_type_of(OrderPlaced))
    assert event.data == placed("o-1")
    assert event.key == "o-1"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, st.sampled_from([None, 2]), st.booleans())
def test_any_json_is_kept_to_the_letter(data: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(data, indent=indent, ensure_ascii=ascii_only)
    assert read(f',"data":{text},"subject":"s"').data == text.encode()


@given(st.binary(max_size=40) | st.text('{}[]:,"\\ud01ataE.-n \n', max_size=40).map(str.encode))
def test_any_bytes_are_an_event_or_a_bad_record(value: bytes) -> None:
    with suppress(BadRecord):
        decode(HEADERS, value)
