"""Bad records by chance: a good one that is damaged once or a few times, as networks, disks and producers do it.

Nobody knows beforehand what a bent record is: it may still be an event, its own or another. What must hold for all of
them is that a reader says so, and says it soon.
"""

from collections.abc import Callable, Sized

from hypothesis import strategies as st

from surefoot.log.port import Record
from tests.support.bad_records.case import (
    STRUCTURED,
    Header,
    good_binary,
    good_binary_paid,
    good_structured,
    good_structured_paid,
)

Bend = Callable[[st.DrawFn, Record], Record]

CONTENT_TYPES = [
    b"application/json",
    STRUCTURED,
    b"application/cloudevents-batch+json",
    b"application/cloudevents+avro",
    b"application/json; charset=utf-16",
    b"text/xml",
    b"json",
    b"",
    b"\xff",
]
NAMES = [
    "ce_id",
    "ce_source",
    "ce_type",
    "ce_specversion",
    "ce_time",
    "ce_dataschema",
    "ce_Id",
    "ce_",
    "content-type",
    "x",
]
TEXTS = [
    b"",
    b" ",
    b"\x00",
    b"\xff",
    b"1.0",
    b"thing.paid",
    b"thing.happened",
    b"/%zz",
    b"2026-13-01T00:00:00Z",
    b"\xc3\xa4",
]
TOKENS = [
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b",",
    b":",
    b"\\",
    b"null",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"\\ud800",
    b"\x00",
    b"\xff",
]
TOKENS += [b'"id":"e-2",', b'"data_base64":"e30="', b'"data":1,', b"9" * 5_000, b"[" * 1_000, b'{"a":' * 1_000]
LARGEST_STRETCH = 100_000
"""Bytes. Damage adds up, and no topic takes records of many megabytes."""


def bent_records() -> st.SearchStrategy[Record]:
    """A good record of either mode and type, damaged one to four times."""
    return _bent()


@st.composite
def _bent(draw: st.DrawFn) -> Record:
    good = draw(st.sampled_from([good_binary, good_binary_paid, good_structured, good_structured_paid]))
    record = good("e-1")
    for bend in draw(st.lists(st.sampled_from(BENDS), min_size=1, max_size=4)):
        record = bend(draw, record)
    return record


def _drop_header(draw: st.DrawFn, record: Record) -> Record:
    at = draw(_position(record.headers))
    return record._replace(headers=(*record.headers[:at], *record.headers[at + 1 :]))


def _double_header(draw: st.DrawFn, record: Record) -> Record:
    at = draw(_position(record.headers))
    return record._replace(headers=(*record.headers, *record.headers[at : at + 1]))


def _garble_header(draw: st.DrawFn, record: Record) -> Record:
    return _change_header(
        draw, record, lambda header: (header[0], draw(st.sampled_from(TEXTS) | st.binary(max_size=30)))
    )


def _rename_header(draw: st.DrawFn, record: Record) -> Record:
    names = st.sampled_from(NAMES) | st.text(max_size=5).map("ce_".__add__)
    return _change_header(draw, record, lambda header: (draw(names), header[1]))


def _flip_header(draw: st.DrawFn, record: Record) -> Record:
    return _change_header(draw, record, lambda header: (header[0], _flipped(draw, header[1] or b"")))


def _empty_header(draw: st.DrawFn, record: Record) -> Record:
    return _change_header(draw, record, lambda header: (header[0], None))


def _stretch_header(draw: st.DrawFn, record: Record) -> Record:
    return _change_header(draw, record, lambda header: (header[0], _stretched(draw, header[1] or b"")))


def _add_header(draw: st.DrawFn, record: Record) -> Record:
    header = (draw(st.sampled_from(NAMES)), draw(st.sampled_from(TEXTS)))
    return record._replace(headers=(*record.headers, *[header] * draw(st.sampled_from([1, 2, 300]))))


def _shuffle_headers(draw: st.DrawFn, record: Record) -> Record:
    return record._replace(headers=tuple(draw(st.permutations(record.headers))))


def _swap_content_type(draw: st.DrawFn, record: Record) -> Record:
    content_type = draw(st.sampled_from(CONTENT_TYPES))
    others = (header for header in record.headers if header[0] != "content-type")
    return record._replace(headers=(*others, ("content-type", content_type)))


def _cut_value(draw: st.DrawFn, record: Record) -> Record:
    value = record.value or b""
    return record._replace(value=value[: draw(_position(value))])


def _flip_value(draw: st.DrawFn, record: Record) -> Record:
    return record._replace(value=_flipped(draw, record.value or b""))


def _insert_into_value(draw: st.DrawFn, record: Record) -> Record:
    value = record.value or b""
    at, inserted = draw(_position(value)), draw(st.sampled_from(TOKENS) | st.binary(max_size=4))
    return record._replace(value=value[:at] + inserted + value[at:])


def _drop_from_value(draw: st.DrawFn, record: Record) -> Record:
    value = record.value or b""
    at = draw(_position(value))
    return record._replace(value=value[:at] + value[at + draw(st.integers(1, 10)) :])


def _repeat_in_value(draw: st.DrawFn, record: Record) -> Record:
    value = record.value or b""
    start = draw(_position(value))
    end = start + draw(st.integers(1, 12))
    return record._replace(value=value[:start] + _stretched(draw, value[start:end]) + value[end:])


def _replace_value(draw: st.DrawFn, record: Record) -> Record:
    return record._replace(value=draw(st.none() | st.sampled_from(TOKENS) | st.binary(max_size=60)))


def _wrap_value(draw: st.DrawFn, record: Record) -> Record:
    depth = draw(st.sampled_from([1, 150, 250, 950, 20_000]))
    left, right = draw(st.sampled_from([(b"[", b"]"), (b'{"a":', b"}")]))
    return record._replace(value=left * depth + (record.value or b"") + right * depth)


def _change_key(draw: st.DrawFn, record: Record) -> Record:
    return record._replace(key=draw(st.none() | st.binary(max_size=20)))


BENDS: list[Bend] = [
    _drop_header,
    _double_header,
    _garble_header,
    _rename_header,
    _flip_header,
    _empty_header,
    _stretch_header,
    _add_header,
    _shuffle_headers,
    _swap_content_type,
    _cut_value,
    _flip_value,
    _insert_into_value,
    _drop_from_value,
    _repeat_in_value,
    _replace_value,
    _wrap_value,
    _change_key,
]


def _position(things: Sized) -> st.SearchStrategy[int]:
    return st.integers(0, max(0, len(things) - 1))


def _change_header(draw: st.DrawFn, record: Record, change: Callable[[Header], Header]) -> Record:
    headers = list(record.headers)
    if headers:
        at = draw(_position(headers))
        headers[at] = change(headers[at])
    return record._replace(headers=tuple(headers))


def _flipped(draw: st.DrawFn, raw: bytes) -> bytes:
    """One bit of it the other way round."""
    if not raw:
        return raw
    at, bit = draw(_position(raw)), draw(st.integers(0, 7))
    return raw[:at] + bytes([raw[at] ^ 1 << bit]) + raw[at + 1 :]


def _stretched(draw: st.DrawFn, raw: bytes) -> bytes:
    """The same again and again."""
    return raw * draw(st.integers(1, max(1, LARGEST_STRETCH // max(1, len(raw)))))
