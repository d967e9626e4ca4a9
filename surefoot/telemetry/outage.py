"""Something we depend on is away: say it once, wait longer each time, say when it is back.

Nothing of this is counted against a row or an event.
"""

import asyncio
import time
from datetime import timedelta
from typing import Protocol

import structlog

from surefoot.errors import words_of
from surefoot.retry import backoff

log = structlog.get_logger("surefoot.outage")


class Counts(Protocol):
    def inc(self) -> None: ...


class Outage:
    def __init__(self, what: str, counter: Counts, *, shortest: timedelta, longest: timedelta) -> None:
        self._what = what
        self._counter = counter
        self._shortest = shortest
        self._longest = longest
        self._failures = 0
        self._since = 0.0

    @property
    def is_on(self) -> bool:
        return self._failures > 0

    @property
    def lasted_s(self) -> float:
        """How long it has been away; 0 if it is not."""
        return time.monotonic() - self._since if self._failures else 0.0

    def failed(self, error: BaseException) -> timedelta:
        """Take note of a failure; how long to leave it alone."""
        if self._failures == 0:
            self._since = time.monotonic()
            self._counter.inc()
            sentence = f"{self._what} is away; waiting, nothing is lost or counted as an attempt"
            log.warning(sentence, error=words_of(error))
        self._failures += 1
        return backoff(self._failures - 1, shortest=self._shortest, longest=self._longest)

    async def wait(self, error: BaseException, stopping: asyncio.Event) -> None:
        """Rest after a failure, or until we are to stop."""
        pause = self.failed(error)
        try:
            await asyncio.wait_for(stopping.wait(), pause.total_seconds())
        except TimeoutError:
            return

    def over(self) -> None:
        """It works again: not merely that it could be reached."""
        if self._failures:
            log.info(f"{self._what} is back", away_s=round(time.monotonic() - self._since, 1))
            self._failures = 0
