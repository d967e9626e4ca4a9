"""What must hold of every story that the engine tells, each under its own name. Each raises AssertionError with it."""

import json

from surefoot.saga import Instance, decide
from surefoot.saga.decision import Decision
from surefoot.saga.definition import Step
from surefoot.saga.instance import ENDED, from_json, to_json
from surefoot.saga.stimulus import Operated
from tests.support.saga.random_world import Turned, World


def judge(world: World) -> None:
    """All that must hold of a story whose world was drained."""
    for turn in world.turns:
        same_again(world, turn)
        repeats_change_nothing(world, turn)
        timers_fit(turn)
        notes_are_a_chain(turn)
        ends_are_true(world, turn.decision.instance)
        comes_back_from_json(turn.decision.instance)
    undo_is_the_reverse_of_do(world)
    nothing_is_undone_past_the_pivot(world)
    if not world.operators:
        attempts_are_bounded(world)
    assert world.saga.status in ENDED | {"STUCK"}, f"ends: it is {world.saga.status} and nothing will happen"


def same_again(world: World, turn: Turned) -> None:
    if turn.stimulus is not None:
        again = decide(world.definition, turn.before, turn.stimulus, world.choose)
        assert again == turn.decision, f"deterministic: {turn.stimulus} was decided in two ways"


def repeats_change_nothing(world: World, turn: Turned) -> None:
    if turn.stimulus is None or isinstance(turn.stimulus, Operated):
        return
    after = turn.decision.instance
    repeated = decide(world.definition, after, turn.stimulus, world.choose)
    assert repeated == Decision(after, notes=repeated.notes), f"repeats: {turn.stimulus} acted twice"


def timers_fit(turn: Turned) -> None:
    after, arm = turn.decision.instance, turn.decision.arm
    waits = after.status in ("RUNNING", "COMPENSATING")
    assert (after.timer is not None) == waits, f"timers: {after.status} with {after.timer}"
    if arm is not None:
        assert arm == after.timer, "timers: another one is armed than the saga waits for"
    elif after.timer is not None:
        assert after.timer == turn.before.timer, "timers: a new one is not armed"
    if after.timer is not None:
        assert after.awaited is not None
        assert (after.awaited[0].name, after.awaited[1]) == (after.timer.step, after.timer.direction), "timers: whose?"


def notes_are_a_chain(turn: Turned) -> None:
    status = turn.before.status
    for note in turn.decision.notes:
        assert note.before == status, f"notes: {note.kind} begins at {note.before}, not at {status}"
        status = note.after
    assert status == turn.decision.instance.status, "notes: the last does not show the status"
    sent = [(note.step, note.direction, note.attempt) for note in turn.decision.notes if note.kind == "SENT"]
    assert sent == [(send.step, send.direction, send.attempt) for send in turn.decision.sends], "notes: sends"


def ends_are_true(world: World, saga: Instance) -> None:
    if saga.status == "COMPLETED":
        left = [record for record in saga.trail if record.state != "DONE"]
        assert not left, f"completed: {left} are not done"
    if saga.status in ("COMPENSATED", "FAILED"):
        nodes = world.definition.parts
        left = [
            record
            for record in saga.trail
            if record.state in ("AWAITED", "DONE", "UNKNOWN", "UNDOING")
            and isinstance(node := nodes[record.name], Step)
            and node.undo is not None
        ]
        assert not left, f"undone: {left} are left"
        undone = any(record.state == "UNDONE" for record in saga.trail)
        assert undone == (saga.status == "COMPENSATED"), f"undone: {saga.status}"
    if saga.status not in ENDED:
        assert saga.awaited is not None, "ends: it has not ended and waits for nothing"


def undo_is_the_reverse_of_do(world: World) -> None:
    sends = [send for turn in world.turns for send in turn.decision.sends if send.attempt == 1]
    done = [send.step for send in sends if send.direction == "do"]
    undone = [send.step for send in sends if send.direction == "undo"]
    assert len(set(done)) == len(done), "order: a step was entered twice"
    assert undone == [step for step in reversed(done) if step in undone], f"order: {undone} undoes {done}"
    directions = [send.direction for turn in world.turns for send in turn.decision.sends]
    assert directions == sorted(directions), "order: a step was done after another was undone"


def nothing_is_undone_past_the_pivot(world: World) -> None:
    for turn in world.turns:
        final = [
            record
            for record in turn.decision.instance.trail
            if isinstance(node := world.definition.parts[record.name], Step)
            and node.is_final
            and record.state != "REFUSED"
        ]
        undone = [send for send in turn.decision.sends if send.direction == "undo"]
        assert not (final and undone), f"pivot: {undone} behind {final}"


def attempts_are_bounded(world: World) -> None:
    for send in (send for turn in world.turns for send in turn.decision.sends):
        step = world.definition.step(send.step)
        limit = (step.retry if send.direction == "do" else step.undo_retry).attempts
        assert send.attempt <= limit, f"attempts: {send} of {limit}"
    for record in world.saga.trail:
        assert record.attempt <= record.limit, f"attempts: {record}"
        assert record.undo_attempt <= record.undo_limit, f"attempts: {record}"


def comes_back_from_json(saga: Instance) -> None:
    assert from_json(json.loads(json.dumps(to_json(saga)))) == saga, "json: it comes back as another"
