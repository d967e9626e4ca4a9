"""A checker that cannot fail is a defect: each is shown the violation it is there for."""

import pytest

from tests.support.checkers.idempotency import (
    Effect,
    Finding,
    KeyRow,
    Sent,
    charged_twice,
    check_idempotency,
    different_bytes,
    is_final,
    lost,
    mismatch_executed,
    stuck,
)

BOOKS = ("provider", "ledger")
LOCATION = (("location", "/charges/1"),)
SENT = [
    Sent("k", "mark", None),
    Sent("k", "mark", 409, body=b"in flight"),
    Sent("k", "mark", 504, body=b"unknown"),
    Sent("k", "mark", 201, LOCATION, b"charge 1"),
    Sent("k", "mark", 201, LOCATION, b"charge 1"),
    Sent("k", "another", 422, body=b"reused"),
    Sent("l", "declined", 402, body=b"no"),
]
EFFECTS = [Effect("mark", "provider", "ch_1"), Effect("mark", "ledger", "entry 1")]
ROWS = [KeyRow("k", "COMPLETED", call_is_open=False), KeyRow("l", "FAILED_TERMINAL", call_is_open=False)]


def test_one_effect_the_same_bytes_and_an_end_are_fine() -> None:
    assert check_idempotency(SENT, EFFECTS, ROWS, books=BOOKS) == []


def test_two_charges_of_one_request_are_reported_with_their_references() -> None:
    assert charged_twice([*EFFECTS, Effect("mark", "provider", "ch_2")]) == [
        Finding("charged_twice", "mark is 2 times in the books of the provider: ch_1, ch_2")
    ]


def test_two_entries_in_our_own_books_are_reported_too() -> None:
    assert charged_twice([*EFFECTS, Effect("mark", "ledger", "entry 2")]) == [
        Finding("charged_twice", "mark is 2 times in the books of the ledger: entry 1, entry 2")
    ]


@pytest.mark.parametrize(
    "other",
    [
        Sent("k", "mark", 201, LOCATION, b"charge 2"),
        Sent("k", "mark", 200, LOCATION, b"charge 1"),
        Sent("k", "mark", 201, (), b"charge 1"),
        Sent("k", "mark", 402, body=b"no"),
    ],
)
def test_a_retry_that_gets_another_answer_got_different_bytes(other: Sent) -> None:
    (finding,) = different_bytes([*SENT, other])
    assert finding.violation == "different_bytes"
    assert finding.sentence.startswith("mark under key k got 2 different answers: 201")


def test_answers_that_ask_to_come_again_may_differ() -> None:
    assert different_bytes([Sent("k", "mark", 409, body=b"one"), Sent("k", "mark", 409, body=b"two")]) == []


@pytest.mark.parametrize(
    ("status", "final"), [(200, True), (303, True), (402, True), (404, True), (409, False), (503, False), (None, False)]
)
def test_answers_of_the_work_are_final_and_those_of_the_moment_are_not(status: int | None, final: bool) -> None:
    assert is_final(status) is final


def test_another_request_under_the_key_that_has_an_effect_was_executed() -> None:
    assert mismatch_executed(SENT, [*EFFECTS, Effect("another", "provider", "ch_2")]) == [
        Finding("mismatch_executed", "key k was used for 2 requests: another, mark")
    ]


def test_another_request_under_the_key_that_is_answered_as_done_counts_as_executed() -> None:
    assert mismatch_executed([*SENT, Sent("k", "another", 201, body=b"charge 1")], EFFECTS) == [
        Finding("mismatch_executed", "key k was used for 2 requests: another, mark")
    ]


def test_the_same_mark_under_two_keys_is_no_mismatch() -> None:
    assert mismatch_executed([*SENT, Sent("m", "mark", 201, body=b"charge 2")], EFFECTS) == []


def test_what_was_answered_as_done_and_has_no_effect_is_lost() -> None:
    assert lost(SENT, [], BOOKS) == [
        Finding("lost", "mark was answered as done, and is not in the books of the provider"),
        Finding("lost", "mark was answered as done, and is not in the books of the ledger"),
    ]


def test_a_charge_that_our_books_do_not_know_is_lost() -> None:
    assert lost(SENT[:3], EFFECTS[:1], BOOKS) == [
        Finding("lost", "mark is in the books of the provider, and is not in the books of the ledger")
    ]


@pytest.mark.parametrize("state", ["IN_FLIGHT", "FAILED_RETRY"])
def test_a_key_that_has_not_come_to_an_end_is_stuck(state: str) -> None:
    assert stuck([*ROWS, KeyRow("m", state, call_is_open=True)]) == [
        Finding("stuck", f"key m is {state} with a call pending")
    ]


def test_a_call_that_is_pending_behind_an_answer_is_stuck() -> None:
    assert stuck([KeyRow("m", "COMPLETED", call_is_open=True)]) == [
        Finding("stuck", "key m is COMPLETED with a call pending")
    ]
