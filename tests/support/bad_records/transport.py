"""Records that are no CloudEvent at all, tombstones, far too many headers, and keys of all kinds."""

import gzip
import struct

from tests.support.bad_records.case import (
    HAPPENED,
    STRUCTURED,
    BadCase,
    binary,
    good_headers,
    good_members,
    identified,
    json_object,
    keyed,
    structured,
    unreadable,
    with_data,
)

_JSON = ("content-type", b"application/json")
_STRUCTURED = ("content-type", STRUCTURED)

# A null value in binary mode is an event without data, says the binding for Kafka: an event all the same, but neither
# of our types can do without data.
TOMBSTONES = [
    unreadable("tombstone, nothing but a key", "null_value", None),
    keyed(unreadable("tombstone, without even a key", "null_value", None), None),
    unreadable("tombstone, a foreign header", "null_value", None, ("trace", b"0af7651916cd43dd")),
    unreadable("tombstone, a foreign header that is not UTF-8", "null_value", None, ("trace", b"\xff\xfe")),
    unreadable("tombstone, says it is JSON", "null_value", None, _JSON),
    unreadable("tombstone, headers of the HTTP binding", "null_value", None, ("ce-id", b"1"), ("ce-type", b"t")),
    unreadable("tombstone, says it is a structured event", "null_value", None, _STRUCTURED),
    unreadable(
        "tombstone, structured with charset", "null_value", None, ("content-type", STRUCTURED + b"; charset=utf-8")
    ),
    unreadable(
        "tombstone, structured with all the attributes beside it",
        "null_value",
        None,
        *[header for header in good_headers("t").items() if header[0] != "content-type"],
        _STRUCTURED,
    ),
    with_data("tombstone, a whole envelope", "invalid_data", None),
    identified(
        binary("tombstone, an envelope without a content type", "invalid_data", value=None, without="content-type")
    ),
    keyed(with_data("tombstone, an envelope without a key", "invalid_data", None), None),
    binary("tombstone, an envelope without an id", "missing_id", value=None, without="ce_id"),
]

_AVRO_OF_A_REGISTRY = b"\x00" + struct.pack(">I", 42) + b"\x06t-1\x0e\x02n"
_PROTOBUF = b"\x0a\x03t-1\x10\x07\x1a\x01n"

NO_EVENTS = [
    unreadable("no event, JSON without headers", "not_an_event", HAPPENED),
    unreadable("no event, JSON with a content type", "not_an_event", b'{"thing_id":"t-2"}', _JSON),
    unreadable("no event, an empty value", "not_an_event", b""),
    unreadable("no event, an empty value of an empty content type", "not_an_event", b"", ("content-type", b"")),
    unreadable("no event, one NUL", "not_an_event", b"\x00"),
    unreadable("no event, plain text", "not_an_event", b"thing t-1 happened", ("content-type", b"text/plain")),
    unreadable("no event, XML", "not_an_event", b"<thing id='t-1'/>", ("content-type", b"text/xml")),
    unreadable("no event, gzip", "not_an_event", gzip.compress(HAPPENED, mtime=0), ("content-encoding", b"gzip")),
    unreadable("no event, protobuf", "not_an_event", _PROTOBUF, ("content-type", b"application/x-protobuf")),
    unreadable("no event, Avro of a schema registry", "not_an_event", _AVRO_OF_A_REGISTRY),
    unreadable("no event, a Java object", "not_an_event", b"\xac\xed\x00\x05sr\x00\x05Thing"),
    unreadable("no event, a pickle", "not_an_event", b"\x80\x04}\x94(\x8c\x08thing_id\x94\x8c\x03t-1\x94u."),
    unreadable("no event, 100 KB of ones", "not_an_event", b"\xff" * 100_000),
    unreadable(
        "no event, a structured event that does not say so", "not_an_event", json_object(good_members("undeclared"))
    ),
    unreadable(
        "no event, a structured event that says it is JSON", "not_an_event", json_object(good_members("json")), _JSON
    ),
    unreadable(
        "no event, a space before the structured content type",
        "not_an_event",
        json_object(good_members("spaced")),
        ("content-type", b" " + STRUCTURED),
    ),
    unreadable(
        "no event, headers of the HTTP binding",
        "not_an_event",
        HAPPENED,
        ("ce-specversion", b"1.0"),
        ("ce-id", b"e-1"),
        ("ce-source", b"/tests"),
        ("ce-type", b"thing.happened"),
    ),
    unreadable(
        "no event, properties of the AMQP binding",
        "not_an_event",
        HAPPENED,
        ("cloudEvents:specversion", b"1.0"),
        ("cloudEvents:id", b"e-1"),
        ("cloudEvents:source", b"/tests"),
        ("cloudEvents:type", b"thing.happened"),
    ),
    unreadable(
        "no event, the prefix in capitals",
        "not_an_event",
        HAPPENED,
        *[(name.replace("ce_", "CE_"), raw) for name, raw in good_headers("capitals").items()],
    ),
    unreadable(
        "no event, attributes without a prefix",
        "not_an_event",
        HAPPENED,
        *[(name.removeprefix("ce_"), raw) for name, raw in good_headers("bare").items()],
    ),
    unreadable(
        "no event, a change of a database row",
        "not_an_event",
        b'{"before":null,"after":{"id":1},"op":"c","ts_ms":1767225600000}',
        ("__op", b"c"),
    ),
]


