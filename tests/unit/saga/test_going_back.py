"""A saga goes back: refusals, unknown outcomes, undos that fail, the point of no return."""

import pytest

from surefoot.saga import Saga
from surefoot.saga.stimulus import Replied
from tests.support.saga.engine_driver import Driven
from tests.support.saga.order_sagas import TWICE, capture, confirm, order_saga, refund, release, reserve
from tests.support.shop_types import (
    OrderConfirmed,
    OrderWanted,
    PaymentCaptured,
    PaymentRefunded,
    StockReleased,
    StockReserved,
)

ORDER = order_saga().definition


def patient_saga() -> Saga:
    """Its payment waits for a person when nobody knows whether it was done."""
    saga = Saga("patient", version=1, starts_on=OrderWanted)
    saga.step("reserve", do=reserve, done_on=StockReserved, undo=release, undone_on=StockReleased)
    saga.step(
        "pay",
        do=capture,
        done_on=PaymentCaptured,
        refused_on=(),
        undo=refund,
        undone_on=PaymentRefunded,
        retry=TWICE,
        when_dead="wait",
    )
    saga.pivot("confirm", do=confirm, done_on=OrderConfirmed)
    return saga


def test_a_refused_first_step_ends_the_saga_failed_with_nothing_to_undo() -> None:
    saga = Driven(ORDER).refused("reserve", why="sold out")
    assert (saga.status, saga.sent, saga.states) == ("FAILED", [], {"reserve": "REFUSED"})
    assert saga.notes == ["REFUSED", "COMPENSATING", "ENDED_FAILED"]
    assert saga.last.notes[1].sentence == "reserve was refused. sold out"


def test_a_refusal_undoes_what_was_done_before_it_and_not_itself() -> None:
    saga = Driven(ORDER).done("reserve").refused("pay")
    assert (saga.status, saga.sent) == ("COMPENSATING", ["undo reserve 1"])
    assert saga.states == {"reserve": "UNDOING", "pay": "REFUSED"}
    saga.undone("reserve")
    assert (saga.status, saga.sent, saga.timer) == ("COMPENSATED", [], None)


def test_a_refused_pivot_undoes_everything_in_reverse() -> None:
    saga = Driven(ORDER).done("reserve").done("pay").refused("confirm")
    assert saga.sent == ["undo pay 1"]
    assert saga.undone("pay").sent == ["undo reserve 1"]
    saga.undone("reserve")
    assert (saga.status, saga.states) == (
        "COMPENSATED",
        {"reserve": "UNDONE", "pay": "UNDONE", "confirm": "REFUSED"},
    )


def test_a_step_that_never_answered_may_be_done_and_is_undone_too() -> None:
    saga = Driven(ORDER).done("reserve").never_answers()
    assert (saga.status, saga.sent) == ("COMPENSATING", ["undo pay 1"])
    assert saga.last.notes[1].sentence == "pay did not answer any of 2 attempts."
    assert saga.undone("pay").sent == ["undo reserve 1"]


def test_a_step_whose_command_died_is_undone_at_once() -> None:
    saga = Driven(ORDER).done("reserve").failed("pay", why="KeyError")
    assert (saga.status, saga.sent) == ("COMPENSATING", ["undo pay 1"])
    assert saga.last.notes[1].sentence == "pay failed, and nobody knows whether it was done. KeyError"


def test_a_command_that_died_during_the_rest_counts_too() -> None:
    saga = Driven(ORDER).done("reserve").time_passes().failed("pay")
    assert (saga.status, saga.sent) == ("COMPENSATING", ["undo pay 1"])


def test_that_an_earlier_attempt_died_says_nothing_of_the_one_under_way() -> None:
    saga = Driven(ORDER).time_passes().time_passes()
    before = saga.saga
    saga.failed("reserve", attempt=1)
    assert (saga.saga, saga.notes) == (before, ["IGNORED"])


def test_a_late_answer_to_a_step_that_is_being_undone_is_ignored() -> None:
    saga = Driven(ORDER).done("reserve").failed("pay")
    undoing = saga.saga
    for answer in (Replied("pay", "do", 1, "done"), Replied("pay", "do", 1, "refused")):
        saga.take(answer)
        assert (saga.saga, saga.sent, saga.notes) == (undoing, [], ["IGNORED"])


def test_an_undo_is_repeated_within_bounds_and_then_stuck_in_front_of_an_operator() -> None:
    saga = Driven(ORDER).done("reserve").refused("pay").time_passes()
    assert saga.timer == "rest undo reserve 1"
    assert saga.time_passes().sent == ["undo reserve 2"]
    saga.time_passes()
    assert (saga.status, saga.armed, saga.told) == ("STUCK", False, ["STUCK"])
    assert saga.last.notes[-1].sentence == "reserve could not be undone in 2 attempts. It did not answer."


