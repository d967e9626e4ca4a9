"""A dead letter: bounded, printable, and with the record's own bytes."""

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NoReturn

from hypothesis import given
from hypothesis import strategies as st

from surefoot.consumer import Permanent
from surefoot.consumer.dead_letter import Dead, Diagnosis, bad_record, diagnose, fingerprint, letter
from surefoot.events import decode
from surefoot.events.text import printable
from surefoot.log.port import Record, StoredRecord, record_bytes
from surefoot.outbox.entry import Entry
from tests.support.consumer.records import raw
from tests.support.corpus import each_of

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def diagnosis(error: str = "no", stack: str = "Traceback") -> Diagnosis:
    return Diagnosis("out_of_attempts", "ValueError", error, stack, "0123456789abcdef")


def dead(record: StoredRecord, **changes: Any) -> Dead:
    known: dict[str, Any] = {
        "consumer": "warehouse",
        "record": record,
        "key": "a",
        "source": "/tests",
        "event_id": "e-1",
        "event_type": "thing.happened",
        "correlation_id": None,
        "diagnosis": diagnosis(),
        "failures": [("2026-01-31T12:00:00Z", "no")],
        "attempts": 5,
        "replays": 1,
        "held": True,
    }
    return Dead(**{**known, **changes})


def letter_of(one: Dead, max_bytes: int = 2 << 20) -> Entry:
    return letter(one, letter_id="01234567-89ab-7def-8123-456789abcdef", now=NOW, max_bytes=max_bytes)


def headers_of(entry: Entry) -> dict[str, str]:
    found = json.loads(entry.headers)
    assert len(dict(found)) == len(found)
    return dict(found)


def as_record(entry: Entry) -> Record:
    """As the relay sends it."""
    headers = tuple((name, value.encode()) for name, value in json.loads(entry.headers))
    return Record(entry.key.encode(), entry.body, headers)


def raised(function: Callable[[], NoReturn]) -> BaseException:
    try:
        function()
    except BaseException as error:
        return error


def fail() -> NoReturn:
    raise ValueError("one")


def fail_elsewhere() -> NoReturn:
    raise ValueError("two")


def test_a_letter_goes_to_the_dead_letter_topic_under_the_same_key_with_the_same_bytes() -> None:
    entry = letter_of(dead(raw(b"\x00\xff", offset=9)))
    assert (entry.topic, entry.key, entry.body, entry.event_type) == (
        "test.things.dlq",
        "a",
        b"\x00\xff",
        "dlq.dead_letter",
    )
    headers = headers_of(entry)
    assert headers["ce_id"] == entry.event_id
    assert headers["ce_time"] == "2026-01-31T12:00:00.000000Z"
    assert headers["surefoot-origin-partition"] == "3"
    assert headers["surefoot-origin-offset"] == "9"
    assert headers["surefoot-attempts"] == "5"
    assert headers["surefoot-replays"] == "1"
    assert json.loads(headers["surefoot-failures"]) == [["2026-01-31T12:00:00Z", "no"]]


def test_a_tombstone_stays_one() -> None:
    assert letter_of(dead(raw(None))).body is None


def test_it_can_be_read_as_an_event() -> None:
    record = as_record(letter_of(dead(raw(b"{"), key="ä\x7f\n", correlation_id="flow")))
    envelope = decode(record.headers, record.value, record.key)
    assert (envelope.type, envelope.source) == ("dlq.dead_letter", "/surefoot/consumers/warehouse")
    assert envelope.attributes["correlationid"] == "flow"


def test_the_latest_ten_failures_are_told() -> None:
    failures = [(f"2026-01-31T12:00:{n:02}Z", str(n)) for n in range(15)]
    shown = json.loads(headers_of(letter_of(dead(raw(b""), failures=failures)))["surefoot-failures"])
    assert [error for _, error in shown] == [str(n) for n in range(5, 15)]


def test_headers_are_shown_as_far_as_there_is_room_and_the_rest_is_counted() -> None:
    headers = [(f"h-{n}", b"x" * 1000) for n in range(100)]
    found = headers_of(letter_of(dead(raw(b"", headers))))
    shown = json.loads(found["surefoot-origin-headers"])
    assert 0 < len(shown) < 100
    assert int(found["surefoot-origin-headers-left-out"]) == 100 - len(shown)
    assert [(name, base64.b64decode(value)) for name, value in shown] == headers[: len(shown)]


