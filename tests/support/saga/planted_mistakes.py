"""Mistakes planted in the engine, each of which the verifier has to find. Each is one that somebody could make."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from surefoot.saga import engine
from surefoot.saga.decision import Decision, NoteKind
from surefoot.saga.definition import Definition, Step
from surefoot.saga.engine import Decide
from surefoot.saga.instance import ENDED, Instance, StepRecord, Timer
from surefoot.saga.stimulus import Arrived, Fired, Operated, Replied, Stimulus
from surefoot.saga.turn import Chooser, Turn


def with_turn(turn: type[Turn]) -> Decide:
    def decide(definition: Definition, instance: Instance, stimulus: Stimulus, choose: Chooser) -> Decision:
        made = turn(definition, instance, choose)
        engine.take(made, stimulus)
        return made.decision()

    return decide


def begin_with(turn: type[Turn]) -> Callable[[Definition, Chooser], Decision]:
    def begin(definition: Definition, choose: Chooser) -> Decision:
        made = turn(definition, Instance(), choose)
        made.advance()
        return made.decision()

    return begin


class UndoesInOrderOfDoing(Turn):
    def _undo_next(self) -> None:
        self._trail.reverse()
        super()._undo_next()
        self._trail.reverse()


class UndoesAllAtOnce(Turn):
    def _undo_next(self) -> None:
        for record in reversed(self._trail):
            node = self.definition.parts[record.name]
            if record.state == "DONE" and isinstance(node, Step) and node.undo is not None:
                self._change(record, state="UNDOING", undo_attempt=1, undo_limit=1)
                self._send(record.name, "undo", 1)
        if all(record.state != "UNDOING" for record in self._trail):
            super()._undo_next()


class UndoesBehindThePivot(Turn):
    def outcome_unknown(self, record: StepRecord, why: str) -> None:
        self._change(record, state="UNKNOWN")
        self.compensate(why)


class LetsPeopleUndoThePivot(Turn):
    @property
    def is_final(self) -> bool:
        return False


class ForgetsTheUnknownStep(Turn):
    """Takes silence for a refusal."""

    def outcome_unknown(self, record: StepRecord, why: str) -> None:
        self._change(record, state="REFUSED")
        self.compensate(why)


class GoesBackWhenItIsDone(Turn):
    def take_as_done(
        self, record: StepRecord, result: Any, kind: NoteKind, attempt: int | None = None, sentence: str = ""
    ) -> None:
        self._change(record, state="DONE", result=result)
        self.compensate("it is done")


class TakesRefusalForUnknown(Turn):
    def refused(self, record: StepRecord, attempt: int, why: str) -> None:
        self.outcome_unknown(record, why)


class TakesRefusalForDone(Turn):
    def refused(self, record: StepRecord, attempt: int, why: str) -> None:
        self.take_as_done(record, None, "DONE", attempt)


class TakesSilenceForDone(Turn):
    def outcome_unknown(self, record: StepRecord, why: str) -> None:
        self.take_as_done(record, None, "DONE")


class CallsAFailedUndoCompensated(Turn):
    def undo_failed(self, record: StepRecord, why: str) -> None:
        if record.undo_attempt < record.undo_limit:
            super().undo_failed(record, why)
        else:
            self.take_as_undone(record, "UNDONE")


class SetsNoTimer(Turn):
    def arm(self, timer: Timer) -> None:
        if timer.kind != "timeout":
            super().arm(timer)


class KeepsItsTimerToItself(Turn):
    """The standing has the timer, and nobody is told to set it."""

    def decision(self) -> Decision:
        return replace(super().decision(), arm=None)


class RetriesForEver(Turn):
    def timed_out(self, record: StepRecord) -> None:
        self._rest(record.name, "do", record.attempt, self.definition.step(record.name).retry)


class RestsForEver(Turn):
    """When the rest is over it waits again, and sends nothing."""

    def send_again(self, record: StepRecord, direction: Any) -> None:
        attempt = record.attempt if direction == "do" else record.undo_attempt
        self.arm(Timer(record.name, direction, attempt, "timeout", self.definition.step(record.name).timeout))


class SendsUnderTheOldNumber(Turn):
    def send_again(self, record: StepRecord, direction: Any) -> None:
        super().send_again(record, direction)
        self._sends[-1] = replace(self._sends[-1], attempt=1)


class LosesEarlyArrivals(Turn):
    def keep_arrival(self, event: Arrived) -> None:
        self.ignore(event, "it is not waited for")


class ForgetsEarlyArrivalsWhenItGoesOn(Turn):
    def advance(self) -> None:
        self._arrived.clear()
        super().advance()


class DoesNotWait(Turn):
    def advance(self) -> None:
        super().advance()
        if self.timer is not None and self.timer.kind == "deadline":
            self._change(self._trail[-1], state="DONE")
            self.advance()


class ForgetsWhichPathItTook(Turn):
    def advance(self) -> None:
        self._choices.clear()
        super().advance()


class EndsOneStepEarly(Turn):
    def take_as_done(
        self, record: StepRecord, result: Any, kind: NoteKind, attempt: int | None = None, sentence: str = ""
    ) -> None:
        super().take_as_done(record, result, kind, attempt, sentence)
        if self._next() is None and self.status == "RUNNING":
            self.timer = None
            self._end("COMPLETED", "COMPLETED")


class IsStuckOverNothing(Turn):
    """The step it is stuck at is not awaited any more, so nobody can do anything about it."""

    def stuck(self, step: str, direction: Any, why: str) -> None:
        super().stuck(step, direction, why)
        self._trail = [replace(r, state="LEFT") if r.name == step else r for r in self._trail]


class LosesWhatWasHeld(Turn):
    def release_held(self) -> list[Replied | Arrived]:
        self._held = []
        return []


class LosesItsTimerByAPause(Turn):
    def decision(self) -> Decision:
        if self.status == "PAUSED":
            self.timer_before_pause = None
        return super().decision()


def loses_compensation_by_a_pause(
    definition: Definition, instance: Instance, stimulus: Stimulus, choose: Chooser
) -> Decision:
    """On resuming it goes on forwards, with what it was about to undo taken as done."""
    if isinstance(stimulus, Operated) and stimulus.verb == "resume" and instance.before_pause == "COMPENSATING":
        trail = tuple(replace(r, state="DONE") if r.state == "UNDOING" else r for r in instance.trail)
        turn = Turn(definition, Instance("RUNNING", trail, instance.choices), choose)
        turn.advance()
        return turn.decision()
    return engine.decide(definition, instance, stimulus, choose)


def takes_any_reply_for_the_awaited(
    definition: Definition, instance: Instance, stimulus: Stimulus, choose: Chooser
) -> Decision:
    if isinstance(stimulus, Replied) and instance.awaited is not None:
        record, direction = instance.awaited
        stimulus = replace(stimulus, step=record.name, direction=direction, attempt=1)
    return engine.decide(definition, instance, stimulus, choose)


def looks_at_no_direction(definition: Definition, instance: Instance, stimulus: Stimulus, choose: Chooser) -> Decision:
    """A late reply to the do passes for one to the undo."""
    if isinstance(stimulus, Replied) and instance.awaited is not None and stimulus.step == instance.awaited[0].name:
        stimulus = replace(stimulus, direction=instance.awaited[1], attempt=1)
    return engine.decide(definition, instance, stimulus, choose)


def advances_twice_on_a_repeat(
    definition: Definition, instance: Instance, stimulus: Stimulus, choose: Chooser
) -> Decision:
    if isinstance(stimulus, Replied) and stimulus.answer == "done" and len(instance.trail) > 1:
        before, last = instance.trail[-2:]
        if stimulus.step == before.name and stimulus.direction == "do" and last.state == "AWAITED":
            stimulus = replace(stimulus, step=last.name, attempt=1)
    return engine.decide(definition, instance, stimulus, choose)


def hears_the_last_attempt_only(
    definition: Definition, instance: Instance, stimulus: Stimulus, choose: Chooser
) -> Decision:
    if isinstance(stimulus, Replied) and instance.awaited is not None:
        record, direction = instance.awaited
        if stimulus.attempt != (record.attempt if direction == "do" else record.undo_attempt):
            return Decision(instance)
    return engine.decide(definition, instance, stimulus, choose)


def looks_at_no_attempt_of_a_timer(
    definition: Definition, instance: Instance, stimulus: Stimulus, choose: Chooser
) -> Decision:
    armed = instance.timer
    if isinstance(stimulus, Fired) and armed is not None and stimulus.step == armed.step:
        stimulus = Fired(armed.step, armed.direction, armed.attempt, armed.kind)
    return engine.decide(definition, instance, stimulus, choose)


def goes_on_after_the_end(definition: Definition, instance: Instance, stimulus: Stimulus, choose: Chooser) -> Decision:
    """A step that answers late, when all is undone, is undone once more."""
    if isinstance(stimulus, Replied) and instance.status in ENDED and stimulus.answer == "done":
        return replace(
            engine.decide(definition, instance, stimulus, choose), instance=replace(instance, status="STUCK")
        )
    return engine.decide(definition, instance, stimulus, choose)


def raises_on_a_refusal(definition: Definition, instance: Instance, stimulus: Stimulus, choose: Chooser) -> Decision:
    if isinstance(stimulus, Replied) and stimulus.answer == "refused":
        raise KeyError(stimulus.step)
    return engine.decide(definition, instance, stimulus, choose)