def test_a_failed_undo_rests_once_however_often_it_is_said() -> None:
    saga = Driven(ORDER).done("reserve").refused("pay").failed("reserve", direction="undo")
    assert (saga.timer, saga.armed) == ("rest undo reserve 1", True)
    resting = saga.saga
    saga.failed("reserve", direction="undo")
    assert (saga.saga, saga.armed, saga.notes) == (resting, False, ["IGNORED"])
    assert saga.time_passes().sent == ["undo reserve 2"]
    saga.failed("reserve", attempt=2, direction="undo", why="KeyError")
    assert (saga.status, saga.told) == ("STUCK", ["STUCK"])
    stuck = saga.saga
    saga.failed("reserve", attempt=2, direction="undo")
    assert (saga.saga, saga.told) == (stuck, [])


def test_an_undo_that_is_refused_never_passes_for_undone() -> None:
    saga = Driven(ORDER).done("reserve").refused("pay").take(Replied("reserve", "undo", 1, "refused", why="no"))
    assert (saga.states["reserve"], saga.timer) == ("UNDOING", "rest undo reserve 1")


def test_a_saga_stuck_in_an_undo_takes_its_late_reply_and_goes_on_undoing() -> None:
    saga = Driven(ORDER).done("reserve").done("pay").refused("confirm").never_answers()
    assert (saga.status, saga.states["pay"]) == ("STUCK", "UNDOING")
    saga.undone("pay", attempt=1)
    assert (saga.status, saga.sent) == ("COMPENSATING", ["undo reserve 1"])


@pytest.mark.parametrize("step", ["confirm", "ship"])
def test_past_the_point_of_no_return_an_unknown_outcome_is_stuck(step: str) -> None:
    saga = Driven(ORDER).done("reserve").done("pay")
    if step == "ship":
        saga.done("confirm")
    saga.never_answers()
    assert (saga.status, saga.states[step], saga.told, saga.timer) == ("STUCK", "UNKNOWN", ["STUCK"], None)
    assert saga.states["pay"] == "DONE"


def test_a_stuck_pivot_that_turns_out_done_goes_on() -> None:
    saga = Driven(ORDER).done("reserve").done("pay").failed("confirm").done("confirm")
    assert (saga.status, saga.sent) == ("RUNNING", ["do ship 1"])


def test_a_stuck_pivot_that_turns_out_refused_undoes_everything() -> None:
    saga = Driven(ORDER).done("reserve").done("pay").failed("confirm").refused("confirm")
    assert (saga.status, saga.sent, saga.states["confirm"]) == ("COMPENSATING", ["undo pay 1"], "REFUSED")


def test_a_stuck_step_behind_the_pivot_that_turns_out_done_completes_the_saga() -> None:
    saga = Driven(ORDER).done("reserve").done("pay").done("confirm").never_answers().done("ship", attempt=1)
    assert (saga.status, saga.told) == ("COMPLETED", ["COMPLETED"])


def test_a_refusal_behind_the_pivot_undoes_nothing_whatever_the_service_meant() -> None:
    saga = Driven(ORDER).done("reserve").done("pay").done("confirm").refused("ship", why="no van")
    assert (saga.status, saga.sent) == ("STUCK", [])
    assert saga.last.notes[-1].sentence == "ship was refused, and is behind the pivot. no van"
    stuck = saga.saga
    saga.refused("ship", why="no van")
    assert (saga.saga, saga.told, saga.notes) == (stuck, [], ["IGNORED"])


def test_a_step_may_wait_for_a_person_when_its_outcome_is_unknown() -> None:
    saga = Driven(patient_saga().definition).done("reserve").never_answers()
    assert (saga.status, saga.states) == ("STUCK", {"reserve": "DONE", "pay": "UNKNOWN"})


def test_a_step_that_waits_for_a_person_still_takes_its_reply() -> None:
    stuck = Driven(patient_saga().definition).done("reserve").failed("pay").saga
    done, refused = Driven(patient_saga().definition), Driven(patient_saga().definition)
    for driven in (done, refused):
        driven.done("reserve").failed("pay")
        assert driven.saga == stuck
    assert (done.done("pay").sent, done.status) == (["do confirm 1"], "RUNNING")
    assert (refused.refused("pay").sent, refused.status) == (["undo reserve 1"], "COMPENSATING")


def test_a_repeated_failure_of_a_stuck_step_tells_nobody_twice() -> None:
    saga = Driven(ORDER).done("reserve").done("pay").failed("confirm")
    stuck = saga.saga
    saga.failed("confirm")
    assert (saga.saga, saga.told, saga.notes) == (stuck, [], ["IGNORED"])
