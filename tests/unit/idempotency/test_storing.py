"""Which answers are kept, and what of them."""

from surefoot.idempotency.deciding import Fate, Forgotten, Rerun, Stored, fate_of, kept_headers, sent_headers
from surefoot.idempotency.settings import Route
from surefoot.idempotency.values import Answer

RERUN = Route(effect="outside")
REPLAY = Route(effect="outside", on_failure="replay")
OF_THE_MOMENT = (401, 403, 408, 413, 415, 421, 425, 429)
FATES: dict[int, Fate] = {
    **dict.fromkeys((200, 201, 204, 303), Stored("COMPLETED")),
    **dict.fromkeys((400, 402, 404, 409, 422), Stored("FAILED_TERMINAL")),
    **dict.fromkeys(OF_THE_MOMENT, Forgotten()),
    **dict.fromkeys((500, 503, 504), Rerun()),
}


def test_what_becomes_of_an_answer() -> None:
    assert {status: fate_of(status, RERUN, begun=False) for status in FATES} == FATES


def test_what_has_begun_is_never_forgotten() -> None:
    found = {status: fate_of(status, route, begun=True) for status in OF_THE_MOMENT for route in (RERUN, REPLAY)}

    assert found == dict.fromkeys(OF_THE_MOMENT, Rerun())


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
