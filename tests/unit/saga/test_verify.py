"""The verifier proves sagas that are right, and prints a counter-example for one that is not."""

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from orchestrator.sagas import sagas
from surefoot.saga import Definition, Saga
from surefoot.saga.verify import MEANING, Limits, Line, Property, Proved, TooLarge, Violated, verify
from tests.support.saga import planted_mistakes as planted
from tests.support.saga import planted_sagas

pytestmark = pytest.mark.slow

Maker = Callable[[], Definition]
QUICK = Limits(actions=0)


@pytest.mark.parametrize(
    "make",
    [
        planted_sagas.order,
        planted_sagas.returned,
        planted_sagas.without_pivot,
        planted_sagas.one_step,
        planted_sagas.nested_branches,
    ],
)
def test_the_engine_is_proved_without_operators(make: Maker) -> None:
    assert isinstance(verify(make(), limits=QUICK), Proved)


@pytest.mark.parametrize(
    ("make", "limits"),
    [
        (planted_sagas.one_step, Limits(actions=2, attempts=1, undo_attempts=1)),
        (planted_sagas.two_steps, Limits(actions=2, attempts=1, undo_attempts=1)),
        (planted_sagas.nested_branches, Limits(attempts=1, undo_attempts=1)),
        (planted_sagas.without_pivot, Limits(attempts=1, undo_attempts=1)),
    ],
)
def test_the_engine_is_proved_with_operators(make: Maker, limits: Limits) -> None:
    assert isinstance(verify(make(), limits=limits), Proved)


@pytest.mark.proof
@pytest.mark.parametrize("make", [planted_sagas.order, planted_sagas.returned, planted_sagas.without_pivot])
def test_larger_sagas_are_proved_with_operators(make: Maker) -> None:
    assert isinstance(verify(make()), Proved)


@pytest.mark.parametrize("saga", sagas, ids=lambda saga: saga.name)
def test_the_platforms_own_sagas_are_proved_without_operators(saga: Saga) -> None:
    assert isinstance(verify(saga.definition, limits=QUICK), Proved)


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("saga", sagas, ids=lambda saga: saga.name)
def test_the_platforms_own_sagas_are_proved(saga: Saga) -> None:
    assert isinstance(verify(saga.definition), Proved)


def test_every_state_is_reached_once_and_the_ends_are_counted() -> None:
    proved = verify(planted_sagas.one_step(), limits=Limits(attempts=1, undo_attempts=1, actions=0))
    assert isinstance(proved, Proved)
    # Its service has done nothing, died with the effect, done it, or refused: 4 while RUNNING. With the undo under way
    # there is also done, with an undo that died behind the effect; or it was undone, which nothing, a do or a refusal
    # came before: 8 while COMPENSATING, and 8 STUCK.
    assert proved.ends == {"COMPLETED": 1, "COMPENSATED": 3, "FAILED": 1, "STUCK": 8}
    assert proved.states == 4 + 8 + 8 + 3 + 1 + 1


def test_the_seconds_are_those_of_the_clock() -> None:
    times = iter([100.0, 107.5])
    proved = verify(planted_sagas.one_step(), limits=QUICK, clock=lambda: next(times))
    assert proved.seconds == 7.5


def test_the_counter_example_reads_top_to_bottom() -> None:
    violated = verify(planted_sagas.two_steps(), decide=planted.with_turn(planted.UndoesInOrderOfDoing))
    assert isinstance(violated, Violated)
    assert violated.path == (
        Line("the saga begins", "RUNNING, waits for reserve"),
        Line("orchestrator → reserve: do (attempt 1)"),
        Line("reserve does it"),
        Line("reserve → orchestrator: done (attempt 1)", "RUNNING, waits for capture"),
        Line("orchestrator → capture: do (attempt 1)"),
        Line(
            "capture → orchestrator: failed, outcome unknown (attempt 1)", "COMPENSATING, waits for the undo of reserve"
        ),
        Line("orchestrator → reserve: undo (attempt 1)"),
    )
    assert violated.property == "reverse"
    assert violated.sentence == (
        "The undo of reserve is sent, and capture, which was commanded after it, is not undone yet."
    )


def test_a_way_round_is_shown_once() -> None:
    violated = verify(planted_sagas.one_step(), decide=planted.with_turn(planted.RestsForEver))
    assert isinstance(violated, Violated)
    assert violated.path[-3:] == (
        Line("orchestrator → reserve: undo (attempt 1)"),
        Line(
            "reserve → orchestrator: undo failed, outcome unknown (attempt 1)",
            "COMPENSATING, rests before it asks again for the undo of reserve",
        ),
        Line("timer: the undo of reserve, attempt 1 (the rest is over)", "COMPENSATING, waits for the undo of reserve"),
    )
    assert violated.sentence.startswith("The saga is back where it stood")


def test_a_person_appears_only_where_the_mistake_needs_one() -> None:
    without = verify(planted_sagas.order(), decide=planted.with_turn(planted.UndoesBehindThePivot))
    needed = verify(planted_sagas.order(), decide=planted.with_turn(planted.LetsPeopleUndoThePivot))
    assert isinstance(without, Violated)
    assert isinstance(needed, Violated)
    assert not any("operator" in line.what for line in without.path)
    assert [line.what for line in needed.path if "operator" in line.what] == ["operator → orchestrator: compensate"]


def test_too_many_states_are_an_error_and_no_proof() -> None:
    with pytest.raises(TooLarge, match="order has more than 100 states, and was not proved"):
        verify(planted_sagas.order(), limits=Limits(states=100))


def test_whoever_watches_is_told_how_far_it_is() -> None:
    seen: list[tuple[int, int]] = []
    verify(planted_sagas.order(), limits=QUICK, watch=lambda looked_at, known: seen.append((looked_at, known)))
    assert seen[0] == (0, 1)


def test_every_property_is_explained_on_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "verifying-sagas.md").read_text(encoding="utf-8")
    rows = [
        line.split("`")[1] for line in page.partition("## What is proved")[2].splitlines() if line.startswith("| `")
    ]
    names = list(get_args(Property))
    assert rows[: len(names)] == names
    assert list(MEANING) == names
