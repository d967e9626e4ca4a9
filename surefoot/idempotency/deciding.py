"""Every decision of the layer. Pure.

What a request may do, given what is stored under its key: a row and a time in, a decision out. And when its work was
answered: what becomes of the claim, and which headers are given again with the answer. What the framework refuses
before the work begins never comes here: it is passed on, and the key is as new as before.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from surefoot.idempotency.settings import Route
from surefoot.idempotency.values import (
    Answer,
    Answered,
    Asked,
    Claim,
    Effect,
    Found,
    Gone,
    InFlight,
    Mismatch,
    State,
    Unknown,
)

if TYPE_CHECKING:
    from surefoot.database.connection import Row

SETTLED: frozenset[State] = frozenset({"COMPLETED", "FAILED_TERMINAL", "EXPIRED"})
"""Nothing more will happen to these, but that their time runs out."""
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
class StoredKey:
    """A key, as far as it takes to decide."""

    state: State
    effect: Effect
    fingerprint: bytes
    fingerprint_version: int
    fence: int
    attempts: int
    created_at: datetime
    lease_until: datetime | None
    replay_until: datetime
    gone_until: datetime
    resource: str | None = None
    answer: Answer | None = None

    @property
    def is_open(self) -> bool:
        """A provider may have been called and nobody has stored what became of it: no window closes over that."""
        return self.effect == "outside" and self.state not in SETTLED


# -- how it can be claimed --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class First:
    """Nothing is stored under the key."""


@dataclass(frozen=True, slots=True)
class Again:
    """The key was used so long ago that it is new. Nothing of the old request stays but the fence, which rises."""

    stored: StoredKey


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The attempt before has failed, or has not been heard of for longer than its lease."""

    stored: StoredKey


Claimable = First | Again | TakeOver


def decide(
    stored: StoredKey | None, asked: Asked, now: datetime, *, most_attempts: int | None = None
) -> Claimable | Found:
    """`most_attempts` None: however often it was tried. Whether somebody else is at it is for the lock to say."""
    if stored is None:
        return First()
    if now >= stored.gone_until and not stored.is_open:
        return Again(stored)
    # A fingerprint of another version cannot be compared, and what may be another request is never given the answer.
    if (stored.fingerprint, stored.fingerprint_version) != (asked.fingerprint, asked.fingerprint_version):
        return Mismatch(stored.created_at)
    if stored.state in SETTLED:
        if stored.state == "EXPIRED" or now >= stored.replay_until or stored.answer is None:
            return Gone(stored.created_at)
        return Answered(stored.answer)
    if stored.state == "IN_FLIGHT" and (left := lease_left(stored, now)) > 0:
        return InFlight(left)
    if stored.is_open and asked.effect == "local":  # the route has changed, and its transaction would end what is open
        return Unknown(stored.resource, stored.attempts)
    # What a local attempt did was undone, so it may be tried as often as anybody likes.
    if stored.effect == "outside" and most_attempts is not None and stored.attempts >= most_attempts:
        return Unknown(stored.resource, stored.attempts)
    return TakeOver(stored)


def behind_lock(decision: Claimable | Found, *, had: bool, lease_s: float) -> Claimable | Found:
    """What stands without the key's lock: what was found. Whoever has the lock is working on the rest."""
    if had or not isinstance(decision, First | Again | TakeOver):
        return decision
    return InFlight(lease_s)


def lease_left(stored: StoredKey, now: datetime) -> float:
    return 0.0 if stored.lease_until is None else max(0.0, (stored.lease_until - now).total_seconds())


def claim_of(decision: Claimable, asked: Asked, now: datetime) -> Claim:
    match decision:
        case First():
            return Claim(asked, fence=1, attempt=1, created_at=now)
        case Again(stored):
            return Claim(asked, fence=stored.fence + 1, attempt=1, created_at=now)
        case TakeOver(stored):
            return Claim(asked, fence=stored.fence + 1, attempt=stored.attempts + 1, created_at=stored.created_at)


# -- rows of the tables, as values ------------------------------------------------------------------------------------


def stored_key(row: "Row") -> StoredKey | None:
    if row["fence"] is None:  # nothing was there to join
        return None
    return StoredKey(
        state=row["state"],
        effect=row["effect"],
        fingerprint=row["fingerprint"],
        fingerprint_version=row["fingerprint_version"],
        fence=row["fence"],
        attempts=row["attempts"],
        created_at=row["created_at"],
        lease_until=row["lease_until"],
        replay_until=row["replay_until"],
        gone_until=row["gone_until"],
        resource=row["resource"],
        answer=_answer(row),
    )


def _answer(row: "Row") -> Answer | None:
    if row["status"] is None or row["headers"] is None or row["body"] is None:
        return None
    headers = tuple((name, value) for name, value in json.loads(row["headers"]))
    return Answer(status=row["status"], headers=headers, body=row["body"])


def taken_over(row: "Row", so_far: "Row", asked: Asked) -> Claim:
    """The claim of a row whose fence has just been raised, with what earlier attempts have done."""
    names, results = so_far["names"], so_far["results"]
    return Claim(
        asked,
        fence=row["fence"],
        attempt=row["attempts"],
        created_at=row["created_at"],
        minted=json.loads(row["minted"]),
        provider_key=so_far["provider_key"],
        phases={
            name: None if result is None else json.loads(result) for name, result in zip(names, results, strict=True)
        },
        in_doubt=bool(so_far["unsettled"]) or (row["outcome_unknown"] and not so_far["is_settled"]),
        unsettled=frozenset(so_far["unsettled"]),
    )


def asked_for(key_hash: bytes, row: "Row") -> Asked:
    return Asked(
        tenant=row["tenant"],
        key_hash=key_hash,
        route=row["route"],
        effect=row["effect"],
        fingerprint=row["fingerprint"],
        fingerprint_version=row["fingerprint_version"],
    )


# -- what becomes of a claim whose work was answered ------------------------------------------------------------------


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


# -- headers ----------------------------------------------------------------------------------------------------------


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
