"""Which answers are kept, and what of them."""

import pytest

from surefoot.idempotency.route import Route
from surefoot.idempotency.storing import Fate, Forgotten, Rerun, Stored, fate_of, kept_headers, sent_headers
from surefoot.idempotency.values import Answer

RERUN = Route(effect="outside")
REPLAY = Route(effect="outside", on_failure="replay")


@pytest.mark.parametrize(
    ("status", "fate"),
    [
        (200, Stored("COMPLETED")),
        (201, Stored("COMPLETED")),
        (204, Stored("COMPLETED")),
        (303, Stored("COMPLETED")),
        (400, Stored("FAILED_TERMINAL")),
        (402, Stored("FAILED_TERMINAL")),
        (404, Stored("FAILED_TERMINAL")),
        (409, Stored("FAILED_TERMINAL")),
        (422, Stored("FAILED_TERMINAL")),
        (401, Forgotten()),
        (403, Forgotten()),
        (408, Forgotten()),
        (413, Forgotten()),
        (415, Forgotten()),
        (421, Forgotten()),
        (425, Forgotten()),
        (429, Forgotten()),
        (500, Rerun()),
        (503, Rerun()),
        (504, Rerun()),
    ],
)
def test_what_becomes_of_an_answer(status: int, fate: Fate) -> None:
    assert fate_of(status, RERUN, begun=False) == fate


@pytest.mark.parametrize("status", [401, 403, 408, 413, 415, 421, 425, 429])
def test_what_has_begun_is_never_forgotten(status: int) -> None:
    assert fate_of(status, RERUN, begun=True) == Rerun()
    assert fate_of(status, REPLAY, begun=True) == Rerun()


def test_where_failures_are_replayed_they_are_kept() -> None:
    assert fate_of(500, REPLAY, begun=True) == Stored("FAILED_TERMINAL")
    assert fate_of(503, REPLAY, begun=False) == Stored("FAILED_TERMINAL")
    assert fate_of(429, REPLAY, begun=False) == Forgotten()


def test_headers_are_kept_in_their_order_but_for_those_of_the_moment_and_of_the_connection() -> None:
    headers = [
        (b"content-length", b"3"),
        (b"Content-Type", b"text/plain"),
        (b"Set-Cookie", b"a=b"),
        (b"link", b"</1>"),
        (b"date", b"Tue"),
        (b"server", b"x"),
        (b"traceparent", b"00-1"),
        (b"tracestate", b"a=b"),
        (b"Connection", b"close, X-Hop"),
        (b"x-hop", b"1"),
        (b"keep-alive", b"1"),
        (b"transfer-encoding", b"chunked"),
        (b"link", b"</2>"),
        (b"x-name", "Käse".encode("latin-1")),
    ]
    assert kept_headers(headers) == (
        ("content-length", "3"),
        ("Content-Type", "text/plain"),
        ("link", "</1>"),
        ("link", "</2>"),
        ("x-name", "Käse"),
    )


def test_the_length_is_what_it_is_and_where_it_was() -> None:
    headers = (("content-length", "99"), ("X-Thing", "1"))
    assert sent_headers(Answer(201, headers, b"abc")) == [(b"content-length", b"3"), (b"x-thing", b"1")]
    assert sent_headers(Answer(201, headers[1:], b"abc")) == [(b"x-thing", b"1"), (b"content-length", b"3")]
    assert sent_headers(Answer(204, headers, b"")) == [(b"x-thing", b"1")]
