"""A checker that cannot fail is a defect: each is shown the violation it is there for."""

import pytest

from tests.support.checkers.consumer import Effect
from tests.support.checkers.dlq import (
    Finding,
    ItemRow,
    JobRow,
    Letter,
    check_dead_letters,
    counts_do_not_add_up,
    effect_twice,
    lost,
    open_though_done,
    out_of_order,
    replay_after_discard,
)
from tests.support.corpus import each_of

DIED = ["a", "b", "c", "d"]
LETTERS = [
    Letter("a", "k", 0, 1, "REPLAYED"),
    Letter("b", "k", 0, 2, "REPLAYED"),
    Letter("c", "l", 1, 1, "DISCARDED"),
    Letter("d", "l", 1, 2, "OPEN"),
]
EFFECTS = [Effect("a", "k", 1), Effect("x", "l", 2), Effect("b", "k", 3)]
REPLAY = JobRow("replay", "CANCELLED", 3, 2, 0, 1)
DISCARD = JobRow("discard", "DONE", 1, 1, 0, 0)
ITEMS = [
    ItemRow("replay", 1, "a", "ANSWERED", "done"),
    ItemRow("replay", 2, "b", "ANSWERED", "done"),
    ItemRow("replay", 3, "d", "CANCELLED", None),
    ItemRow("discard", 1, "c", "ANSWERED", "discarded"),
]


def test_what_went_as_it_should_is_fine() -> None:
    assert check_dead_letters(DIED, LETTERS, EFFECTS, [REPLAY, DISCARD], ITEMS) == []


def test_a_replay_that_had_its_effect_twice_is_found() -> None:
    assert effect_twice([*EFFECTS, Effect("a", "k", 9)]) == [Finding("effect_twice", "a had its effect 2 times")]


def test_an_event_that_died_without_a_letter_is_lost() -> None:
    assert lost([*DIED, "e"], LETTERS, EFFECTS) == [Finding("lost", "e died and has no letter")]


def test_a_letter_that_is_called_replayed_without_an_effect_is_lost() -> None:
    assert lost(DIED, LETTERS, EFFECTS[:2]) == [Finding("lost", "b is called replayed and had no effect")]


@pytest.mark.parametrize("status", ["REPLAYING", "DISCARD_REQUESTED"])
def test_a_letter_in_the_hand_of_nobody_is_lost(status: str) -> None:
    stuck = [*LETTERS[:3], LETTERS[3]._replace(status=status)]
    assert lost(DIED, stuck, EFFECTS) == [Finding("lost", f"d is {status}, and nothing is under way")]


def test_effects_of_a_key_the_wrong_way_round_are_out_of_order() -> None:
    swapped = [Effect("a", "k", 3), Effect("b", "k", 1)]
    assert out_of_order(LETTERS, swapped) == [
        Finding("out_of_order", "key k: the effect of a came behind that of b, and it is the older")
    ]


def test_effects_of_different_keys_have_no_order() -> None:
    letters = [Letter("a", "k", 0, 5, "REPLAYED"), Letter("b", "l", 0, 1, "REPLAYED")]
    assert out_of_order(letters, [Effect("a", "k", 1), Effect("b", "l", 2)]) == []


def test_an_effect_of_what_was_discarded_is_found() -> None:
    assert replay_after_discard(LETTERS, [*EFFECTS, Effect("c", "l", 9)]) == [
        Finding("replay_after_discard", "c was discarded, and had its effect")
    ]


def test_an_open_letter_whose_effect_has_been_had_is_found() -> None:
    assert open_though_done(LETTERS, [*EFFECTS, Effect("d", "l", 9)]) == [
        Finding("open_though_done", "d had its effect, and is open")
    ]


@each_of(
    ("job", "items", "said"),
    [
        (REPLAY._replace(status="RUNNING"), ITEMS, "it is RUNNING, and nothing is under way"),
        (REPLAY._replace(total=4, ok=3), ITEMS, "it is over 4 letters, and has 3 items"),
        (REPLAY, [ITEMS[0], ITEMS[0], *ITEMS[2:]], "it is over 3 letters, and has 3 items"),
        (REPLAY, [ITEMS[0], ITEMS[1]._replace(state="SENT", answer=None), *ITEMS[2:]], "1 of its items have no end"),
        (REPLAY._replace(ok=1), ITEMS, "1 well, 0 not and 1 cancelled are not 3"),
        (REPLAY._replace(ok=3, cancelled=0), ITEMS, "2 were answered and 1 cancelled, and it says otherwise"),
        (
            REPLAY,
            [ITEMS[0]._replace(answer=None), *ITEMS[1:]],
            "an item has an answer and is not answered, or the other way round",
        ),
    ],
)
def test_a_job_whose_counts_do_not_add_up_is_found(job: JobRow, items: list[ItemRow], said: str) -> None:
    found = counts_do_not_add_up([job], items)
    assert Finding("counts_do_not_add_up", f"job replay: {said}") in found


def test_everything_is_looked_at_together() -> None:
    wrong = [Effect("b", "k", 1), Effect("a", "k", 2), Effect("a", "k", 3), Effect("c", "l", 4), Effect("d", "l", 5)]
    found = check_dead_letters([*DIED, "e"], LETTERS, wrong, [REPLAY._replace(status="RUNNING")], ITEMS)
    assert {finding.violation for finding in found} == {
        "effect_twice",
        "lost",
        "out_of_order",
        "replay_after_discard",
        "open_though_done",
        "counts_do_not_add_up",
    }
