"""While a saga is paused it only listens. On resume, replies act first, and timers start anew."""

from datetime import timedelta

import pytest

from surefoot.saga import NotNow, Saga
from surefoot.saga.stimulus import Arrived, Fired, Replied, Verb
from tests.support.saga.engine_driver import Driven
from tests.support.saga.order_sagas import order_saga, pickup_saga, send
from tests.support.shop_types import Collected, OrderWanted, ParcelSent

ORDER, PICKUP = order_saga().definition, pickup_saga().definition


def test_a_paused_saga_has_no_timer_and_remembers_the_one_it_had() -> None:
    saga = Driven(ORDER)
    timer = saga.saga.timer
    saga.operate("pause")
    assert (saga.status, saga.timer, saga.armed, saga.notes) == ("PAUSED", None, False, ["PAUSED"])
    assert (saga.saga.before_pause, saga.saga.timer_before_pause) == ("RUNNING", timer)


def test_a_timer_that_fires_during_a_pause_does_nothing() -> None:
    saga = Driven(ORDER).operate("pause")
    paused = saga.saga
    saga.take(Fired("reserve", "do", 1, "timeout"))
    assert (saga.saga, saga.last.notes) == (paused, ())


def test_what_comes_during_a_pause_is_held_in_order_and_once() -> None:
    saga = Driven(PICKUP).operate("pause")
    saga.arrived("collected", 1).done("reserve")
    assert (saga.status, saga.sent, saga.notes) == ("PAUSED", [], ["HELD"])
    assert saga.saga.held == (Arrived("collected", 1), Replied("reserve", "do", 1, "done"))
    held = saga.saga
    saga.done("reserve")
    assert (saga.saga, saga.notes) == (held, ["IGNORED"])


def test_on_resume_what_was_held_acts_first() -> None:
    saga = Driven(PICKUP).operate("pause").arrived("collected").done("reserve").operate("resume")
    assert (saga.status, saga.sent, saga.timer) == ("RUNNING", ["do ship 1"], "timeout do ship 1")
    assert (saga.saga.held, saga.saga.before_pause, saga.saga.timer_before_pause) == ((), None, None)


def test_on_resume_the_timer_starts_anew_if_nothing_came() -> None:
    saga = Driven(ORDER)
    timer = saga.saga.timer
    saga.operate("pause").operate("resume")
    assert (saga.status, saga.last.arm, saga.saga.timer, saga.sent) == ("RUNNING", timer, timer, [])


def test_on_resume_the_timer_starts_anew_if_what_came_did_not_matter() -> None:
    saga = Driven(ORDER).done("reserve").operate("pause").done("reserve").operate("resume")
    assert (saga.timer, saga.armed, saga.notes) == ("timeout do pay 1", True, ["RESUMED", "IGNORED"])


def test_a_rest_starts_anew_as_well() -> None:
    saga = Driven(ORDER).time_passes().operate("pause").operate("resume")
    assert (saga.timer, saga.armed) == ("rest do reserve 1", True)
    assert saga.time_passes().sent == ["do reserve 2"]


def test_a_deadline_starts_anew_as_well() -> None:
    saga = Driven(PICKUP).done("reserve").operate("pause").operate("resume")
    assert (saga.timer, saga.armed) == ("deadline do collected 0", True)


def test_an_undo_is_paused_and_resumed_too() -> None:
    saga = Driven(ORDER).done("reserve").done("pay").refused("confirm").operate("pause").undone("pay")
    assert (saga.status, saga.saga.before_pause, saga.states["pay"]) == ("PAUSED", "COMPENSATING", "UNDOING")
    saga.operate("resume")
    assert (saga.status, saga.sent, saga.states["pay"]) == ("COMPENSATING", ["undo reserve 1"], "UNDONE")


def test_what_is_held_may_end_the_saga() -> None:
    saga = Driven(ORDER).operate("pause").refused("reserve").failed("reserve").operate("resume")
    assert (saga.status, saga.timer) == ("FAILED", None)
    assert saga.notes == ["RESUMED", "REFUSED", "COMPENSATING", "ENDED_FAILED", "IGNORED"]


def test_a_timer_that_is_set_and_over_within_one_decision_is_not_armed() -> None:
    short = Saga("short", version=1, starts_on=OrderWanted)
    short.step("ship", do=send, done_on=ParcelSent, nothing_to_undo=True)
    short.wait("collected", until=Collected, deadline=timedelta(days=1))
    saga = Driven(short.definition).operate("pause").done("ship").arrived("collected").operate("resume")
    assert (saga.status, saga.saga.timer, saga.last.arm) == ("COMPLETED", None, None)


def test_a_paused_saga_can_be_compensated_without_letting_what_is_held_go_on() -> None:
    saga = Driven(ORDER).done("reserve").operate("pause").done("pay").operate("compensate")
    assert (saga.status, saga.sent, saga.states) == (
        "COMPENSATING",
        ["undo pay 1"],
        {"reserve": "DONE", "pay": "UNDOING"},
    )
    assert saga.notes == ["COMPENSATING", "SENT", "IGNORED"]
    assert (saga.saga.held, saga.saga.before_pause, saga.saga.timer_before_pause) == ((), None, None)


def test_a_saga_paused_while_it_is_undone_is_not_compensated_again() -> None:
    with pytest.raises(NotNow, match=r"is being undone already"):
        Driven(ORDER).done("reserve").refused("pay").operate("pause").operate("compensate")


@pytest.mark.parametrize("verb", ["pause", "retry", "skip"])
def test_a_paused_saga_is_resumed_before_anything_else(verb: Verb) -> None:
    with pytest.raises(NotNow, match=rf"The saga is paused already. Resume it, then {verb}."):
        Driven(ORDER).operate("pause").operate(verb)


def test_a_saga_that_is_not_paused_is_not_resumed() -> None:
    with pytest.raises(NotNow, match=r"The saga is RUNNING, not paused."):
        Driven(ORDER).operate("resume")


def test_a_stuck_saga_is_not_paused() -> None:
    with pytest.raises(NotNow, match=r"stuck: it does nothing by itself, so there is nothing to pause."):
        Driven(PICKUP).done("reserve").time_passes().operate("pause")
