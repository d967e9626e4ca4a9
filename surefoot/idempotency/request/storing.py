"""Which answers of the work are stored and given again, and what of them. Pure.

What the framework refuses before the work begins never comes here: it is passed on, and the key is as new as before.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from surefoot.idempotency.settings import Route
from surefoot.idempotency.values import Answer, State

UNSTORED_STATUSES = frozenset({401, 403, 408, 413, 415, 421, 425, 429})
"""They speak of the moment, not of the request: the same request may well be answered otherwise a little later."""
BODILESS_STATUSES = frozenset({204, 304})
FIRST_ERROR = 400
FIRST_FAILURE = 500

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_OF_THE_MOMENT = frozenset({"date", "server", "set-cookie", "traceparent", "tracestate"})
_UNSTORED_HEADERS = _HOP_BY_HOP | _OF_THE_MOMENT


@dataclass(frozen=True, slots=True)
class Stored:
    """The answer is kept, and every retry gets it."""

    state: State


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Nothing was done: the key is as new as before."""


@dataclass(frozen=True, slots=True)
class Rerun:
    """The next request with the key goes on from where this one came to."""


Fate = Stored | Forgotten | Rerun


def fate_of(status: int, route: Route, *, begun: bool) -> Fate:
    """What becomes of a claim whose work was answered like this.

    `begun`: something of it may have happened that cannot be undone (a phase, a call, or an earlier attempt at it).
    Such a claim is never forgotten: under a new one the provider would be called with another key."""
    if status in UNSTORED_STATUSES:
        return Rerun() if begun else Forgotten()
    if status < FIRST_ERROR:
        return Stored("COMPLETED")
    if status >= FIRST_FAILURE and route.on_failure == "rerun":
        return Rerun()
    return Stored("FAILED_TERMINAL")


def is_undone(status: int) -> bool:
    """Whether a local route's work is rolled back: its answer is an error."""
    return status >= FIRST_ERROR


def kept_headers(headers: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    """Those that are given again with the answer, in their order."""
    named = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
    gone = _UNSTORED_HEADERS | _named_by_connection(named)
    return tuple((name, value) for name, value in named if name.lower() not in gone)


def sent_headers(answer: Answer) -> list[tuple[bytes, bytes]]:
    """As they go to the server. The length of the body is where the app had it, and is what it is."""
    return with_length(
        answer.status,
        [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers],
        answer.body,
    )


def with_length(status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> list[tuple[bytes, bytes]]:
    """The headers with the length of the body, unless the status has none."""
    length = (b"content-length", str(len(body)).encode())
    if status in BODILESS_STATUSES:
        return [header for header in headers if header[0].lower() != b"content-length"]
    placed = [length if header[0].lower() == b"content-length" else header for header in headers]
    return placed if length in placed else [*placed, length]


def _named_by_connection(headers: Iterable[tuple[str, str]]) -> frozenset[str]:
    values = [value for name, value in headers if name.lower() == "connection"]
    return frozenset(name.strip().lower() for value in values for name in value.split(","))
