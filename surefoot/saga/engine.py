"""The engine: a definition, a saga as it stands, and something that happened; out comes what to do. Pure.

It knows steps by name and nothing of data: which path a branch takes comes in as a function, what replies brought along
is passed through. So the verifier explores the very code that runs.
"""

from typing import Protocol, assert_never

from surefoot.saga.decision import Decision
from surefoot.saga.definition import Definition, Step, Wait
from surefoot.saga.instance import ENDED, Instance, StepRecord
from surefoot.saga.operating import operate
from surefoot.saga.stimulus import Arrived, Broken, Fired, Operated, Replied, Stimulus
from surefoot.saga.turn import Chooser, Turn


class Decide(Protocol):
    def __call__(self, definition: Definition, instance: Instance, stimulus: Stimulus, choose: Chooser) -> Decision: ...


def begin(definition: Definition, choose: Chooser) -> Decision:
    """A new saga: its first command."""
    turn = Turn(definition, Instance(), choose)
    turn.note("STARTED")
    turn.advance()
    return turn.decision()


def decide(definition: Definition, instance: Instance, stimulus: Stimulus, choose: Chooser) -> Decision:
    """What this means for the saga. Whatever does not, or no longer, matter is noted and ignored.

    Raises NotNow if a person wants what cannot be done now."""
    turn = Turn(definition, instance, choose)
    take(turn, stimulus)
    return turn.decision()


def take(turn: Turn, stimulus: Stimulus) -> None:
    if isinstance(stimulus, Operated):
        operate(turn, stimulus, take)
    elif isinstance(stimulus, Fired):
        fired(turn, stimulus)
    elif isinstance(stimulus, Broken):
        broken(turn, stimulus)
    elif turn.status in ENDED:
        turn.ignore(stimulus, "the saga has ended")
    elif turn.status == "PAUSED":
        turn.hold(stimulus)
    elif isinstance(stimulus, Replied):
        replied(turn, stimulus)
    elif isinstance(stimulus, Arrived):
        arrived(turn, stimulus)
    else:
        assert_never(stimulus)


def replied(turn: Turn, reply: Replied) -> None:
    """A reply counts if it answers any attempt of the step awaited."""
    awaited = turn.awaited
    if awaited is None or (awaited[0].name, awaited[1]) != (reply.step, reply.direction):
        turn.ignore(reply, "its step is not awaited")
        return
    record, direction = awaited
    made = record.attempt if direction == "do" else record.undo_attempt
    if not isinstance(turn.definition.parts[record.name], Step):
        turn.ignore(reply, "nobody was commanded to do it")
    elif not 1 <= reply.attempt <= made:
        turn.ignore(reply, "no such attempt was made")
    elif reply.answer == "done":
        if direction == "do":
            turn.take_as_done(record, reply.result, "DONE", reply.attempt)
        else:
            turn.take_as_undone(record, "UNDONE", reply.attempt)
    elif reply.answer == "refused" and direction == "do":
        refused(turn, reply, record)
    else:
        # An undo cannot be refused: what was not undone must never pass for undone.
        failed(turn, reply, record, made)


def refused(turn: Turn, reply: Replied, record: StepRecord) -> None:
    if turn.status == "STUCK" and turn.definition.step(record.name).after_pivot:
        turn.ignore(reply, "it is stuck already")
    else:
        turn.refused(record, reply.attempt, reply.why)


def failed(turn: Turn, reply: Replied, record: StepRecord, made: int) -> None:
    """That an attempt failed counts for the last one only: an earlier one says nothing of the one under way."""
    if reply.attempt < made:
        turn.ignore(reply, "a later attempt is under way")
    elif turn.status == "STUCK":
        turn.ignore(reply, "it is stuck already")
    elif reply.direction == "do":
        turn.note("FAILED", reply.step, "do", reply.attempt, reply.why)
        turn.outcome_unknown(record, f"{reply.step} failed, and nobody knows whether it was done. {reply.why}".strip())
    elif turn.rests:
        turn.ignore(reply, "the next attempt is due already")
    else:
        turn.note("FAILED", reply.step, "undo", reply.attempt, reply.why)
        turn.undo_failed(record, reply.why)


def arrived(turn: Turn, event: Arrived) -> None:
    """An event that comes before its wait is reached is kept for it: outside, nobody waits for us."""
    awaited = turn.awaited
    record = turn.record(event.wait)
    if not isinstance(turn.definition.parts.get(event.wait), Wait):
        turn.ignore(event, "there is no such wait")
    elif awaited is None or awaited[1] == "undo":
        turn.ignore(event, "the saga is being undone")
    elif record is None:
        turn.keep_arrival(event)
    elif record.state == "AWAITED":
        turn.take_as_done(record, event.result, "ARRIVED")
    else:
        turn.ignore(event, "it is not waited for any more")


def broken(turn: Turn, timer: Broken) -> None:
    """Its step stays as it is, so that a retry sends it again and a skip takes it as done."""
    armed, awaited = turn.timer, turn.awaited
    at = None if armed is None else (armed.step, armed.direction, armed.attempt, armed.kind)
    if awaited is not None and at == (timer.step, timer.direction, timer.attempt, timer.kind):
        turn.stuck(awaited[0].name, awaited[1], timer.why)


def fired(turn: Turn, timer: Fired) -> None:
    armed, awaited = turn.timer, turn.awaited
    if armed is None or Fired(armed.step, armed.direction, armed.attempt, armed.kind) != timer:
        return  # an old one: what it was for is over
    assert awaited is not None
    record, direction = awaited
    turn.timer = None
    if timer.kind == "rest":
        turn.send_again(record, direction)
    elif timer.kind == "deadline":
        turn.late(record)
    elif direction == "do":
        turn.timed_out(record)
    else:
        turn.undo_timed_out(record)
