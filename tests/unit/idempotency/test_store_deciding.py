"""What a request may do with what is stored under its key, to the microsecond. (What follows from it over many requests
is for the model: tests/model/idempotency.)
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import get_args

from surefoot.idempotency.deciding import Again, Claimable, First, StoredKey, TakeOver, behind_lock, claim_of, decide
from surefoot.idempotency.values import (
    Answer,
    Answered,
    Asked,
    Claim,
    Found,
    Gone,
    InFlight,
    Mismatch,
    State,
    Unknown,
)
from tests.support.corpus import check_each

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOON = BEGAN + timedelta(seconds=10)
LEASED = BEGAN + timedelta(seconds=30)
LATE = BEGAN + timedelta(hours=24)
LAST = BEGAN + timedelta(hours=48)
MUCH_LATER = LAST + timedelta(days=300)
ONE = timedelta(microseconds=1)
OUTSIDE = Asked("shop", b"key", "POST /v1/charges", "outside", b"print", 1)
LOCAL = replace(OUTSIDE, effect="local")
OTHER = replace(OUTSIDE, fingerprint=b"other")
ANSWER = Answer(201, (), b"{}")
COMPLETED = StoredKey(
    state="COMPLETED",
    effect="outside",
    fingerprint=b"print",
    fingerprint_version=1,
    fence=4,
    attempts=2,
    created_at=BEGAN,
    lease_until=None,
    replay_until=LATE,
    gone_until=LAST,
    resource="ch_1",
    answer=ANSWER,
)
TERMINAL = replace(COMPLETED, state="FAILED_TERMINAL")
EXPIRED = replace(COMPLETED, state="EXPIRED", answer=None)
IN_FLIGHT = replace(COMPLETED, state="IN_FLIGHT", answer=None, lease_until=LEASED)
ABANDONED = replace(IN_FLIGHT, lease_until=SOON)
FAILED = replace(COMPLETED, state="FAILED_RETRY", answer=None)
FAILED_LOCALLY = replace(FAILED, effect="local")
STATES: list[StoredKey] = [replace(COMPLETED, state=state) for state in get_args(State)]

Row = tuple[str, StoredKey | None, Asked, datetime, int | None, Claimable | Found]
ROWS: list[Row] = [
    ("a key that was never used is free", None, OUTSIDE, SOON, None, First()),
    ("a fingerprint of another version", COMPLETED, replace(OUTSIDE, fingerprint_version=2), SOON, None,
     Mismatch(BEGAN)),
    ("a lease that lasts", IN_FLIGHT, OUTSIDE, SOON, None, InFlight(20.0)),
    ("a lease at its last moment", IN_FLIGHT, OUTSIDE, LEASED - ONE, None, InFlight(0.000001)),
    ("a lease that ran out", IN_FLIGHT, OUTSIDE, LEASED, None, TakeOver(IN_FLIGHT)),
    ("a failed local attempt, tried often", FAILED_LOCALLY, OUTSIDE, SOON, 1, TakeOver(FAILED_LOCALLY)),
    ("a failed local attempt, late", FAILED_LOCALLY, OUTSIDE, LATE, None, TakeOver(FAILED_LOCALLY)),
    ("a failed local attempt, at the end", FAILED_LOCALLY, OUTSIDE, LAST, None, Again(FAILED_LOCALLY)),
]  # fmt: skip
for settled in (COMPLETED, TERMINAL, EXPIRED):
    replayed = settled.answer is not None
    ROWS += [
        ("an answer", settled, OUTSIDE, LATE - ONE, None, Answered(ANSWER) if replayed else Gone(BEGAN)),
        ("an answer whose time is over, reaped or not", settled, OUTSIDE, LATE, None, Gone(BEGAN)),
        ("a key that is gone", settled, OUTSIDE, LAST - ONE, None, Gone(BEGAN)),
        ("a key that is new again", settled, OUTSIDE, LAST, None, Again(settled)),
        ("a key that is new again, for another request", settled, OTHER, LAST, None, Again(settled)),
    ]
for still_open in (FAILED, ABANDONED):
    ROWS += [
        ("an open outside effect", still_open, OUTSIDE, SOON, None, TakeOver(still_open)),
        ("an open outside effect, much later", still_open, OUTSIDE, MUCH_LATER, None, TakeOver(still_open)),
        ("an open outside effect, for another request", still_open, OTHER, MUCH_LATER, None, Mismatch(BEGAN)),
        ("an open outside effect whose route is now local", still_open, LOCAL, SOON, None, Unknown("ch_1", 2)),
        ("attempts that are left", still_open, OUTSIDE, SOON, 3, TakeOver(still_open)),
        ("attempts that are used up", still_open, OUTSIDE, SOON, 2, Unknown("ch_1", 2)),
        ("attempts that are used up since", still_open, OUTSIDE, SOON, 1, Unknown("ch_1", 2)),
    ]
for stored in STATES:
    ROWS += [("another request", stored, OTHER, now, 1, Mismatch(BEGAN)) for now in (SOON, LATE, LAST - ONE)]


def test_each_state_is_decided_at_its_times() -> None:
    def check(row: Row) -> None:
        _, stored, asked, now, most_attempts, expected = row
        found = decide(stored, asked, now, most_attempts=most_attempts)
        assert found == expected, found

    check_each((f"{row[0]} ({row[1] and row[1].state}) at {row[3]}", partial(check, row)) for row in ROWS)


def test_without_the_lock_only_what_is_there_is_given() -> None:
    for claimable in (First(), Again(COMPLETED), TakeOver(FAILED)):
        assert behind_lock(claimable, had=True, lease_s=30) == claimable
        assert behind_lock(claimable, had=False, lease_s=30) == InFlight(30)
    for found in (Answered(ANSWER), Mismatch(BEGAN), Gone(BEGAN), Unknown(None, 2), InFlight(3)):
        assert behind_lock(found, had=False, lease_s=30) == found


def test_the_fence_rises_with_every_claim_and_is_all_that_a_new_request_keeps() -> None:
    assert claim_of(First(), OUTSIDE, SOON) == Claim(OUTSIDE, fence=1, attempt=1, created_at=SOON)
    assert claim_of(TakeOver(FAILED), OUTSIDE, SOON) == Claim(OUTSIDE, fence=5, attempt=3, created_at=BEGAN)
    assert claim_of(Again(COMPLETED), OUTSIDE, LAST) == Claim(OUTSIDE, fence=5, attempt=1, created_at=LAST)
