"""Long-running parts: each runs until it is stopped, waits for what it needs while that is away, and rests in between.

A part that does the same again and again is a `LoopService`; what it waits for is an `Outage`. Parts that run beside
each other are `Together`.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from datetime import timedelta
from typing import Protocol

import structlog

from surefoot.errors import words_of
from surefoot.retry import backoff

log = structlog.get_logger("surefoot.outage")
NO_REST = timedelta(0)


class Service(Protocol):
    """What runs until it is stopped."""

    async def run(self) -> None:
        """Until stopped. Raises only what waiting cannot mend."""

    def stop(self) -> None:
        """Finish what is under way, then end `run`. It may be called before `run`, and again."""


class Counts(Protocol):
    def inc(self) -> None: ...


class Outage:
    """Something we depend on is away: say it once, wait longer each time, say when it is back. Nothing of this is
    counted against a row or an event."""

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


class LoopService(ABC):
    """A service that works in rounds. What a round needs may be away: then the service waits, and tries again."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stopping = asyncio.Event()

    def stop(self) -> None:
        self.stopping.set()

    async def run(self) -> None:
        """Until stopped. Raises only what waiting cannot mend."""
        try:
            while not self.stopping.is_set():
                try:
                    pause = await self.round()
                except Exception as error:
                    outage = await self.outage_of(error)
                    await outage.wait(error, self.stopping)
                else:
                    await rest(self.stopping, pause)
        finally:
            await self.close()

    @abstractmethod
    async def round(self) -> timedelta:
        """Work once; how long to rest then. An outage is over when the work works: tell it so here."""

    @abstractmethod
    async def outage_of(self, error: Exception) -> Outage:
        """The outage that made the round fail. If waiting cannot mend it, raise, and the service ends with that."""

    async def close(self) -> None:
        """Let go of what is open, when the service ends."""
        return


class Together:
    """Services that run beside each other, as one. If one of them ends or fails, all are stopped."""

    def __init__(self, *services: Service) -> None:
        self._services = services

    def stop(self) -> None:
        for service in self._services:
            service.stop()

    async def run(self) -> None:
        """Until all of them have ended. If some failed, raises what the first of them, in their order, failed with."""
        tasks = [asyncio.create_task(service.run()) for service in self._services]
        for task in tasks:
            task.add_done_callback(lambda _: self.stop())
        try:
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            self.stop()
            await asyncio.wait(tasks)
        for one in ended:
            if isinstance(one, BaseException):
                raise one


async def rest(stopping: asyncio.Event, pause: timedelta) -> None:
    """Wait for so long, or until we are to stop."""
    if pause <= NO_REST:
        return
    try:
        await asyncio.wait_for(stopping.wait(), pause.total_seconds())
    except TimeoutError:
        return
