"""When lanes rest, how long, and when the relay says that it sleeps.

While events come, lanes poll by themselves, a few milliseconds apart, and writers send no notifications. That holds for
every lane as long as one of them finds something: nobody rings for the others. When all have found nothing for a while
the relay says that it sleeps, and a lane waits for the bell or for the longest pause, whichever is first.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from surefoot.relay.policy import next_pause

AWAKE = timedelta(milliseconds=4)
"""Longest pause of a lane that nobody rings for."""


class Pacer:
    def __init__(
        self, *, lanes: int, shortest: timedelta, longest: timedelta, say_asleep: Callable[[bool], None]
    ) -> None:
        self._shortest = shortest
        self._awake_most = max(shortest, min(AWAKE, longest))
        self._longest = longest
        self._say_asleep = say_asleep
        self._pauses = [shortest] * lanes
        self._rested = [timedelta(0)] * lanes
        """Since a lane last found something."""
        self._bells = [asyncio.Event() for _ in range(lanes)]
        self._asleep = False

    def wake(self) -> None:
        """Something was written, or we are to stop: every lane looks at once."""
        for bell in self._bells:
            bell.set()

    async def rest(self, lane: int, found: int) -> None:
        """Rest after a round that was not full."""
        pause = self.pause(lane, found)
        bell = self._bells[lane]
        try:
            await asyncio.wait_for(bell.wait(), pause.total_seconds())
        except TimeoutError:
            return
        bell.clear()

    def pause(self, lane: int, found: int) -> timedelta:
        """How long this lane rests now; and whether the relay sleeps with it."""
        pause = next_pause(self._pauses[lane], found=found, shortest=self._shortest, longest=self._awake_most)
        self._pauses[lane] = pause
        self._rested[lane] = timedelta(0) if found else self._rested[lane] + pause
        asleep = all(rested >= self._longest for rested in self._rested)
        if asleep != self._asleep:
            self._asleep = asleep
            self._say_asleep(asleep)
        return self._longest if asleep else pause
