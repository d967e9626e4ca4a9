"""Lanes rest a few milliseconds while any of them finds something; all asleep, they wait for the bell."""

from datetime import timedelta

from surefoot.relay.runtime import AWAKE, Pacer

MS = timedelta(milliseconds=1)
LONGEST = 250 * MS


def pacer(said: list[bool], lanes: int = 2) -> Pacer:
    return Pacer(lanes=lanes, shortest=MS, longest=LONGEST, say_asleep=said.append)


def test_a_lane_that_finds_nothing_rests_a_few_milliseconds_while_another_finds_something() -> None:
    """Nobody rings for it: the relay does not sleep."""
    said: list[bool] = []
    lanes = pacer(said)
    for _ in range(200):
        assert lanes.pause(0, found=1) == MS
        assert lanes.pause(1, found=0) <= AWAKE
    assert said == []


def test_when_all_have_found_nothing_for_the_longest_pause_the_relay_sleeps() -> None:
    said: list[bool] = []
    lanes = pacer(said)
    rested = timedelta(0)
    while not said:
        pause = lanes.pause(0, found=0)
        rested += min(pause, AWAKE)
        lanes.pause(1, found=0)
    assert said == [True]
    assert LONGEST <= rested <= LONGEST + 2 * AWAKE
    assert lanes.pause(0, found=0) == LONGEST


def test_whoever_finds_something_wakes_the_relay() -> None:
    said: list[bool] = []
    lanes = pacer(said)
    while not said:
        lanes.pause(0, found=0)
        lanes.pause(1, found=0)
    assert lanes.pause(1, found=3) == MS
    assert lanes.pause(0, found=0) <= AWAKE
    assert said == [True, False]


def test_pauses_that_are_set_longer_are_kept() -> None:
    lanes = Pacer(lanes=1, shortest=timedelta(seconds=30), longest=timedelta(seconds=60), say_asleep=lambda _: None)
    assert lanes.pause(0, found=1) == timedelta(seconds=30)
