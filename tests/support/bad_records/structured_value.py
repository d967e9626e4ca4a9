"""Structured mode: values that are no JSON object in UTF-8, other formats, batches, and data in Base64.

Where the JSON is broken nobody knows which event it is, even if an id stands in the readable part of it.
"""

import gzip

from tests.support.bad_records.case import (
    STRUCTURED,
    BadCase,
    good_members,
    identified,
    json_object,
    structured,
    unreadable,
)


def _good(name: str) -> bytes:
    return json_object(good_members(name))


def _value(name: str, value: bytes) -> BadCase:
    return unreadable(name, "invalid_json", value, ("content-type", STRUCTURED))


_DEEP = 100_000

BROKEN = [
    _value("structured, an empty value", b""),
    _value("structured, white space alone", b" \r\n\t"),
    _value("structured, cut in the middle", _good("cut")[:60]),
    _value("structured, cut before the last brace", _good("cut")[:-1]),
    _value("structured, cut within a character", '{"specversion":"1.0","subject":"ä'.encode()[:-1]),
    _value("structured, a comma behind the last member", _good("comma")[:-1] + b",}"),
    _value("structured, two commas", b'{"specversion":"1.0",,"id":"e-1"}'),
    _value("structured, no comma", b'{"specversion":"1.0" "id":"e-1"}'),
    _value("structured, no colon", b'{"specversion" "1.0"}'),
    _value("structured, a member without a value", b'{"specversion":}'),
    _value("structured, a member without a name", b'{"specversion":"1.0",:"e-1"}'),
    _value("structured, a number for a name", b'{"specversion":"1.0",1:"e-1"}'),
    _value("structured, names without quotes", b'{specversion:"1.0",id:"e-1"}'),
    _value("structured, single quotes", _good("single").replace(b'"', b"'")),
    _value("structured, a comment", b'{/* event */"specversion":"1.0"}'),
    _value("structured, more behind the object", _good("more") + b"{}"),
    _value("structured, one event per line", _good("line") + b"\n" + _good("next")),
    _value("structured, a NUL behind the object", _good("nul") + b"\x00"),
    _value("structured, a byte order mark", b"\xef\xbb\xbf" + _good("bom")),
    _value("structured, UTF-16", _good("utf-16").decode().encode("utf-16")),
    _value("structured, UTF-16 without a mark", _good("utf-16-be").decode().encode("utf-16-be")),
    _value("structured, UTF-32", _good("utf-32").decode().encode("utf-32")),
    _value("structured, Latin-1", '{"specversion":"1.0","subject":"Größe"}'.encode("latin-1")),
    _value("structured, gzip", gzip.compress(_good("gzip"), mtime=0)),
    _value("structured, protobuf", b"\x0a\x03e-1\x12\x06/tests\x1a\x031.0"),
    _value("structured, Avro of a schema registry", b"\x00\x00\x00\x00\x2a\x06e-1"),
    _value("structured, XML", b"<event specversion='1.0'/>"),
    _value("structured, a word", b"event"),
    _value("structured, Python's repr", b"{'specversion': '1.0', 'time': None}"),
    _value("structured, a raw tab in a text", b'{"specversion":"1.0","subject":"a\tb"}'),
    _value("structured, an unknown escape", b'{"specversion":"1.0","subject":"\\x41"}'),
    _value("structured, a cut escape", b'{"specversion":"1.0","subject":"\\u00"}'),
    _value("structured, lists 100,000 deep", b"[" * _DEEP + b"]" * _DEEP),
    _value("structured, objects 100,000 deep", b'{"a":' * _DEEP + b"1" + b"}" * _DEEP),
    _value("structured, lists that never end", b"[" * _DEEP),
]

BROKEN_MEMBERS = [
    structured("structured, NaN for an extension", "invalid_json", count="NaN"),
    structured("structured, Infinity for an extension", "invalid_json", count="-Infinity"),
    structured("structured, NaN in the data", "invalid_json", data='{"thing_id":"t-1","number":NaN}'),
    structured("structured, Infinity in the data", "invalid_json", data='{"thing_id":"t-1","number":Infinity}'),
    structured("structured, undefined data", "invalid_json", data="undefined"),
    structured("structured, Python's None for data", "invalid_json", data="None"),
    structured("structured, a leading zero in the data", "invalid_json", data='{"thing_id":"t-1","number":007}'),
    structured("structured, a hexadecimal number in the data", "invalid_json", data='{"thing_id":"t-1","number":0x7}'),
    structured("structured, a comma too many in the data", "invalid_json", data='{"thing_id":"t-1",}'),
    structured("structured, data that are cut", "invalid_json", data='{"thing_id":"t-1"'),
    structured("structured, data in lists 100,000 deep", "invalid_json", data="[" * _DEEP + "]" * _DEEP),
    structured("structured, data in objects 100,000 deep", "invalid_json", data='{"a":' * _DEEP + "1" + "}" * _DEEP),
    structured("structured, data in lists 201 deep", "invalid_json", data="[" * 201 + "]" * 201),
    structured("structured, data in lists 300 deep", "invalid_json", data="[" * 300 + "]" * 300),
    structured("structured, data in lists 800 deep", "invalid_json", data="[" * 800 + "]" * 800),
    structured("structured, data in objects 201 deep", "invalid_json", data='{"a":' * 201 + "1" + "}" * 201),
    structured("structured, an extension 201 deep", "invalid_json", tenant="[" * 201 + "]" * 201),
    structured("structured, an extension 100,000 deep", "invalid_json", tenant="[" * _DEEP + "]" * _DEEP),
    structured(
        "structured, text data of half a surrogate pair",
        "invalid_json",
        datacontenttype='"text/plain"',
        data='"\\ud800"',
    ),
]

