"""The pulse of an event loop, on a clock that the test turns."""

import asyncio
import time

import pytest

from surefoot.telemetry.pulse import BEAT_S, FROZEN_S, Pulse
from tests.support.waiting import eventually


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("surefoot.telemetry.pulse.time", type("Time", (), {"monotonic": staticmethod(clock)}))
    return clock


async def test_a_loop_that_does_not_turn_while_others_look_has_stood_still(clock: Clock) -> None:
    pulse = Pulse()
    pulse.start()
    still = []
    for _ in range(100):
        clock.now += BEAT_S
        still.append(pulse.still_s())
    pulse.stop()
    assert still[-1] == pytest.approx(100 * BEAT_S)
    assert still == sorted(still)


async def test_the_time_in_which_nobody_could_look_does_not_count(clock: Clock) -> None:
    pulse = Pulse()
    pulse.start()
    clock.now += 3600
    assert pulse.still_s() == 0
    clock.now += FROZEN_S
    assert pulse.still_s() == FROZEN_S  # from then on the loop could have turned
    pulse.stop()


async def test_a_loop_that_turns_beats() -> None:
    pulse = Pulse(beat_s=0.01)
    pulse.start()
    began = time.monotonic()

    async def has_beaten() -> bool:
        return pulse.last_beat > began

    await eventually(has_beaten, what="the loop beats")
    pulse.stop()
    last = pulse.last_beat
    await asyncio.sleep(0.05)
    assert pulse.last_beat == last
