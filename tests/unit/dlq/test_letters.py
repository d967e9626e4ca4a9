"""Reading letters: what is known of a dead event, and what is said of a record that is no letter."""

import base64
import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.consumer.dead_letter import Dead, diagnose, letter
from surefoot.dlq.intake.letters import Letter, Unreadable, kept_raw, read_letter
from surefoot.events.text import has_forbidden
from surefoot.log.port import Record, StoredRecord
from tests.support.bad_records import CASES, BadCase, bent_records
from tests.support.corpus import each_of
from tests.support.dlq.letters import DIED_AT, letter_record

INDEX_LIMIT = 2700
"""Bytes of an entry in an index of Postgres."""


def stored(record: Record, *, offset: int = 5, timestamp_ms: int = 1_793_534_401_000) -> StoredRecord:
    return StoredRecord("test.things.dlq", 2, offset, timestamp_ms, *record)


def read(record: Record) -> Letter:
    found = read_letter(stored(record))
    assert isinstance(found, Letter), found
    return found


def why_not(record: Record) -> str:
    found = read_letter(stored(record))
    assert isinstance(found, Unreadable), found
    return found.sentence


def with_header(record: Record, name: str, value: bytes | None) -> Record:
    return record._replace(headers=[*((n, v) for n, v in record.headers if n != name), (name, value)])


def test_a_letter_tells_everything() -> None:
    found = read(letter_record("e-1", letter_id="l-1", attempts="5", replays="2", held="false"))
    headers = json.loads(found.headers)
    assert replace(found, headers="") == Letter(
        letter_source="/surefoot/consumers/warehouse",
        letter_id="l-1",
        consumer="warehouse",
        source="/tests",
        event_id="e-1",
        event_type="thing.happened",
        topic="test.things",
        partition=3,
        log_offset=41,
        key="t-1",
        correlation_id="flow-9",
        saga_id="saga-7",
        recorded_at=datetime(2026, 11, 1, 12, 0, tzinfo=UTC),
        record_key=b"t-1",
        value=b'{"thing_id":"t-1"}',
        headers="",
        headers_left_out=0,
        reason="permanent",
        error_type="shop.NoSuchArticle",
        error="There is no such article.",
        stack="Traceback: shop.py, line 1",
        fingerprint="0123456789abcdef",
        failures='[["2026-11-01T12:00:00.000000Z","There is no such article."]]',
        attempts=5,
        replays=2,
        held=False,
        failed_at=DIED_AT,
    )
    assert [(name, base64.b64decode(value)) for name, value in headers] == [
        ("ce_id", b"e-1"),
        ("ce_source", b"/tests"),
        ("ce_type", b"thing.happened"),
        ("ce_sagaid", b"saga-7"),
    ]


@each_of("case", CASES, named=lambda case: case.name)
def test_what_a_consumer_writes_about_any_record_can_be_read(case: BadCase) -> None:
    record = StoredRecord("test.things", 1, 7, 1_700_000_000_123, *case.record)
    try:
        raise ValueError("no\x00good \ud800" + "x" * 5000)
    except ValueError as error:
        diagnosis = diagnose(error, "permanent", consumer="warehouse", event_type=None)
    dead = Dead("warehouse", record, "k\x01", "/tests", case.name, None, None, diagnosis, [("now", "x")], 3, 1, True)
    entry = letter(dead, letter_id="l-1", now=DIED_AT, max_bytes=2 << 20)
    headers = [(name, text.encode()) for name, text in json.loads(entry.headers)]

    found = read(Record(entry.key.encode(), entry.body, headers))

    assert (found.consumer, found.source, found.event_id, found.key) == ("warehouse", "/tests", case.name, "k\x01")
    assert (found.topic, found.partition, found.log_offset) == ("test.things", 1, 7)
    assert found.value == case.record.value
    assert found.record_key == ((case.record.key or b"")[:3000] or None)
    assert (found.attempts, found.replays, found.held) == (3, 1, True)
    assert found.recorded_at == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=1_700_000_000_123)
    kept = [base64.b64decode(value) for _, value in json.loads(found.headers)]
    assert kept == [value or b"" for _, value in case.record.headers][: len(kept)]
    assert len(kept) + found.headers_left_out == len(case.record.headers)


