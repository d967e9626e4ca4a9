"""A saga goes on: replies, repeats, timeouts, up to its end."""

from datetime import timedelta

from surefoot.saga import Retry, Saga
from surefoot.saga.decision import Send
from surefoot.saga.instance import Timer
from surefoot.saga.stimulus import Arrived, Fired, Replied
from tests.support.saga.engine_driver import Driven
from tests.support.saga.order_sagas import order_saga, pickup_saga, release, reserve, send
from tests.support.shop_types import OrderWanted, ParcelSent, StockReleased, StockReserved

ORDER = order_saga().definition


def test_a_saga_begins_with_its_first_command_and_a_clock() -> None:
    saga = Driven(ORDER)
    assert saga.last.sends == (Send("reserve", "do", 1),)
    assert saga.last.arm == saga.saga.timer == Timer("reserve", "do", 1, "timeout", timedelta(minutes=2))
    assert (saga.status, saga.states, saga.notes) == ("RUNNING", {"reserve": "AWAITED"}, ["STARTED", "SENT"])


def test_each_step_that_is_done_leads_to_the_next_and_the_last_to_the_end() -> None:
    saga = Driven(ORDER)
    assert saga.done("reserve").sent == ["do pay 1"]
    assert saga.done("pay").sent == ["do confirm 1"]
    assert saga.done("confirm").sent == ["do ship 1"]
    saga.done("ship")
    assert (saga.status, saga.sent, saga.told, saga.timer) == ("COMPLETED", [], ["COMPLETED"], None)
    assert set(saga.states.values()) == {"DONE"}


def test_what_a_reply_brought_is_kept() -> None:
    saga = Driven(ORDER).done("reserve", result={"shelf": "B2"})
    record = saga.saga.record("reserve")
    assert record is not None
    assert record.result == {"shelf": "B2"}


def test_a_step_that_does_not_answer_rests_and_is_sent_again() -> None:
    saga = Driven(ORDER).time_passes()
    assert (saga.sent, saga.notes) == ([], ["TIMED_OUT"])
    # Between half and all of four seconds, and chance is taken as a half.
    assert saga.last.arm == Timer("reserve", "do", 1, "rest", timedelta(seconds=3))
    saga.time_passes()
    assert (saga.sent, saga.timer, saga.armed) == (["do reserve 2"], "timeout do reserve 2", True)


def test_a_reply_to_an_earlier_attempt_counts() -> None:
    saga = Driven(ORDER).time_passes().time_passes()
    assert saga.done("reserve", attempt=1).sent == ["do pay 1"]


def test_a_reply_that_comes_during_the_rest_counts_and_the_rest_is_over() -> None:
    saga = Driven(ORDER).time_passes().done("reserve")
    assert (saga.sent, saga.timer) == (["do pay 1"], "timeout do pay 1")
    saga.take(Fired("reserve", "do", 1, "rest"))
    assert (saga.sent, saga.timer, saga.armed) == ([], "timeout do pay 1", False)


def test_a_reply_to_an_attempt_that_was_never_made_is_ignored() -> None:
    saga = Driven(ORDER)
    for attempt in (2, 0, -1):
        before = saga.saga
        saga.done("reserve", attempt=attempt)
        assert (saga.saga, saga.notes) == (before, ["IGNORED"])


def test_a_second_reply_is_noted_and_ignored() -> None:
    saga = Driven(ORDER).done("reserve")
    before = saga.saga
    saga.done("reserve")
    assert (saga.saga, saga.sent, saga.armed) == (before, [], False)
    (note,) = saga.last.notes
    assert (note.kind, note.step, note.attempt, note.sentence) == (
        "IGNORED",
        "reserve",
        1,
        "done: its step is not awaited",
    )


def test_a_timer_that_fires_twice_acts_once() -> None:
    saga = Driven(ORDER)
    fired = Fired("reserve", "do", 1, "timeout")
    resting = saga.take(fired).saga
    saga.take(fired)
    assert (saga.saga, saga.last.notes, saga.armed) == (resting, (), False)


def test_nothing_reaches_a_saga_that_has_ended() -> None:
    saga = Driven(ORDER).done("reserve").done("pay").done("confirm").done("ship")
    ended = saga.saga
    for stimulus in (Replied("ship", "do", 1, "done"), Replied("pay", "undo", 1, "done"), Arrived("ship")):
        saga.take(stimulus)
        assert (saga.saga, saga.sent, saga.told, saga.notes) == (ended, [], [], ["IGNORED"])
    saga.take(Fired("ship", "do", 1, "timeout"))
    assert (saga.saga, saga.last.notes) == (ended, ())


def test_a_step_with_one_attempt_is_not_sent_again() -> None:
    once = Retry(attempts=1)
    saga = Saga("once", version=1, starts_on=OrderWanted)
    saga.step(
        "reserve", do=reserve, done_on=StockReserved, undo=release, undone_on=StockReleased, retry=once, undo_retry=once
    )
    driven = Driven(saga.definition).time_passes()
    assert (driven.sent, driven.status) == (["undo reserve 1"], "COMPENSATING")
    assert driven.time_passes().status == "STUCK"
    # An operator's retry grants that one attempt again, and there is no rest behind it.
    assert driven.operate("retry").sent == ["undo reserve 2"]
    assert driven.time_passes().status == "STUCK"


def test_rests_double_up_to_the_longest_one() -> None:
    saga = Saga("long", version=1, starts_on=OrderWanted)
    retry = Retry(attempts=5, first=timedelta(seconds=4), longest=timedelta(seconds=12))
    saga.step("ship", do=send, done_on=ParcelSent, nothing_to_undo=True, retry=retry)
    driven, rests = Driven(saga.definition), []
    for _ in range(4):
        driven.time_passes()
        assert driven.last.arm is not None
        rests.append(driven.last.arm.after.total_seconds())
        driven.time_passes()
    assert (rests, driven.sent) == ([3.0, 6.0, 9.0, 9.0], ["do ship 5"])


def test_an_answer_to_a_wait_as_if_it_were_a_step_is_ignored() -> None:
    saga = Driven(pickup_saga().definition).done("reserve")
    waiting = saga.saga
    saga.done("collected", attempt=0)
    assert (saga.saga, saga.notes) == (waiting, ["IGNORED"])
