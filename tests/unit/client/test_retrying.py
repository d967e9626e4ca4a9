"""Which answers a client asks for again, and when."""

from datetime import UTC, datetime, timedelta

from surefoot.client import Answer
from surefoot.client.retrying import asked_to_wait, may_change
from tests.support.corpus import each_of

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
PROBLEM = {"content-type": "application/problem+json; charset=utf-8"}


def answer(status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> Answer:
    return Answer(status, headers or {}, body, "a-key-0123456789", 1)


@each_of("status", [429, 500, 501, 502, 503, 504, 599])
def test_busy_and_failed_servers_are_asked_again(status: int) -> None:
    assert may_change(answer(status))


@each_of("status", [200, 201, 204, 303, 400, 401, 402, 403, 404, 408, 410, 413, 415, 422, 423, 425])
def test_other_answers_last(status: int) -> None:
    assert not may_change(answer(status))


@each_of(
    ("headers", "body", "again"),
    [
        (PROBLEM, b'{"type": "/problems/idempotency/in-flight"}', True),
        (PROBLEM, b'{"type": "https://docs.example/in-flight/"}', True),
        ({"content-type": "Application/Problem+JSON"}, b'{"type": "/x/in-flight"}', True),
        (PROBLEM, b'{"type": "/problems/idempotency/key-reused"}', False),
        (PROBLEM, b'{"type": "/problems/not-in-flight"}', False),
        (PROBLEM, b'{"type": "about:blank"}', False),
        (PROBLEM, b'{"type": ["in-flight"]}', False),
        (PROBLEM, b'["in-flight"]', False),
        (PROBLEM, b"{", False),
        (PROBLEM, b"\xff", False),
        (PROBLEM, b"[" * 100_000, False),
        (PROBLEM, b"", False),
        ({"content-type": "application/json"}, b'{"type": "/x/in-flight"}', False),
        ({}, b'{"type": "/x/in-flight"}', False),
    ],
)
def test_a_conflict_is_asked_again_only_if_the_same_request_is_in_flight(
    headers: dict[str, str], body: bytes, again: bool
) -> None:
    assert may_change(answer(409, headers, body)) is again


def test_a_failure_that_is_replayed_is_stored_and_stays() -> None:
    assert not may_change(answer(500, {"x-idempotency-replayed": "true"}))
    assert may_change(answer(500, {"x-idempotency-replayed": "false"}))


@each_of(
    ("said", "seconds"),
    [
        ("0", 0),
        ("7", 7),
        (" 7 ", 7),
        ("999999999", 999_999_999),
        ("Sun, 01 Mar 2026 12:00:30 GMT", 30),
        ("Sunday, 01-Mar-26 12:00:30 GMT", 30),
        ("Sun Mar  1 12:00:30 2026", 30),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0),
        ("-5", 0),
        ("1.5", 0),
        ("soon", 0),
        ("", 0),
        ("9" * 5000, 0),
        ("٣", 0),
        ("Sun, 99 Mar 2026 12:00:30 GMT", 0),
        ("Sun, 01 Mar 99999999999 12:00:30 GMT", 0),
        (", , ,", 0),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(said: str, seconds: int) -> None:
    assert asked_to_wait({"retry-after": said}, NOW) == timedelta(seconds=seconds)


def test_a_date_is_counted_from_the_servers_own_clock_where_it_tells_it() -> None:
    headers = {"retry-after": "Sun, 01 Mar 2026 15:00:10 GMT", "date": "Sun, 01 Mar 2026 15:00:00 GMT"}

    assert asked_to_wait(headers, NOW) == timedelta(seconds=10)
    assert asked_to_wait({**headers, "date": "today"}, NOW) == timedelta(hours=3, seconds=10)


def test_without_the_header_nothing_is_asked_for() -> None:
    assert asked_to_wait({}, NOW) == timedelta(0)
