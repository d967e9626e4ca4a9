"""What a request may do, given what is stored under its key. Pure: a row and a time in, a decision out."""

from dataclasses import dataclass
from datetime import datetime

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

SETTLED: frozenset[State] = frozenset({"COMPLETED", "FAILED_TERMINAL", "EXPIRED"})
"""Nothing more will happen to these, but that their time runs out."""


@dataclass(frozen=True, slots=True)
class Stored:
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

    stored: Stored


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The attempt before has failed, or has not been heard of for longer than its lease."""

    stored: Stored


Claimable = First | Again | TakeOver


def decide(
    stored: Stored | None, asked: Asked, now: datetime, *, most_attempts: int | None = None
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


def lease_left(stored: Stored, now: datetime) -> float:
    return 0.0 if stored.lease_until is None else max(0.0, (stored.lease_until - now).total_seconds())


def claim_of(decision: Claimable, asked: Asked, now: datetime) -> Claim:
    match decision:
        case First():
            return Claim(asked, fence=1, attempt=1, created_at=now)
        case Again(stored):
            return Claim(asked, fence=stored.fence + 1, attempt=1, created_at=now)
        case TakeOver(stored):
            return Claim(asked, fence=stored.fence + 1, attempt=stored.attempts + 1, created_at=stored.created_at)