NEEDED = [
    "surefoot-consumer",
    "surefoot-reason",
    "surefoot-fingerprint",
    "surefoot-event-source",
    "surefoot-event-id",
    "surefoot-origin-topic",
    "surefoot-origin-partition",
    "surefoot-origin-offset",
]


@each_of("name", NEEDED)
def test_a_letter_without_what_a_decision_needs_is_none_and_it_is_said_why(name: str) -> None:
    assert name in why_not(letter_record("e-1", without=[name]))


@pytest.mark.parametrize("name", ["ce_id", "ce_source", "ce_type", "ce_specversion"])
def test_a_letter_that_is_no_event_is_none(name: str) -> None:
    assert why_not(letter_record("e-1", without=[name])).startswith("The ")


def test_everything_else_may_be_missing() -> None:
    told = [name for name, _ in letter_record("e-1").headers if name.startswith("surefoot-") and name not in NEEDED]
    found = read(letter_record("e-1", without=[*told, "ce_correlationid", "ce_time"]))
    assert (found.event_type, found.correlation_id, found.saga_id, found.record_key) == (None, None, None, None)
    assert (found.error_type, found.error) == ("unknown", "The letter does not say what the error was.")
    assert (found.stack, found.failures, found.headers, found.headers_left_out) == ("", "[]", "[]", 1)
    assert (found.attempts, found.replays, found.held) == (0, 0, True)
    the_logs_own = datetime(2026, 11, 1, 12, 0, 1, tzinfo=UTC)
    assert (found.failed_at, found.recorded_at) == (the_logs_own, the_logs_own)


@each_of(
    ("name", "value"),
    [
        ("surefoot-consumer", b"ware\x00house"),
        ("surefoot-event-id", b"e" * 1001),
        ("surefoot-event-source", b"/" + b"s" * 999),
        ("surefoot-reason", b"<b>permanent</b>"),
        ("surefoot-fingerprint", b"../../audit"),
        ("surefoot-origin-partition", b"-1"),
        ("surefoot-origin-partition", b"2147483648"),
        ("surefoot-origin-partition", "٣".encode()),
        ("surefoot-origin-offset", b"9223372036854775808"),
        ("surefoot-origin-offset", b"1e3"),
        ("ce_type", b"thing.happened"),
        ("ce_time", b"yesterday"),
    ],
)
def test_a_letter_whose_names_or_numbers_cannot_be_is_none(name: str, value: bytes) -> None:
    assert why_not(with_header(letter_record("e-1"), name, value))


@each_of(
    ("name", "value", "field", "becomes"),
    [
        ("surefoot-error", b"no\x00\xff", "error", "no��"),
        ("surefoot-error-type", b"x" * 300, "error_type", "x" * 200),
        ("surefoot-attempts", b"many", "attempts", 0),
        ("surefoot-attempts", b"99999999999", "attempts", 0),
        ("surefoot-origin-timestamp", b"9" * 19, "recorded_at", datetime(2026, 11, 1, 12, 0, 1, tzinfo=UTC)),
        ("surefoot-origin-key", b"not Base64", "record_key", None),
        ("surefoot-failures", b'{"a": 1}', "failures", "[]"),
        ("surefoot-failures", b'[["now", 1]]', "failures", "[]"),
        ("surefoot-failures", b'[["now", "a\\u0000"]]', "failures", '[["now","a�"]]'),
        ("surefoot-origin-headers", b"[[1, 2]]", "headers", "[]"),
        ("surefoot-origin-headers", b"[", "headers", "[]"),
        ("surefoot-origin-headers", b'["ab"]', "headers", "[]"),
        ("surefoot-origin-headers", b'[["a\\u0000", "eA=="], ["b", null]]', "headers", '[["a�","eA=="]]'),
        ("surefoot-event-type", b"t" * 3000, "event_type", "t" * 500),
        ("surefoot-held", b"perhaps", "held", True),
        ("ce_correlationid", b"c" * 3000, "correlation_id", "c" * 500),
    ],
)
def test_what_is_only_there_to_be_read_is_mended_or_left_out(
    name: str, value: bytes, field: str, becomes: object
) -> None:
    assert getattr(read(with_header(letter_record("e-1"), name, value)), field) == becomes


