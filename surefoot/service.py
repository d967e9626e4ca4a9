"""Long-running parts: each runs until it is stopped, waits for what it needs while that is away, and rests in between.

A part that does the same again and again is a `LoopService`, on a connection of its own a `DatabaseService`; what it
waits for is an `Outage`. Parts that run beside each other are `Together`; parts that need not finish are `CutOff`.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import Protocol

import structlog

from surefoot.database.connection import Connection, close_quietly, explain, is_database_error, is_outage
from surefoot.errors import words_of
from surefoot.retry import backoff
from surefoot.telemetry.health import Finding, TellsReadiness

log = structlog.get_logger("surefoot.outage")
NO_REST = timedelta(0)
CLOSE_WITHIN_S = 3.0
"""Longer than a connection takes to close."""


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
        self._has_worked = False

    @property
    def is_on(self) -> bool:
        return self._failures > 0

    @property
    def lasted_s(self) -> float:
        """How long it has been away; 0 if it is not."""
        return time.monotonic() - self._since if self._failures else 0.0

    def finding(self, check: str) -> Finding:
        """What this says of the readiness of a process. It may be asked from another thread."""
        if self._failures:
            return Finding(check, False, f"{self._what} has been away for {self.lasted_s:.0f} s")
        if self._has_worked:
            return Finding(check, True, f"{self._what} answers")
        return Finding(check, None, f"{self._what} has not answered yet")

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
        await rest(stopping, self.failed(error))

    def over(self) -> None:
        """It works again: not merely that it could be reached."""
        self._has_worked = True
        if self._failures:
            log.info(f"{self._what} is back", away_s=round(time.monotonic() - self._since, 1))
            self._failures = 0


class LoopService(ABC):
    """A service that works in rounds. What a round needs may be away: then the service waits, and tries again."""

    def __init__(self, name: str, *, rest_first: timedelta = NO_REST) -> None:
        """`rest_first`: how long the service rests before its first round."""
        self.name = name
        self.stopping = asyncio.Event()
        self._rest_first = rest_first

    def stop(self) -> None:
        self.stopping.set()

    async def run(self) -> None:
        """Until stopped. Raises only what waiting cannot mend."""
        try:
            await rest(self.stopping, self._rest_first)
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

    async def outage_of(self, error: Exception) -> Outage:
        """The outage that made the round fail. If waiting cannot mend it, raise, and the service ends with that."""
        raise error

    async def close(self) -> None:
        """Let go of what is open, when the service ends."""
        return


class DatabaseService(LoopService):
    """A loop on a connection of its own, which is opened when a round needs it, and dropped when a round fails."""

    def __init__(self, name: str, url: str, connect: Callable[[], Awaitable[Connection]], away: Outage) -> None:
        super().__init__(name)
        self.database_away = away
        self._url = url
        self._connect = connect
        self._connection: Connection | None = None

    async def connected(self) -> Connection:
        """The connection; after an outage a new one."""
        if self._connection is None:
            self._connection = await self._connect()
            await self.begin(self._connection)
        return self._connection

    async def begin(self, connection: Connection) -> None:
        """What each new connection is used for first."""
        return

    async def outage_of(self, error: Exception) -> Outage:
        """A database that is away is waited for; one that refuses ends the service, with a sentence."""
        await self._disconnect()
        if not is_outage(error):
            raise explain(error, self._url) if is_database_error(error) else error from error
        return self.database_away

    async def close(self) -> None:
        await self._disconnect()

    def readiness(self) -> Iterable[Finding]:
        return [self.database_away.finding("database")]

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await close_quietly(connection)


class Together:
    """Services that run beside each other, as one. If one of them ends or fails, all are stopped."""

    def __init__(self, *services: Service) -> None:
        self._services = services

    def stop(self) -> None:
        for service in self._services:
            service.stop()

    def readiness(self) -> Iterable[Finding]:
        """What those of them say that say anything."""
        telling = [service for service in self._services if isinstance(service, TellsReadiness)]
        return [finding for service in telling for finding in service.readiness()]

    async def run(self) -> None:
        """Until all of them have ended. If some failed, raises what the first of them, in their order, failed with."""
        tasks = self._start()
        try:
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            self.stop()
            await asyncio.wait(tasks)
        for one in ended:
            if isinstance(one, BaseException):
                raise one

    def _start(self) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(service.run()) for service in self._services]
        for task in tasks:
            task.add_done_callback(lambda _: self.stop())
        return tasks


class CutOff(Together):
    """Services that need not finish what they are at. Once stopped, they have so long to end by themselves, then they
    are cut off: what they had begun is rolled back, and done by whoever comes next."""

    def __init__(self, *services: Service, after: timedelta, when_late: Callable[[], None] = lambda: None) -> None:
        super().__init__(*services)
        self._stopping = asyncio.Event()
        self._after_s = after.total_seconds()
        self._when_late = when_late

    def stop(self) -> None:
        self._stopping.set()
        super().stop()

    async def run(self) -> None:
        late = set(tasks := self._start())
        try:
            await self._stopping.wait()
            _, late = await asyncio.wait(tasks, timeout=self._after_s)
            if late:
                self._when_late()
        finally:
            while late:  # each time whatever is waited for is given up: a statement, the rollback, the connection's end
                for task in late:
                    task.cancel()
                _, late = await asyncio.wait(late, timeout=CLOSE_WITHIN_S)
        for task in tasks:
            if not task.cancelled():
                task.result()


async def rest(stopping: asyncio.Event, pause: timedelta) -> None:
    """Wait for so long, or until we are to stop."""
    if pause <= NO_REST:
        return
    try:
        await asyncio.wait_for(stopping.wait(), pause.total_seconds())
    except TimeoutError:
        return
