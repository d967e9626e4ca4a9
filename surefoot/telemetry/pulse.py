"""The pulse of an event loop: the loop beats as long as it turns, and a thread beside it reads for how long it has not.

A process that was frozen as a whole (SIGSTOP, a paused virtual machine) has had no chance to beat. The threads that
look were frozen with it, so the time between two looks shows it, and it is not counted against the loop.
"""

import asyncio
import threading
import time

BEAT_S = 0.5
FROZEN_S = 2.0
"""Who looks each beat and has not looked for so long, was frozen."""


class Pulse:
    def __init__(self, *, beat_s: float = BEAT_S, frozen_s: float = FROZEN_S) -> None:
        self.last_beat = 0.0
        self._beat_s = beat_s
        self._frozen_s = frozen_s
        self._looked = 0.0
        self._woke = 0.0
        """When the process was last seen to go on after it had been frozen."""
        self._looking = threading.Lock()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """From now on the running loop beats. Somebody has to look each beat."""
        self._loop = asyncio.get_running_loop()
        self._looked = time.monotonic()
        self._beat()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def still_s(self) -> float:
        """Look: for how long the loop has not turned, although it could have. Any thread may ask."""
        with self._looking:
            now = time.monotonic()
            if now - self._looked > self._frozen_s:
                self._woke = now
            self._looked = now
            return now - max(self.last_beat, self._woke)

    def _beat(self) -> None:
        self.last_beat = time.monotonic()
        self._timer = self._loop.call_later(self._beat_s, self._beat)