def test_headers_that_cannot_be_read_count_as_left_out() -> None:
    broken = b'[["a", "eA=="], ["b", "no Base64"], ["c", null]]'
    assert read(with_header(letter_record("e-1"), "surefoot-origin-headers", broken)).headers_left_out == 2


def test_a_null_value_stays_null_and_an_empty_one_empty() -> None:
    assert read(letter_record("e-1", value=None)).value is None
    assert read(letter_record("e-1", value=b"")).value == b""


@each_of(
    ("key", "becomes"),
    [
        (b"t-1", "t-1"),
        (b"\\x" + b"ff" * 500, "\\x" + "ff" * 500),
        (b"a\x00", "\\x6100"),
        (b"\xff\xfe", "\\xfffe"),
        (b"", ""),
        (None, "e-1"),
    ],
)
def test_the_key_is_what_the_event_waits_by(key: bytes | None, becomes: str) -> None:
    assert read(letter_record("e-1")._replace(key=key)).key == becomes


def test_a_record_that_is_no_letter_is_kept_whole() -> None:
    record = stored(Record(b"\x00k", b"\xff\x00junk", [("a\x00", b"\xff"), ("b", None)]), offset=9)
    found = read_letter(record)
    assert isinstance(found, Unreadable)
    kept = kept_raw(found)
    assert (kept.consumer, kept.source, kept.event_id) == ("", "surefoot:letter", "test.things.dlq/2/9")
    assert (kept.letter_source, kept.letter_id) == ("surefoot:letter", "test.things.dlq/2/9")
    assert (kept.topic, kept.partition, kept.log_offset, kept.key) == ("test.things.dlq", 2, 9, "\\x006b")
    assert (kept.record_key, kept.value) == (b"\x00k", b"\xff\x00junk")
    assert json.loads(kept.headers) == [["a�", "/w=="], ["b", None]]
    assert (kept.reason, kept.error_type, kept.held) == ("unreadable_letter", "UnreadableLetter", False)
    assert kept.error.startswith("The record has no CloudEvents headers")


def test_unreadable_records_of_one_topic_are_one_group_and_of_two_topics_are_two() -> None:
    junk = stored(Record(None, b"junk", []))
    here, there = (kept_raw(Unreadable(one, "No.")) for one in (junk, junk._replace(offset=6)))
    elsewhere = kept_raw(Unreadable(junk._replace(topic="other.dlq"), "No."))
    assert here.fingerprint == there.fingerprint != elsewhere.fingerprint


@pytest.mark.parametrize("timestamp_ms", [-1, 2**62])
def test_any_number_may_be_a_records_time(timestamp_ms: int) -> None:
    kept = kept_raw(Unreadable(stored(Record(None, b"", []), timestamp_ms=timestamp_ms), "No."))
    assert kept.failed_at.year in (1970, 9999)


HEADER_NAMES = st.sampled_from([name for name, _ in letter_record("e-1").headers])


@given(bent_records())
def test_whatever_comes_can_be_kept(record: Record) -> None:
    assert_fits(stored(record))


@given(st.dictionaries(HEADER_NAMES, st.binary(max_size=40) | st.text(max_size=40).map(str.encode)), st.binary())
def test_whatever_a_letter_says_can_be_kept(bent: dict[str, bytes], key: bytes) -> None:
    record = letter_record("e-1")._replace(key=key)
    for name, value in bent.items():
        record = with_header(record, name, value)
    assert_fits(stored(record))


def assert_fits(record: StoredRecord) -> None:
    """Into a row, and into each index on it."""
    found = read_letter(record)
    kept = kept_raw(found) if isinstance(found, Unreadable) else found
    for field in fields(kept):
        text = getattr(kept, field.name)
        if isinstance(text, str):
            assert "\x00" not in text
            text.encode()
    assert len((kept.event_id + kept.consumer + kept.source).encode()) < INDEX_LIMIT
    for text in (kept.key, kept.event_type, kept.correlation_id, kept.saga_id, kept.fingerprint, kept.letter_id):
        assert text is None or len(text.encode()) < INDEX_LIMIT
    json.loads(kept.headers)
    json.loads(kept.failures)
    assert not has_forbidden(kept.consumer + kept.source + kept.event_id)
    assert 0 <= kept.partition < 2**31
    assert 0 <= kept.log_offset < 2**63