@given(
    value=st.integers(0, 20_000),
    header=st.integers(0, 20_000),
    error=st.text(max_size=1000),
    stack=st.text(max_size=8000),
    failures=st.lists(st.text(max_size=1000), max_size=12),
    key=st.text(max_size=100),
    limit=st.integers(20_000, 40_000),
)
def test_a_letter_is_never_larger_than_its_topic_takes(
    value: int, header: int, error: str, stack: str, failures: list[str], key: str, limit: int
) -> None:
    """`limit` is the topic's own; its dead letters may be twice as large."""
    record = raw(b"v" * min(value, limit - 5000), [("h", b"x" * header)], key.encode("utf-8", "replace"))
    one = dead(
        record,
        key=printable(key, 100).replace("\x00", ""),
        diagnosis=diagnosis(printable(error, 1000), printable(stack, 8000)),
        failures=[("2026-01-31T12:00:00Z", printable(failure, 1000)) for failure in failures],
    )
    assert record_bytes(as_record(letter_of(one, 2 * limit))) <= 2 * limit


def test_where_there_is_no_room_the_most_telling_headers_are_kept() -> None:
    one = dead(raw(b"v" * 9000), diagnosis=diagnosis("e" * 1000, "s" * 8000))
    entry = letter_of(one, 13_000)
    assert record_bytes(as_record(entry)) <= 13_000
    headers = headers_of(entry)
    assert headers["surefoot-reason"] == "out_of_attempts"
    assert headers["surefoot-origin-offset"] == "0"
    assert headers["surefoot-error"] == "e" * 1000
    assert len(headers.get("surefoot-stack", "")) < 8000


def test_a_diagnosis_names_the_error_and_shows_the_handlers_code() -> None:
    found = diagnose(raised(fail), "permanent", consumer="warehouse", event_type="thing.happened")
    assert (found.reason, found.error_type, found.error) == ("permanent", "ValueError", "one")
    assert "in fail" in found.stack


def test_an_error_without_words_is_told_by_its_name() -> None:
    found = diagnose(Permanent(), "permanent", consumer="warehouse", event_type=None)
    assert found.error


def test_an_error_that_cannot_be_printed_is_still_diagnosed() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    found = diagnose(Mute(), "out_of_attempts", consumer="warehouse", event_type=None)
    assert "Mute" in found.error_type
    assert "Mute" in found.error


def test_a_fingerprint_is_the_same_for_one_cause_and_another_for_others() -> None:
    def mark(function: Callable[[], NoReturn], consumer: str = "warehouse", event_type: str = "thing.happened") -> str:
        return diagnose(raised(function), "permanent", consumer=consumer, event_type=event_type).fingerprint

    def fail_here() -> NoReturn:
        raise KeyError("three")

    same = mark(fail)
    assert mark(fail) == same
    others = {mark(fail, consumer="shipping"), mark(fail, event_type="thing.paid"), mark(fail_here)}
    assert same not in others
    assert len(others) == 3


def test_a_bad_records_fingerprint_is_its_reason() -> None:
    def mark(reason: Any, event_type: str | None) -> str:
        return bad_record(reason, f"A sentence, {reason}.", consumer="warehouse", event_type=event_type).fingerprint

    assert mark("invalid_json", None) == mark("invalid_json", None)
    assert mark("invalid_json", None) != mark("invalid_data", None)
    assert mark("invalid_json", None) != mark("invalid_json", "thing.happened")
    assert fingerprint("a", "b", "c", "d") != fingerprint("a", "b\nc", "", "d")


@each_of(
    ("text", "limit", "expected"),
    [
        ("plain", 10, "plain"),
        ("two\nlines\tand a tab", 100, "two\nlines\tand a tab"),
        ("NUL\x00", 10, "NUL�"),
        ("half \ud800", 10, "half ?"),
        ("bell\x07", 10, "bell�"),
        ("ääää", 2, "ää"),
        ("😀", 10, "😀"),
    ],
)
def test_a_text_is_made_printable(text: str, limit: int, expected: str) -> None:
    assert printable(text, limit) == expected
