"""Sagas keep their promises over generated definitions and a random environment, and each check finds its mistake."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from surefoot.saga.instance import StepRecord
from surefoot.saga.turn import Sheet, Turn
from tests.support.saga.generated_definitions import Writer
from tests.support.saga.invariants import judge
from tests.support.saga.random_world import World

pytestmark = pytest.mark.slow


def story(chance: Random, *, operators: bool) -> World:
    world = World(Writer(chance).write(), chance, operators=operators)
    world.happen(chance.randint(0, 40))
    world.drain()
    return world


@given(some.randoms(use_true_random=False))
@settings(max_examples=300)
def test_every_saga_that_is_left_alone_keeps_its_promises(chance: Random) -> None:
    judge(story(chance, operators=False))


@given(some.randoms(use_true_random=False))
@settings(max_examples=300)
def test_every_saga_that_people_act_on_keeps_its_promises(chance: Random) -> None:
    judge(story(chance, operators=True))


def test_the_stories_are_worth_telling() -> None:
    """They reach every end, every state of a step and every kind of note; else the tests above would prove little."""
    ends: Counter[str] = Counter()
    states: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    for seed in range(400):
        world = story(Random(seed), operators=seed % 2 == 0)
        judge(world)
        ends[world.saga.status] += 1
        states.update(record.state for turn in world.turns for record in turn.decision.instance.trail)
        notes.update(note.kind for turn in world.turns for note in turn.decision.notes)
    assert set(ends) == {"COMPLETED", "COMPENSATED", "FAILED", "STUCK"}
    assert min(ends.values()) >= 20, ends
    assert set(states) == {"AWAITED", "DONE", "REFUSED", "UNKNOWN", "LEFT", "UNDOING", "UNDONE"}
    assert len(notes) == 21, notes


def undo_forwards(turn: Turn) -> None:
    turn._trail.reverse()
    try:
        UNDO_NEXT(turn)
    finally:
        turn._trail.reverse()


def undo_past_the_pivot(turn: Turn, record: StepRecord, why: str) -> None:
    turn._change(record, state="UNKNOWN")
    turn.compensate(why)


def try_for_ever(turn: Turn, record: StepRecord) -> None:
    turn.note("TIMED_OUT", record.name, "do", record.attempt)
    turn._rest(record.name, "do", record.attempt, turn.definition.step(record.name).retry)


def forget_the_last_undo(turn: Turn) -> None:
    if sum(record.state in ("DONE", "UNKNOWN") for record in turn._trail) == 1:
        turn._end("COMPENSATED", "COMPENSATED")
    else:
        UNDO_NEXT(turn)


def hold_twice(turn: Turn, what: Any) -> None:
    turn._held.append(what)
    turn.note("HELD")


def send_without_a_timer(turn: Turn, step: str, direction: Any, attempt: int) -> None:
    SEND(turn, step, direction, attempt)
    turn.timer = None


def skip_what_is_unknown(turn: Turn, record: StepRecord, why: str) -> None:
    """Goes on as if it were not there, so a completed saga has a step that is not done."""
    turn._change(record, state="UNKNOWN")
    turn.advance()


def wait_for_ever(turn: Turn, record: StepRecord) -> None:
    turn.note("LATE", record.name)
    turn.wait_again(record)


UNDO_NEXT, SEND = Turn._undo_next, Sheet._send
PLANTED = [
    ("_undo_next", undo_forwards, "order"),
    ("outcome_unknown", undo_past_the_pivot, "pivot"),
    ("timed_out", try_for_ever, "attempts|ends"),
    ("_undo_next", forget_the_last_undo, "undone"),
    ("hold", hold_twice, "repeats"),
    ("_send", send_without_a_timer, "timers"),
    ("outcome_unknown", skip_what_is_unknown, "completed"),
    ("late", wait_for_ever, "ends"),
]


@pytest.mark.parametrize(("move", "mistake", "named"), PLANTED, ids=[mistake.__name__ for _, mistake, _ in PLANTED])
def test_a_planted_mistake_is_found(move: str, mistake: Any, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turn, move, mistake)
    found = []
    for seed in range(200):
        try:
            judge(story(Random(seed), operators=seed % 2 == 0))
        except AssertionError as error:
            found.append(str(error).partition(":")[0])
    assert set(found) & set(named.split("|")), Counter(found)


def test_a_reply_that_acts_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed undo during its rest would start the rest anew with each repeat."""
    monkeypatch.setattr(Sheet, "rests", False)
    found = 0
    for seed in range(400):
        try:
            judge(story(Random(seed), operators=False))
        except AssertionError as error:
            found += str(error).startswith("repeats")
    assert found
