"""Long-running parts: each runs until it is stopped, waits for what it needs while that is away, and rests in between.

A part that does the same again and again is a `LoopService`. Parts that run beside each other are `Together`.
"""

import asyncio
from abc import ABC, abstractmethod
from datetime import timedelta
from typing import Protocol

from surefoot.telemetry.outage import Outage

NO_REST = timedelta(0)


class Service(Protocol):
    """What runs until it is stopped."""

    async def run(self) -> None:
        """Until stopped. Raises only what waiting cannot mend."""

    def stop(self) -> None:
        """Finish what is under way, then end `run`. It may be called before `run`, and again."""


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
