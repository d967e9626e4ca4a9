"""The engine: a definition, a saga as it stands, and something that happened; out comes what to do. Pure.

It knows steps by name and nothing of data: which path a branch takes comes in as a function, what replies brought along
is passed through. So the verifier explores the very code that runs.
"""

from typing import Protocol, assert_never

from surefoot.saga.decision import Decision
from surefoot.saga.definition import Definition
from surefoot.saga.instance import ENDED, Instance
from surefoot.saga.operating import operate
from surefoot.saga.stimulus import Arrived, Fired, Operated, Replied, Stimulus
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
    """A reply counts if it answers any attempt of the step awaited. That an attempt failed counts for the last one
    only: an earlier one says nothing of the one under way."""
    awaited = turn.awaited
    if awaited is None or (awaited[0].name, awaited[1]) != (reply.step, reply.direction):
        turn.ignore(reply, "its step is not awaited")
        return
    record, direction = awaited
    attempt = record.attempt if direction == "do" else record.undo_attempt
    if reply.attempt > attempt:
        turn.ignore(reply, "no such attempt was made")
    elif reply.answer == "failed":
        if reply.attempt < attempt or turn.status == "STUCK":
            turn.ignore(reply, "a later attempt is under way" if reply.attempt < attempt else "it is stuck already")
            return
        turn.note("FAILED", reply.step, direction, reply.attempt, reply.why)
        if direction == "do":
            turn.outcome_unknown(
                record, f"{reply.step} failed, and nobody knows whether it was done. {reply.why}".strip()
            )
        else:
            turn.undo_failed(record, reply.why)
    elif direction == "undo":
        turn.undone(record, reply.attempt)
    elif reply.answer == "done":
        turn.done(record, reply.attempt, reply.result)
    else:
        turn.refused(record, reply.attempt, reply.why)


def arrived(turn: Turn, event: Arrived) -> None:
    record = turn.record(event.wait)
    if record is not None and record.state == "AWAITED" and turn.status in ("RUNNING", "STUCK"):
        turn.arrival(record, event.result)
    elif record is None and turn.status in ("RUNNING", "STUCK"):
        turn.keep_arrival(event)
    else:
        turn.ignore(event, "it is not waited for any more")


def fired(turn: Turn, timer: Fired) -> None:
    armed = turn.timer
    if armed is None or (armed.step, armed.direction, armed.attempt, armed.kind) != (
        timer.step,
        timer.direction,
        timer.attempt,
        timer.kind,
    ):
        return  # an old one: what it was for is over
    awaited = turn.awaited
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
