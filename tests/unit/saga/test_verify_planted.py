"""The verifier finds every planted mistake, and says which property it breaks."""

import pytest

from surefoot.saga import Definition, engine
from surefoot.saga.engine import Decide
from surefoot.saga.turn import Turn
from surefoot.saga.verify import Limits, Property, Violated, verify
from tests.support.saga import planted_mistakes as planted
from tests.support.saga import planted_sagas
from tests.support.saga.planted_mistakes import begin_with, with_turn

order, returned, two = planted_sagas.order(), planted_sagas.returned(), planted_sagas.two_steps()


def found(definition: Definition, decide: Decide = engine.decide, **how: object) -> Property:
    verdict = verify(definition, decide=decide, limits=Limits(states=50_000), **how)  # type: ignore[arg-type]
    assert isinstance(verdict, Violated), verdict
    assert verdict.path
    return verdict.property


@pytest.mark.parametrize("definition", [planted_sagas.undo_missing(), planted_sagas.undo_missing_at_the_end()])
def test_an_undo_that_is_missing_is_found(definition: Definition) -> None:
    assert found(definition) == "undone"


@pytest.mark.parametrize(
    ("turn", "definition", "broken"),
    [
        (planted.UndoesInOrderOfDoing, two, "reverse"),
        (planted.UndoesAllAtOnce, order, "reverse"),
        (planted.UndoesBehindThePivot, order, "pivot"),
        (planted.LetsPeopleUndoThePivot, order, "pivot"),
        (planted.ForgetsTheUnknownStep, two, "undone"),
        (planted.GoesBackWhenItIsDone, two, "heard"),
        (planted.TakesRefusalForUnknown, two, "refused"),
        (planted.TakesRefusalForDone, two, "in_order"),
        (planted.TakesSilenceForDone, two, "in_order"),
        (planted.CallsAFailedUndoCompensated, two, "undone"),
        (planted.KeepsItsTimerToItself, two, "ends"),
        (planted.RetriesForEver, two, "bounded"),
        (planted.RestsForEver, two, "ends"),
        (planted.SendsUnderTheOldNumber, two, "bounded"),
        (planted.LosesEarlyArrivals, returned, "heard"),
        (planted.ForgetsEarlyArrivalsWhenItGoesOn, returned, "heard"),
        (planted.DoesNotWait, returned, "in_order"),
        (planted.ForgetsWhichPathItTook, returned, "kept"),
        (planted.EndsOneStepEarly, two, "kept"),
        (planted.IsStuckOverNothing, two, "operable"),
        (planted.LosesWhatWasHeld, two, "heard"),
        (planted.LosesItsTimerByAPause, two, "ends"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else getattr(value, "name", value),
)
def test_a_mistake_in_the_moves_is_found(turn: type[Turn], definition: Definition, broken: Property) -> None:
    assert found(definition, with_turn(turn)) == broken


@pytest.mark.parametrize(
    ("decide", "definition", "broken"),
    [
        (planted.takes_any_reply_for_the_awaited, two, "stale"),
        (planted.looks_at_no_direction, two, "stale"),
        (planted.advances_twice_on_a_repeat, two, "stale"),
        (planted.hears_the_last_attempt_only, two, "heard"),
        (planted.looks_at_no_attempt_of_a_timer, two, "stale"),
        (planted.goes_on_after_the_end, two, "stale"),
        (planted.loses_compensation_by_a_pause, two, "in_order"),
        (planted.raises_on_a_refusal, two, "decides"),
    ],
)
def test_a_mistake_in_what_a_stimulus_means_is_found(decide: Decide, definition: Definition, broken: Property) -> None:
    assert found(definition, decide) == broken


def test_a_saga_that_begins_without_a_timer_is_found() -> None:
    turn = planted.SetsNoTimer
    assert found(two, with_turn(turn), begin=begin_with(turn)) == "ends"