NO_OBJECTS = [
    unreadable(f"structured, {what}", "not_an_object", value, ("content-type", STRUCTURED))
    for what, value in {
        "an empty list": b"[]",
        "a list of one event": b"[" + _good("listed") + b"]",
        "a text": b'"event"',
        "an event within a text": b'"{\\"specversion\\":\\"1.0\\",\\"id\\":\\"e-1\\"}"',
        "null": b"null",
        "true": b"true",
        "a number": b"1.0",
        "a number of 100,000 digits": b"9" * 100_000,
        "null and white space": b"\n null \n",
    }.items()
]

FORMATS = [
    structured("a batch of one", "batch_unsupported", content_type=b"application/cloudevents-batch+json"),
    structured("a batch in capitals", "batch_unsupported", content_type=b"APPLICATION/CLOUDEVENTS-BATCH+JSON"),
    structured(
        "a batch with a charset", "batch_unsupported", content_type=b"application/cloudevents-batch+json; charset=UTF-8"
    ),
    structured("a batch in Avro", "batch_unsupported", content_type=b"application/cloudevents-batch+avro"),
    structured("a batch of no format", "batch_unsupported", content_type=b"application/cloudevents-batch"),
    unreadable("an empty batch", "batch_unsupported", b"[]", ("content-type", b"application/cloudevents-batch+json")),
    unreadable(
        "a batch without a value", "batch_unsupported", None, ("Content-Type", b"application/cloudevents-batch+json")
    ),
    structured("structured, Avro", "unsupported_format", content_type=b"application/cloudevents+avro"),
    structured(
        "structured, the compact Avro", "unsupported_format", content_type=b"application/cloudevents+avro-compact"
    ),
    structured(
        "structured, the format of protobuf", "unsupported_format", content_type=b"application/cloudevents+protobuf"
    ),
    structured("structured, XML as its format", "unsupported_format", content_type=b"application/cloudevents+xml"),
    structured("structured, CBOR", "unsupported_format", content_type=b"application/cloudevents+cbor"),
    structured("structured, no format", "unsupported_format", content_type=b"application/cloudevents"),
    structured("structured, an empty format", "unsupported_format", content_type=b"application/cloudevents+"),
    structured("structured, json misspelt", "unsupported_format", content_type=b"application/cloudevents+jsn"),
    structured(
        "structured, a list of JSON texts", "unsupported_format", content_type=b"application/cloudevents+json-seq"
    ),
    structured("structured, json after a dash", "unsupported_format", content_type=b"application/cloudevents-json"),
    structured("structured, declared as UTF-16", "unsupported_format", content_type=STRUCTURED + b"; charset=utf-16"),
    structured(
        "structured, declared as Latin-1", "unsupported_format", content_type=STRUCTURED + b';charset="ISO-8859-1"'
    ),
    unreadable(
        "structured, Avro without a value",
        "unsupported_format",
        None,
        ("content-type", b"application/cloudevents+avro"),
    ),
    unreadable(
        "structured, Avro with all the attributes beside it",
        "unsupported_format",
        b"\x00\x01",
        ("ce_specversion", b"1.0"),
        ("ce_id", b"e-1"),
        ("ce_source", b"/tests"),
        ("ce_type", b"thing.happened"),
        ("content-type", b"application/cloudevents+avro"),
    ),
]


def _base64(what: str, text: str) -> BadCase:
    return structured(f"structured, data_base64 {what}", "bad_base64", f'"data_base64":{text}', without="data")


BASE64 = [
    structured("structured, data and data_base64", "data_and_base64", '"data_base64":"e30="'),
    structured("structured, data and empty data_base64", "data_and_base64", '"data_base64":""'),
    structured("structured, data and broken data_base64", "data_and_base64", '"data_base64":"?"'),
    structured("structured, null data and data_base64", "data_and_base64", '"data_base64":"e30="', data="null"),
    _base64("without padding", '"e30"'),
    _base64("with half its padding", '"eyJ9Cg="'),
    _base64("of one letter", '"e"'),
    _base64("for URLs", '"-_-_"'),
    _base64("with a space", '"e3 0="'),
    _base64("with a line end", '"e30=\\n"'),
    _base64("with padding in the middle", '"e3=0"'),
    _base64("of hexadecimal digits", '"7b7d0"'),
    _base64("with an umlaut", '"ä30="'),
    _base64("that is plain JSON", '"{\\"thing_id\\":\\"t-1\\"}"'),
    _base64("that is an object", '{"thing_id":"t-1"}'),
    _base64("that is a number", "30"),
    _base64("that is a number of 100,000 digits", "9" * 100_000),
    _base64("that is a list of bytes", "[123,125]"),
    _base64("that is false", "false"),
]


def _encoded(what: str, text: str) -> BadCase:
    case = structured(f"structured, Base64 of {what}", "invalid_json", f'"data_base64":"{text}"', without="data")
    return identified(case)


# Here the envelope is good: what is broken is within the data.
ENCODED = [
    _encoded("nothing", ""),
    _encoded("one NUL", "AA=="),
    _encoded("cut JSON", "eyJ0aGluZ19pZCI6"),
    _encoded("no UTF-8", "//79"),
    _encoded("Base64", "ZTMwPQ=="),
    _encoded("NaN", "TmFO"),
]

CASES = (*BROKEN, *BROKEN_MEMBERS, *NO_OBJECTS, *FORMATS, *BASE64, *ENCODED)
