"""What a request may do with what is stored under its key."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from surefoot.idempotency.store.deciding import Again, First, Stored, TakeOver, behind_lock, claim_of, decide
from surefoot.idempotency.values import (
    Answer,
    Answered,
    Asked,
    Claim,
    Effect,
    Gone,
    InFlight,
    Mismatch,
    State,
    Unknown,
)

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOON = BEGAN + timedelta(seconds=10)
LATE = BEGAN + timedelta(hours=24)
LAST = BEGAN + timedelta(hours=48)
ASKED = Asked("shop", b"key", "POST /v1/charges", "outside", b"print", 1)
ANSWER = Answer(201, (), b"{}")
COMPLETED = Stored(
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
IN_FLIGHT = replace(COMPLETED, state="IN_FLIGHT", answer=None, lease_until=BEGAN + timedelta(seconds=30))
FAILED = replace(COMPLETED, state="FAILED_RETRY", answer=None)
EXPIRED = replace(COMPLETED, state="EXPIRED", answer=None)
ALL_STATES: list[State] = ["IN_FLIGHT", "COMPLETED", "FAILED_RETRY", "FAILED_TERMINAL", "EXPIRED"]
ONE = timedelta(microseconds=1)


def test_a_key_that_nobody_used_is_free() -> None:
    assert decide(None, ASKED, SOON) == First()


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED_TERMINAL"])
def test_an_answer_is_given_again_until_its_window_ends(state: State) -> None:
    stored = replace(COMPLETED, state=state)
    assert decide(stored, ASKED, SOON) == Answered(ANSWER)
    assert decide(stored, ASKED, LATE - ONE) == Answered(ANSWER)


@pytest.mark.parametrize("stored", [COMPLETED, replace(COMPLETED, state="FAILED_TERMINAL"), EXPIRED])
def test_after_that_the_key_is_refused_also_where_the_reaper_has_not_come_yet(stored: Stored) -> None:
    assert decide(stored, ASKED, LATE) == Gone(BEGAN)
    assert decide(stored, ASKED, LAST - ONE) == Gone(BEGAN)


@pytest.mark.parametrize("stored", [COMPLETED, replace(COMPLETED, state="FAILED_TERMINAL"), EXPIRED])
def test_and_then_it_is_new_for_whatever_request(stored: Stored) -> None:
    assert decide(stored, ASKED, LAST) == Again(stored)
    assert decide(stored, replace(ASKED, fingerprint=b"other"), LAST) == Again(stored)


@pytest.mark.parametrize("state", ALL_STATES)
@pytest.mark.parametrize("now", [SOON, LATE, LAST - ONE])
def test_another_request_under_the_key_is_refused_in_every_state(state: State, now: datetime) -> None:
    stored = replace(COMPLETED, state=state)
    assert decide(stored, replace(ASKED, fingerprint=b"other"), now, most_attempts=1) == Mismatch(BEGAN)


def test_a_fingerprint_of_another_version_is_another_request() -> None:
    assert decide(COMPLETED, replace(ASKED, fingerprint_version=2), SOON) == Mismatch(BEGAN)


def test_a_lease_that_lasts_keeps_others_away() -> None:
    assert decide(IN_FLIGHT, ASKED, SOON) == InFlight(20.0)
    assert decide(IN_FLIGHT, ASKED, BEGAN + timedelta(seconds=30) - ONE) == InFlight(0.000001)


def test_a_lease_that_ran_out_does_not() -> None:
    assert decide(IN_FLIGHT, ASKED, BEGAN + timedelta(seconds=30)) == TakeOver(IN_FLIGHT)


def test_a_failed_attempt_is_taken_over_at_once() -> None:
    assert decide(FAILED, ASKED, SOON) == TakeOver(FAILED)


@pytest.mark.parametrize("effect", ["local", "outside"])
def test_a_failed_attempt_is_tried_again_after_its_answer_would_have_gone(effect: Effect) -> None:
    stored = replace(FAILED, effect=effect)
    assert decide(stored, ASKED, LATE) == TakeOver(stored)


@pytest.mark.parametrize("stored", [FAILED, replace(IN_FLIGHT, lease_until=SOON)])
def test_an_outside_effect_that_is_open_never_makes_way_for_a_new_request(stored: Stored) -> None:
    much_later = LAST + timedelta(days=300)
    assert decide(stored, ASKED, much_later) == TakeOver(stored)
    assert decide(stored, replace(ASKED, fingerprint=b"other"), much_later) == Mismatch(BEGAN)


@pytest.mark.parametrize("stored", [FAILED, replace(IN_FLIGHT, lease_until=SOON)])
def test_nor_for_the_same_request_where_its_route_has_become_a_local_one(stored: Stored) -> None:
    local = replace(ASKED, effect="local")
    assert decide(stored, local, SOON) == Unknown("ch_1", 2)
    assert decide(replace(stored, effect="local"), ASKED, SOON) == TakeOver(replace(stored, effect="local"))


def test_a_local_attempt_that_failed_does() -> None:
    stored = replace(FAILED, effect="local")
    assert decide(stored, ASKED, LAST) == Again(stored)


@pytest.mark.parametrize("stored", [FAILED, replace(IN_FLIGHT, lease_until=SOON)])
def test_attempts_that_are_used_up_leave_the_outcome_unknown(stored: Stored) -> None:
    assert decide(stored, ASKED, SOON, most_attempts=3) == TakeOver(stored)
    assert decide(stored, ASKED, SOON, most_attempts=2) == Unknown("ch_1", 2)
    assert decide(stored, ASKED, SOON, most_attempts=1) == Unknown("ch_1", 2)


def test_a_local_route_may_be_tried_for_ever_for_nothing_of_it_stayed() -> None:
    stored = replace(FAILED, effect="local")
    assert decide(stored, ASKED, SOON, most_attempts=1) == TakeOver(stored)


def test_whoever_has_not_got_the_lock_is_told_that_it_is_in_flight() -> None:
    for claimable in (First(), Again(COMPLETED), TakeOver(FAILED)):
        assert behind_lock(claimable, had=True, lease_s=30) == claimable
        assert behind_lock(claimable, had=False, lease_s=30) == InFlight(30)


def test_what_is_there_is_given_without_the_lock() -> None:
    for found in (Answered(ANSWER), Mismatch(BEGAN), Gone(BEGAN), Unknown(None, 2), InFlight(3)):
        assert behind_lock(found, had=False, lease_s=30) == found


def test_the_fence_rises_with_every_claim() -> None:
    assert claim_of(First(), ASKED, SOON) == Claim(ASKED, fence=1, attempt=1, created_at=SOON)
    assert claim_of(TakeOver(FAILED), ASKED, SOON) == Claim(ASKED, fence=5, attempt=3, created_at=BEGAN)


def test_a_key_that_is_new_again_keeps_nothing_but_the_fence() -> None:
    assert claim_of(Again(COMPLETED), ASKED, LAST) == Claim(ASKED, fence=5, attempt=1, created_at=LAST)
