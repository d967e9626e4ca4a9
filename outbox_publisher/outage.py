"""Something we depend on is away: say it once, wait longer each time, say when it is back.

Nothing of this is counted against a row.
"""

import asyncio
import time
from datetime import timedelta

import structlog
from prometheus_client import Counter

from outbox_publisher.policy import backoff
from outbox_publisher.settings import RelaySettings

log = structlog.get_logger("surefoot.relay")


class Outage:
    def __init__(self, what: str, settings: RelaySettings, counter: Counter) -> None:
        self._what = what
        self._settings = settings
        self._counter = counter
        self._failures = 0
        self._since = 0.0

    def failed(self, error: BaseException) -> timedelta:
        """Take note of a failure; how long to leave it alone."""
        if self._failures == 0:
            self._since = time.monotonic()
            self._counter.inc()
            log.warning(f"{self._what} is away; waiting, nothing is lost or counted as an attempt", error=str(error))
        self._failures += 1
        return backoff(self._failures - 1, shortest=self._settings.retry_min / 5, longest=self._settings.retry_max / 10)

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