def _foreign(count: int) -> list[tuple[str, bytes]]:
    return [(f"x-{number}", b"x") for number in range(count)]


# A good event has eight headers.
TOO_MANY_HEADERS = [
    binary("257 headers, a good event among them", "too_many_headers", *_foreign(249)),
    binary("1,000 headers, a good event among them", "too_many_headers", *_foreign(992)),
    binary("10,000 headers, a good event among them", "too_many_headers", *_foreign(9_992)),
    unreadable("257 headers, all foreign", "too_many_headers", HAPPENED, *_foreign(257)),
    unreadable("257 headers, none with a name", "too_many_headers", HAPPENED, *[("", b"")] * 257),
    unreadable("1,000 headers, all of them ids", "too_many_headers", HAPPENED, *[("ce_id", b"e-1")] * 1_000),
    unreadable(
        "300 headers, each another extension", "too_many_headers", HAPPENED, *[(f"ce_x{n}", b"") for n in range(300)]
    ),
    unreadable("10,000 headers on a tombstone", "too_many_headers", None, *_foreign(10_000)),
    unreadable(
        "257 headers on a structured event",
        "too_many_headers",
        json_object(good_members("many")),
        _STRUCTURED,
        *_foreign(256),
    ),
    unreadable("257 headers that are not UTF-8", "too_many_headers", b"", *[("trace", b"\xff")] * 257),
]

# The key has no part in whether a record is an event; a bad record may come under any.
KEYS = [
    keyed(binary("a key that is not UTF-8, no id", "missing_id", without="ce_id"), b"\xff\xfe\xfd"),
    keyed(binary("a key that is not UTF-8, a bad time", "bad_time", time=b"soon"), b"\xc3\x28"),
    keyed(structured("a key that is not UTF-8, structured without a type", "missing_type", without="type"), b"\x80abc"),
    keyed(unreadable("a key that is not UTF-8, a tombstone", "null_value", None), b"\xed\xa0\x80"),
    keyed(unreadable("a key that is not UTF-8, no event", "not_an_event", b"\xff"), b"\xff"),
    keyed(with_data("a key that is not UTF-8, broken data", "invalid_json", b'{"thing_id":'), b"\xfe\xff\x00t"),
    keyed(
        with_data("a key of 16 random bytes, data that do not fit", "invalid_data", b'{"thing":1}'),
        bytes(range(240, 256)),
    ),
    keyed(with_data("a key of NULs, data that do not fit", "invalid_data", b'{"thing":2}'), b"\x00\x00\x00\x00"),
    keyed(with_data("an empty key, data that do not fit", "invalid_data", b'{"thing":3}'), b""),
    keyed(with_data("no key, data that do not fit", "invalid_data", b'{"thing":4}'), None),
    keyed(with_data("a key of 10,000 bytes, data that do not fit", "invalid_data", b'{"thing":5}'), b"k" * 10_000),
]


def _keyless(name: str, key: bytes | None) -> BadCase:
    """An event that says nowhere which key it is of: its field is empty, the attribute is missing, the key unusable."""
    case = binary(name, "invalid_data", value=b'{"thing_id":""}', without="ce_partitionkey")
    return keyed(identified(case), key)


KEYLESS = [
    _keyless("no key anywhere", None),
    _keyless("no key anywhere, the record's is empty", b""),
    _keyless("no key anywhere, the record's is not UTF-8", b"\xff\xff"),
]

CASES = (*TOMBSTONES, *NO_EVENTS, *TOO_MANY_HEADERS, *KEYS, *KEYLESS)
