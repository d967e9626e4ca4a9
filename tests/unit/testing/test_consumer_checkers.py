"""A checker that cannot fail is a defect: each is shown the violation it is there for."""

from surefoot.testing.checkers import Finding, Seen
from tests.support.checkers.consumer import (
    Effect,
    check_effects,
    effects_out_of_order,
    invented_effects,
    lost_effects,
    repeated_effects,
    unaccounted,
)

SEEN = [
    Seen("a", "k", 0, 0),
    Seen("b", "k", 0, 1),
    Seen("a", "k", 0, 2),
    Seen("c", "k", 0, 3),
    Seen("d", "l", 1, 0),
    Seen("b", "k", 0, 4),
]
GOOD = [Effect("d", "l", 1), Effect("a", "k", 2), Effect("b", "k", 3), Effect("c", "k", 7)]


def test_one_effect_each_in_the_order_of_first_deliveries_is_fine() -> None:
    assert check_effects(SEEN, GOOD) == []


def test_a_delivered_event_without_an_effect_is_lost() -> None:
    sentence = "c of key k was delivered, had no effect, and is neither parked nor dead"
    assert lost_effects(SEEN, GOOD[:3]) == [Finding("lost", sentence)]


def test_one_that_is_kept_is_not_lost() -> None:
    assert lost_effects(SEEN, GOOD[:3], kept={"c"}) == []


def test_two_effects_of_one_event_are_a_repeat_and_the_members_are_named() -> None:
    twice = [*GOOD[:1], Effect("a", "k", 2, "one"), Effect("a", "k", 9, "two")]
    assert repeated_effects(twice) == [Finding("repeated", "a of key k had its effect 2 times (by one, two)")]


def test_an_effect_of_an_event_that_was_never_delivered_is_invented() -> None:
    assert invented_effects(SEEN, [*GOOD, Effect("x", "k", 9)]) == [
        Finding("invented", "x of key k had an effect and was never delivered")
    ]


def test_effects_of_a_key_the_wrong_way_round_are_out_of_order() -> None:
    swapped = [Effect("b", "k", 1), Effect("a", "k", 2), Effect("c", "k", 3), Effect("d", "l", 4)]
    assert effects_out_of_order(SEEN, swapped) == [
        Finding("out_of_order", "key k: effect number 1 is that of b, should be that of a")
    ]


def test_effects_are_put_in_order_by_when_they_happened_not_by_how_they_are_listed() -> None:
    assert effects_out_of_order(SEEN, list(reversed(GOOD))) == []


def test_passing_an_event_that_holds_its_key_is_out_of_order() -> None:
    passed = [Effect("a", "k", 1), Effect("c", "k", 2)]
    assert effects_out_of_order(SEEN, passed, holding={"b"}) == [
        Finding("out_of_order", "key k: effect number 2 is that of c, should be that of b")
    ]


def test_events_that_wait_behind_the_last_effect_are_in_order() -> None:
    assert effects_out_of_order(SEEN, [Effect("a", "k", 1)], holding={"b", "c"}) == []


def test_passing_a_dead_event_whose_key_was_released_is_fine() -> None:
    passed = [Effect("a", "k", 1), Effect("c", "k", 2), Effect("d", "l", 3)]
    assert check_effects(SEEN, passed, released={"b"}) == []


def test_a_lost_event_is_not_also_called_out_of_order() -> None:
    assert effects_out_of_order(SEEN, [Effect("a", "k", 1), Effect("c", "k", 2)]) == []


def test_an_event_that_is_not_in_the_inbox_is_unaccounted() -> None:
    assert unaccounted(SEEN, {"a", "b", "d"}) == [Finding("unaccounted", "c was delivered and is not in the inbox")]


def test_all_checkers_have_their_say() -> None:
    bad = [Effect("b", "k", 1), Effect("a", "k", 2), Effect("a", "k", 3), Effect("d", "l", 4), Effect("x", "l", 5)]
    assert {finding.violation for finding in check_effects(SEEN, bad)} == {
        "lost",
        "repeated",
        "invented",
        "out_of_order",
    }
