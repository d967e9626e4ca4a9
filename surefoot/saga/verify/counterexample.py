"""A way through the model as messages to be read top to bottom: who → whom, what, and how the saga then stands."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from surefoot.saga.decision import Decision
from surefoot.saga.instance import Instance
from surefoot.saga.stimulus import Arrived, Broken, Fired, Operated, Replied, Stimulus
from surefoot.saga.verify.deciding import Outcome
from surefoot.saga.verify.model import Move
from surefoot.saga.verify.verdict import Line

ORCHESTRATOR = "orchestrator"
ANSWERS = {"done": "done", "refused": "refused", "failed": "failed, outcome unknown"}


def lines(events: Iterable[Outcome | Move]) -> Iterator[Line]:
    for event in events:
        if isinstance(event, Outcome):
            yield Line(_heard(event.stimulus), standing(event.decision.instance))
            yield from _sends(event.decision)
        else:
            yield Line(f"{event.after.step} {event.deed}")


def _heard(stimulus: Stimulus | None) -> str:
    if stimulus is None:
        return "the saga begins"
    if isinstance(stimulus, Replied):
        undo = "undo " if stimulus.direction == "undo" else ""
        answer = ANSWERS[stimulus.answer]
        return f"{stimulus.step} → {ORCHESTRATOR}: {undo}{answer} (attempt {stimulus.attempt})"
    if isinstance(stimulus, Arrived):
        return f"outside → {ORCHESTRATOR}: the event that {stimulus.wait} is for"
    if isinstance(stimulus, Fired):
        if stimulus.kind == "deadline":
            return f"timer: {stimulus.step}, its deadline"
        of = f"the undo of {stimulus.step}" if stimulus.direction == "undo" else stimulus.step
        why = " (the rest is over)" if stimulus.kind == "rest" else ""
        return f"timer: {of}, attempt {stimulus.attempt}{why}"
    if isinstance(stimulus, Broken):
        return f"the functions of the definition fail on the timer of {stimulus.step}"
    if isinstance(stimulus, Operated):
        return f"operator → {ORCHESTRATOR}: {stimulus.verb}"
    assert_never(stimulus)


def _sends(decision: Decision) -> Iterator[Line]:
    for send in decision.sends:
        yield Line(f"{ORCHESTRATOR} → {send.step}: {send.direction} (attempt {send.attempt})")


def standing(instance: Instance) -> str:
    held = f", {len(instance.held)} held" if instance.held else ""
    awaited = instance.awaited
    if awaited is None:
        return f"{instance.status}{held}"
    record, direction = awaited
    of = f"the undo of {record.name}" if direction == "undo" else record.name
    rests = instance.timer is not None and instance.timer.kind == "rest"
    return f"{instance.status}, {'rests before it asks again' if rests else 'waits'} for {of}{held}"
