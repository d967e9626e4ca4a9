"""How fast a job goes on, and when it stops by itself."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.dlq.jobs.policy import Facts, Finish, JobStatus, Pause, Send, Wait, decide

JOB = Facts(
    status="RUNNING",
    total=100,
    pending=100,
    sent=0,
    answered=0,
    failed=0,
    counted=0,
    counted_failed=0,
    canary=0,
    canary_failed=0,
    canary_answered=0,
    may_canary=True,
    rate=None,
    stop_on_error_rate=None,
    allowance=0.0,
    elapsed_s=0.1,
    most_unanswered=50,
    next=tuple(range(1, 51)),
    due=(),
)


def answered(facts: Facts, count: int, failed: int = 0) -> Facts:
    """So many more were sent and answered, the first of them."""
    canary = min(facts.canary, count)
    return replace(
        facts,
        pending=facts.total - count,
        answered=count,
        failed=failed,
        counted=count,
        counted_failed=failed,
        canary_answered=canary,
        canary_failed=min(canary, failed),
        next=tuple(range(count + 1, min(facts.total, count + facts.most_unanswered) + 1)),
    )


# -- sending ---------------------------------------------------------------------------------------------------------


def test_everything_whose_lane_is_free_is_sent() -> None:
    assert decide(replace(JOB, next=(1, 4, 9))) == Send((1, 4, 9), 0.0)


def test_no_more_are_under_way_than_may_be() -> None:
    assert decide(replace(JOB, sent=48, pending=52, next=(49, 50, 51, 52))) == Send((49, 50), 0.0)
    assert decide(replace(JOB, sent=50, pending=50, next=(51, 52))) == Wait(0.0)


def test_nothing_is_sent_while_every_lane_is_taken() -> None:
    assert decide(replace(JOB, sent=3, pending=97, next=())) == Wait(0.0)


def test_what_nobody_answered_is_sent_again_also_when_no_more_may_be_under_way() -> None:
    assert decide(replace(JOB, sent=50, pending=50, next=(51,), due=(2, 5))) == Send((2, 5), 0.0)


@pytest.mark.parametrize("status", ["PAUSED", "CANCELLING"])
def test_a_job_that_is_paused_or_cancelled_sends_only_again_what_it_had_sent(status: JobStatus) -> None:
    held = replace(JOB, status=status, sent=2, pending=98)
    assert decide(held) == Wait(0.0)
    assert decide(replace(held, due=(1, 2))) == Send((1, 2), 0.0)


# -- the rate --------------------------------------------------------------------------------------------------------


def test_a_rate_lets_so_many_go_as_the_time_allows() -> None:
    decision = decide(replace(JOB, rate=20.0, elapsed_s=0.25))
    assert decision == Send((1, 2, 3, 4, 5), 0.0)


def test_what_is_left_of_the_allowance_is_kept() -> None:
    decision = decide(replace(JOB, rate=10.0, allowance=0.5, elapsed_s=0.2))
    assert decision == Send((1, 2), 0.5)


def test_a_job_that_waited_does_not_make_up_for_it_at_once() -> None:
    decision = decide(replace(JOB, rate=3.0, elapsed_s=3600.0))
    assert decision == Send((1, 2, 3), 0.0)


def test_a_rate_of_less_than_one_a_second_still_goes_on() -> None:
    assert decide(replace(JOB, rate=0.5, allowance=0.0, elapsed_s=1.0)) == Wait(0.5)
    assert decide(replace(JOB, rate=0.5, allowance=0.5, elapsed_s=1.0)) == Send((1,), 0.0)


def test_repeats_count_for_the_rate() -> None:
    decision = decide(replace(JOB, rate=10.0, elapsed_s=0.3, due=(90, 91), sent=2, pending=98))
    assert decision == Send((90, 91, 1), 0.0)


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    assert decide(replace(JOB, rate=10.0, allowance=0.5, elapsed_s=-5.0)) == Wait(0.5)


@given(
    rate=st.floats(0.1, 1000),
    allowance=st.floats(0, 1000),
    elapsed=st.floats(0, 100),
    waiting=st.integers(0, 60),
    due=st.integers(0, 20),
)
def test_no_more_is_ever_sent_than_the_rate_allows(
    rate: float, allowance: float, elapsed: float, waiting: int, due: int
) -> None:
    facts = replace(
        JOB,
        rate=rate,
        allowance=allowance,
        elapsed_s=elapsed,
        next=tuple(range(waiting)),
        due=tuple(range(70, 70 + due)),
    )
    decision = decide(facts)
    assert isinstance(decision, Send | Wait)
    sent = len(decision.numbers) if isinstance(decision, Send) else 0
    assert sent <= max(1.0, rate)
    assert sent <= allowance + rate * elapsed
    assert decision.allowance >= 0


# -- the canary ------------------------------------------------------------------------------------------------------


def test_a_canary_sends_only_the_first_until_all_of_them_are_answered() -> None:
    job = replace(JOB, canary=3)
    assert decide(job) == Send((1, 2, 3), 0.0)
    under_way = replace(answered(job, 2), sent=1, pending=97, next=(4, 5))
    assert decide(under_way) == Wait(0.0)


def test_a_canary_that_went_well_goes_on_by_itself() -> None:
    decision = decide(answered(replace(JOB, canary=3), 3))
    assert decision == Send(tuple(range(4, 54)), 0.0)


def test_a_canary_of_which_one_failed_stops_the_job_and_says_so() -> None:
    decision = decide(answered(replace(JOB, canary=3), 3, failed=1))
    assert isinstance(decision, Pause)
    assert decision.note.startswith("1 of the first 3 did not go well")


def test_a_failure_behind_the_canary_does_not_stop_the_job() -> None:
    job = answered(replace(JOB, canary=3), 20, failed=0)
    assert isinstance(decide(replace(job, failed=1, counted_failed=1)), Send)


def test_a_canary_as_large_as_the_set_or_larger_is_the_whole_job() -> None:
    job = replace(JOB, total=2, pending=2, canary=10, next=(1, 2))
    assert decide(job) == Send((1, 2), 0.0)
    assert decide(replace(job, pending=0, answered=2, canary_answered=2, next=())) == Finish(
        "DONE", "Of 2, 2 went well and 0 did not."
    )


def test_a_canary_is_over_once_somebody_resumed_the_job_that_it_stopped() -> None:
    resumed = replace(answered(replace(JOB, canary=3), 3, failed=3), may_canary=False, counted=0, counted_failed=0)
    assert isinstance(decide(resumed), Send)


# -- the share of failures -------------------------------------------------------------------------------------------


def test_too_many_failures_stop_the_job_and_say_so() -> None:
    decision = decide(answered(replace(JOB, stop_on_error_rate=0.2), 10, failed=3))
    assert isinstance(decision, Pause)
    assert decision.note.startswith("3 of 10 did not go well, which is more than 20%")


def test_as_many_failures_as_are_allowed_do_not() -> None:
    assert isinstance(decide(answered(replace(JOB, stop_on_error_rate=0.2), 10, failed=2)), Send)


def test_a_share_means_nothing_before_there_are_ten_answers() -> None:
    assert isinstance(decide(answered(replace(JOB, stop_on_error_rate=0.0), 9, failed=9)), Send)


def test_answers_from_before_it_was_resumed_no_longer_count() -> None:
    seen = replace(answered(replace(JOB, stop_on_error_rate=0.2), 40, failed=30), counted=9, counted_failed=9)
    assert isinstance(decide(seen), Send)
    assert isinstance(decide(replace(seen, counted=10, counted_failed=9)), Pause)


def test_a_job_that_has_nothing_left_to_send_does_not_pause() -> None:
    last = replace(answered(replace(JOB, stop_on_error_rate=0.0), 90, failed=90), pending=0, sent=10, next=())
    assert decide(last) == Wait(0.0)


# -- the end ---------------------------------------------------------------------------------------------------------


def test_it_is_done_when_all_are_answered_and_says_how_it_went() -> None:
    ended = replace(answered(JOB, 100, failed=7), next=())
    assert decide(ended) == Finish("DONE", "Of 100, 93 went well and 7 did not.")


def test_a_cancelled_job_ends_when_the_last_that_was_sent_is_answered() -> None:
    job = replace(JOB, status="CANCELLING", pending=0, sent=1, answered=9)
    assert decide(job) == Wait(0.0)
    ended = decide(replace(job, sent=0, answered=10))
    assert ended == Finish("CANCELLED", "Of 100, 10 went well, 0 did not and 90 were cancelled.")


def test_a_paused_job_of_which_everything_is_answered_is_done() -> None:
    assert isinstance(decide(replace(JOB, status="PAUSED", total=3, pending=0, answered=3, next=())), Finish)
