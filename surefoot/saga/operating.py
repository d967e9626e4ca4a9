"""What a person may do to a saga: pause, resume, retry, skip, compensate. Pure; what cannot be done now is refused
with a sentence. The result that a person gives for a skipped step must be one that the step could have given, and must
not be missing where other steps rely on it; the engine itself never looks at results.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeGuard, assert_never

from surefoot.errors import SurefootError
from surefoot.events import EventData
from surefoot.events.event import Direction
from surefoot.saga.definition import Branch, Definition, Step, Wait, giver_of, needs_of, stored_result
from surefoot.saga.instance import ENDED, StepRecord
from surefoot.saga.stimulus import Arrived, Operated, Replied, Stimulus
from surefoot.saga.turn import Turn


class NotNow(SurefootError):
    """What was asked of the saga cannot be done now."""


Take = Callable[[Turn, Stimulus], None]


def operate(turn: Turn, asked: Operated, take: Take) -> None:
    if turn.status in ENDED:
        raise NotNow(f"The saga is {turn.status}: nothing can be done to it any more.")
    if asked.verb == "resume" and turn.status != "PAUSED":
        raise NotNow(f"The saga is {turn.status}, not paused.")
    if turn.status == "PAUSED" and asked.verb not in ("resume", "compensate"):
        raise NotNow(f"The saga is paused already. Resume it, then {asked.verb}.")
    record, direction = awaited(turn, asked)
    if asked.verb == "pause":
        pause(turn, asked)
    elif asked.verb == "resume":
        resume(turn, asked, take)
    elif asked.verb == "compensate":
        compensate(turn, asked, record, direction, take)
    elif asked.verb == "retry":
        retry(turn, asked, record, direction)
    elif asked.verb == "skip":
        skip(turn, asked, record, direction)
    else:
        assert_never(asked.verb)


def awaited(turn: Turn, asked: Operated) -> tuple[StepRecord, Direction]:
    found = turn.awaited
    assert found is not None  # a saga that has not ended waits for something
    if asked.step is not None and asked.step != found[0].name:
        raise NotNow(f"The saga waits for {found[0].name}, not for {asked.step}: it has gone on. Look again.")
    return found


def pause(turn: Turn, asked: Operated) -> None:
    if turn.status == "STUCK":
        raise NotNow("The saga is stuck: it does nothing by itself, so there is nothing to pause.")
    turn.before_pause, turn.timer_before_pause = turn.status, turn.timer
    turn.status, turn.timer = "PAUSED", None
    turn.note("PAUSED", sentence=signed(asked))


def resume(turn: Turn, asked: Operated, take: Take) -> None:
    """Replies that came meanwhile act first, and of those the ones that say what was done before the ones that do not
    know; if none of them moved the saga, its timer starts anew."""
    assert turn.before_pause is not None
    turn.status, timer = turn.before_pause, turn.timer_before_pause
    turn.before_pause = turn.timer_before_pause = None
    turn.timer = timer
    turn.note("RESUMED", sentence=signed(asked))
    for stimulus in sorted(turn.release_held(), key=knows_nothing):
        take(turn, stimulus)
    if timer is not None and turn.timer is timer:
        turn.arm(timer)


def retry(turn: Turn, asked: Operated, record: StepRecord, direction: Direction) -> None:
    """Send the command once more; a saga that is stuck gets as many attempts again as the definition gives. A wait that
    was late waits once more."""
    is_step = isinstance(turn.definition.parts[record.name], Step)
    if not is_step and turn.status != "STUCK":
        raise NotNow(f"The saga waits for {record.name}, which nobody was commanded to do: there is nothing to retry.")
    if turn.status == "STUCK":
        if is_step:
            record = turn.grant(record, direction)
        turn.status = "RUNNING" if direction == "do" else "COMPENSATING"
    turn.note("RETRIED", record.name, direction, sentence=signed(asked))
    if is_step:
        turn.send_again(record, direction)
    else:
        turn.wait_again(record)


def skip(turn: Turn, asked: Operated, record: StepRecord, direction: Direction) -> None:
    """Take it as done, or undone, by somebody's hand."""
    if direction == "do":
        turn.take_as_done(record, asked.result, "SKIPPED", sentence=signed(asked))
    else:
        turn.take_as_undone(record, "SKIPPED", sentence=signed(asked))


def compensate(turn: Turn, asked: Operated, record: StepRecord, direction: Direction, take: Take) -> None:
    """Undo everything now. Also while it is paused: to resume first could let a reply that is held send the pivot. What
    is held comes too late then: the step awaited is undone, done or not; unless it was refused."""
    if direction == "undo":
        raise NotNow("The saga is being undone already.")
    if turn.is_final:
        raise NotNow(
            "The saga is past its point of no return: finish it by retry or skip, it cannot be undone any more."
        )
    turn.before_pause = turn.timer_before_pause = None
    held = turn.release_held()
    refusal = next((one for one in held if is_refusal(one, record)), None)
    if refusal is None:
        turn.give_up(record)
    else:
        turn.take_as_refused(record, refusal.attempt, refusal.why)
    turn.compensate(f"An operator decided it. {signed(asked)}")
    for stimulus in held:
        if stimulus is not refusal:
            take(turn, stimulus)


def knows_nothing(stimulus: Replied | Arrived) -> bool:
    return isinstance(stimulus, Replied) and stimulus.answer == "failed"


def is_refusal(stimulus: Replied | Arrived, record: StepRecord) -> TypeGuard[Replied]:
    """Of the step awaited: it was not done, whatever other attempts have come to."""
    return (
        isinstance(stimulus, Replied)
        and (stimulus.step, stimulus.direction, stimulus.answer) == (record.name, "do", "refused")
        and 1 <= stimulus.attempt <= record.attempt
    )


def signed(asked: Operated) -> str:
    return f"{asked.by}: {asked.why}"


def result_for_skip(definition: Definition, name: str, result: EventData | None) -> Any:
    """The result as it is stored. Raises NotNow, with what to give, if it would not do."""
    node = definition.parts[name]
    assert isinstance(node, Step | Wait)
    possible = " or ".join(one.__name__ for one in node.done_on)
    if result is None:
        if any(_relies_on(definition, function, node) for function in functions_of(definition)):
            raise NotNow(f"Others need the result of {name}: give the {possible} that it is to be taken as done with.")
        return None
    if not isinstance(result, node.done_on):
        raise NotNow(f"{name} is done on {possible}, not on {type(result).__name__}: give such a result.")
    return stored_result(result)


def _relies_on(definition: Definition, function: Callable[..., Any], node: Step | Wait) -> bool:
    everything = tuple(definition.parts.values())
    return any(not need.optional and giver_of(need, everything) == node for need in needs_of(function))


def functions_of(definition: Definition) -> Iterator[Callable[..., Any]]:
    """All that are given results."""
    for node in definition.parts.values():
        if isinstance(node, Branch):
            yield node.by
        elif isinstance(node, Wait):
            if node.tell is not None:
                yield node.tell
        else:
            yield node.do
            if node.undo is not None:
                yield node.undo
    yield from definition.tells.values()
