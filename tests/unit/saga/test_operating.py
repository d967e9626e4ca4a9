"""What a person may do to a saga, at each of its standings; and what is refused, with a sentence."""

import pytest

from surefoot.saga import NotNow, Saga
from surefoot.saga.stimulus import Verb
from tests.support.saga.engine_driver import Driven
from tests.support.saga.order_sagas import order_saga, pickup_saga, send
from tests.support.shop_types import OrderWanted, ParcelSent

ORDER, PICKUP = order_saga().definition, pickup_saga().definition


def stuck_in_undo() -> Driven:
    return Driven(ORDER).done("reserve").done("pay").refused("confirm").never_answers()


def stuck_behind_the_pivot() -> Driven:
    return Driven(ORDER).done("reserve").done("pay").done("confirm").never_answers()


def ended() -> Driven:
    return Driven(ORDER).refused("reserve")


# -- retry ----------------------------------------------------------------------------------------------------------


def test_retry_sends_the_command_awaited_once_more() -> None:
    saga = Driven(ORDER).operate("retry")
    assert (saga.sent, saga.timer, saga.armed) == (["do reserve 2"], "timeout do reserve 2", True)
    assert saga.last.notes[0].sentence == "ann: I looked"


def test_retry_does_not_wait_for_the_rest_to_pass() -> None:
    assert Driven(ORDER).time_passes().operate("retry").sent == ["do reserve 2"]


def test_retry_may_go_beyond_the_attempts_of_the_definition() -> None:
    saga = Driven(ORDER).operate("retry").operate("retry")
    assert saga.sent == ["do reserve 3"]
    saga.time_passes()
    assert (saga.status, saga.states["reserve"]) == ("COMPENSATING", "UNDOING")


def test_retry_of_a_stuck_step_grants_its_attempts_anew() -> None:
    saga = stuck_behind_the_pivot().operate("retry")
    assert (saga.status, saga.sent, saga.states["ship"]) == ("RUNNING", ["do ship 3"], "AWAITED")
    assert saga.time_passes().time_passes().sent == ["do ship 4"]
    assert saga.time_passes().status == "STUCK"


def test_retry_of_a_stuck_undo_grants_its_attempts_anew() -> None:
    saga = stuck_in_undo().operate("retry")
    assert (saga.status, saga.sent) == ("COMPENSATING", ["undo pay 3"])
    assert saga.time_passes().time_passes().sent == ["undo pay 4"]
    assert saga.time_passes().status == "STUCK"


def test_retry_of_an_undo_under_way_sends_it_again() -> None:
    saga = Driven(ORDER).done("reserve").refused("pay").operate("retry")
    assert (saga.status, saga.sent) == ("COMPENSATING", ["undo reserve 2"])


def test_a_wait_that_is_not_late_cannot_be_retried() -> None:
    with pytest.raises(NotNow, match=r"waits for collected, which nobody was commanded to do: there is nothing to"):
        Driven(PICKUP).done("reserve").operate("retry")


# -- skip -----------------------------------------------------------------------------------------------------------


def test_skip_takes_the_step_awaited_as_done_with_a_result() -> None:
    saga = Driven(ORDER).operate("skip", result={"shelf": "C3"})
    assert (saga.sent, saga.notes) == (["do pay 1"], ["SKIPPED", "SENT"])
    record = saga.saga.record("reserve")
    assert record is not None
    assert (record.state, record.result) == ("DONE", {"shelf": "C3"})


def test_a_skipped_step_is_undone_like_any_other() -> None:
    assert Driven(ORDER).operate("skip").refused("pay").sent == ["undo reserve 1"]


def test_skip_during_a_rest_ends_the_rest() -> None:
    saga = Driven(ORDER).time_passes().operate("skip")
    assert (saga.sent, saga.timer) == (["do pay 1"], "timeout do pay 1")


def test_skip_lets_a_stuck_step_behind_the_pivot_go_on() -> None:
    saga = stuck_behind_the_pivot().operate("skip")
    assert (saga.status, saga.told) == ("COMPLETED", ["COMPLETED"])


def test_skip_takes_a_stuck_undo_as_undone() -> None:
    saga = stuck_in_undo().operate("skip")
    assert (saga.status, saga.states["pay"], saga.sent) == ("COMPENSATING", "UNDONE", ["undo reserve 1"])


def test_skip_takes_an_undo_under_way_as_undone() -> None:
    saga = Driven(ORDER).done("reserve").refused("pay").operate("skip")
    assert (saga.status, saga.states["reserve"]) == ("COMPENSATED", "UNDONE")


def test_skip_takes_a_wait_as_over_late_or_not() -> None:
    assert Driven(PICKUP).done("reserve").operate("skip").sent == ["do ship 1"]
    saga = Driven(PICKUP).done("reserve").time_passes().operate("skip", result={"driver": "Eve"})
    assert (saga.status, saga.sent, saga.states["collected"]) == ("RUNNING", ["do ship 1"], "DONE")


# -- compensate -----------------------------------------------------------------------------------------------------


def test_compensate_undoes_the_step_awaited_too_because_it_may_be_done() -> None:
    saga = Driven(ORDER).done("reserve").operate("compensate")
    assert (saga.status, saga.sent, saga.states) == (
        "COMPENSATING",
        ["undo pay 1"],
        {"reserve": "DONE", "pay": "UNDOING"},
    )
    assert saga.last.notes[0].sentence == "An operator decided it. ann: I looked"


def test_compensate_leaves_a_wait_late_or_not() -> None:
    for saga in (Driven(PICKUP).done("reserve"), Driven(PICKUP).done("reserve").time_passes()):
        saga.operate("compensate")
        assert (saga.status, saga.sent, saga.states["collected"]) == ("COMPENSATING", ["undo reserve 1"], "LEFT")


def test_compensate_with_nothing_to_undo_ends_the_saga_failed() -> None:
    look = Saga("look", version=1, starts_on=OrderWanted)
    look.step("look", do=send, done_on=ParcelSent, nothing_to_undo=True)
    assert Driven(look.definition).operate("compensate").status == "FAILED"


def test_compensate_is_refused_once_the_pivot_was_sent() -> None:
    for saga in (Driven(ORDER).done("reserve").done("pay"), stuck_behind_the_pivot()):
        with pytest.raises(NotNow, match=r"past its point of no return: finish it by retry or skip"):
            saga.operate("compensate")


def test_compensate_is_refused_while_the_saga_is_being_undone() -> None:
    for saga in (Driven(ORDER).done("reserve").refused("pay"), stuck_in_undo()):
        with pytest.raises(NotNow, match=r"is being undone already"):
            saga.operate("compensate")


# -- whoever looked before somebody else acted ----------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["retry", "skip", "compensate", "pause"])
def test_what_is_meant_for_a_step_that_is_over_is_refused(verb: Verb) -> None:
    saga = Driven(ORDER).done("reserve")
    with pytest.raises(NotNow, match=r"The saga waits for pay, not for reserve: it has gone on. Look again."):
        saga.operate(verb, step="reserve")
    assert saga.operate("retry", step="pay").sent == ["do pay 2"]


@pytest.mark.parametrize("verb", ["pause", "resume", "retry", "skip", "compensate"])
def test_nothing_can_be_done_to_a_saga_that_has_ended(verb: Verb) -> None:
    with pytest.raises(NotNow, match=r"The saga is FAILED: nothing can be done to it any more."):
        ended().operate(verb)
