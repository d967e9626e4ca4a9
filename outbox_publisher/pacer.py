"""When lanes rest, how long, and when the relay says that it sleeps.

While events come, lanes poll by themselves and writers send no notifications. When every lane has found nothing for a
while the relay says that it sleeps, and a lane waits for the bell or for the longest pause, whichever is first.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from outbox_publisher.policy import next_pause


class Pacer:
    def __init__(
        self, *, lanes: int, shortest: timedelta, longest: timedelta, say_asleep: Callable[[bool], None]
    ) -> None:
        self._shortest = shortest
        self._longest = longest
        self._say_asleep = say_asleep
        self._pauses = [shortest] * lanes
        self._awake = [asyncio.Event() for _ in range(lanes)]
        self._asleep = False

    def wake(self) -> None:
        """Something was written, or we are to stop: every lane looks at once."""
        for event in self._awake:
            event.set()

    async def rest(self, lane: int, found: int) -> None:
        """Rest after a round that was not full."""
        self._pauses[lane] = next_pause(self._pauses[lane], found=found, shortest=self._shortest, longest=self._longest)
        asleep = all(pause >= self._longest for pause in self._pauses)
        if asleep != self._asleep:
            self._asleep = asleep
            self._say_asleep(asleep)
        event = self._awake[lane]
        try:
            await asyncio.wait_for(event.wait(), self._pauses[lane].total_seconds())
        except TimeoutError:
            return
        event.clear()
