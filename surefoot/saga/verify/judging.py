"""Judging an answer of the engine by the standing before and after it, and a standing by what can move it. Pure."""

from collections.abc import Set as AbstractSet
from dataclasses import replace

from surefoot.saga.decision import Decision
from surefoot.saga.instance import ENDED, Instance
from surefoot.saga.stimulus import Arrived, Broken, Fired, Operated, Replied, Stimulus, Verb
from surefoot.saga.verify.verdict import Trouble


def answer(before: Instance, stimulus: Stimulus | None, decision: Decision) -> Trouble | None:
    """`stimulus`: None if the saga begins."""
    after = decision.instance
    if after.timer is not None and after.timer != before.timer and decision.arm != after.timer:
        return Trouble("ends", "The saga relies on a new timer, and does not say that it is to be set.")
    if stimulus is None:
        return None
    if isinstance(stimulus, Operated):
        return _resumed(before, after) if stimulus.verb == "resume" else None
    acted = bool(decision.sends or decision.tells or decision.arm)
    moved = acted or after != before
    if before.status in ENDED:
        return _stale("The saga has ended, and is moved all the same.") if moved else None
    if before.status == "PAUSED":
        if acted or replace(after, held=before.held) != before:
            return _stale("The saga is paused, and is moved all the same.")
        return None
    if isinstance(stimulus, Fired):
        if moved and not is_armed(before, stimulus):
            return _stale(f"An old timer of {stimulus.step} moves the saga.")
        return None
    if isinstance(stimulus, Arrived):
        return _arrival(before, stimulus.wait, after, acted)
    if isinstance(stimulus, Broken):  # a person's affair: the functions of a definition are not part of the model
        return None
    return _reply(before, stimulus, after, moved)


def _arrival(before: Instance, wait: str, after: Instance, acted: bool) -> Trouble | None:
    if _awaits(before, wait):
        return (
            Trouble("heard", f"The saga waits for {wait}, and takes no notice of its event.")
            if after == before
            else None
        )
    if acted or replace(after, arrived=before.arrived) != before:
        return _stale(f"Nobody waits for {wait}, and its event moves the saga.")
    going_back = before.awaited is not None and before.awaited[1] == "undo"
    may_be_reached = not going_back and before.record(wait) is None
    if may_be_reached and all(kept != wait for kept, _ in after.arrived):
        return Trouble("heard", f"The event of {wait} comes before it is waited for, and is lost.")
    return None


def _reply(before: Instance, reply: Replied, after: Instance, moved: bool) -> Trouble | None:
    what = f"the {reply.direction} of {reply.step}"
    awaited = before.awaited
    if awaited is None or (awaited[0].name, awaited[1]) != (reply.step, reply.direction):
        return _stale(f"Nobody waits for {what}, and a reply to it moves the saga.") if moved else None
    if reply.answer == "failed":
        return None
    if after == before:
        return Trouble(
            "heard", f"The saga waits for {what}, and takes no notice of the reply to attempt {reply.attempt}."
        )
    if (reply.answer, reply.direction) == ("done", "do") and after.status not in ("RUNNING", "COMPLETED"):
        return Trouble("heard", f"{reply.step} is done, and the saga does not go on.")
    if reply.answer == "refused" and after.awaited is not None:
        record, direction = after.awaited
        if (record.name, direction) == (reply.step, "do"):
            return Trouble("refused", f"{reply.step} was refused, and the saga still waits for it.")
    return None


def _resumed(before: Instance, after: Instance) -> Trouble | None:
    """What came during the pause acts now."""
    awaited = before.awaited
    if awaited is None or before.status != "PAUSED":
        return None
    now = after.awaited
    if now is None or (now[0].name, now[1]) != (awaited[0].name, awaited[1]):
        return None
    for held in before.held:
        if isinstance(held, Arrived):
            is_lost = held.wait == awaited[0].name
        else:
            is_lost = (held.step, held.direction) == (awaited[0].name, awaited[1]) and held.answer != "failed"
        if is_lost:
            return Trouble("heard", f"What {awaited[0].name} answered while the saga was paused is lost.")
    return None


def standing(instance: Instance, clock_moves: bool, verbs: AbstractSet[Verb]) -> Trouble | None:
    """`clock_moves`: whether the armed timer, when it fires, leads elsewhere. `verbs`: what a person can move it by."""
    if instance.status in ENDED:
        return None
    if instance.status == "PAUSED":
        return None if "resume" in verbs else Trouble("operable", "The saga is paused, and cannot be resumed.")
    if instance.status == "STUCK":
        missing = [verb for verb in ("retry", "skip") if verb not in verbs]
        if missing:
            return Trouble("operable", f"The saga is stuck, and an operator can not {' and not '.join(missing)}.")
        return None
    if clock_moves:
        return None
    if instance.timer is None:
        return Trouble("ends", "No timer is set: if no answer comes, the saga stands here for ever.")
    return Trouble("ends", "The timer fires and moves nothing: if no answer comes, the saga stands here for ever.")


def is_armed(instance: Instance, timer: Fired) -> bool:
    armed = instance.timer
    return armed is not None and (armed.step, armed.direction, armed.attempt, armed.kind) == (
        timer.step,
        timer.direction,
        timer.attempt,
        timer.kind,
    )


def _awaits(instance: Instance, wait: str) -> bool:
    awaited = instance.awaited
    return awaited is not None and awaited[0].name == wait


def _stale(sentence: str) -> Trouble:
    return Trouble("stale", sentence)
