"""The dead-letter service without its HTTP side: letters come in, decisions go out, answers come back, and the house is
kept. Start as many as you like: each part shares its work with its like in other processes.
"""

import asyncio
from typing import Protocol

from surefoot.dlq.intake.intake import Intake
from surefoot.dlq.jobs.outcomes import Outcomes
from surefoot.dlq.jobs.sender import Sender
from surefoot.dlq.settings import DlqSettings
from surefoot.dlq.upkeep.alerts import alerts_of
from surefoot.dlq.upkeep.housekeeping import Housekeeping
from surefoot.log.port import EventLog


class Part(Protocol):
    """Waits for what is away, and ends when it is told to."""

    async def run(self) -> None: ...

    def stop(self) -> None: ...


class DlqRuntime:
    def __init__(self, url: str, event_log: EventLog, settings: DlqSettings) -> None:
        self._alerts = alerts_of(settings)
        self.parts: tuple[Part, ...] = (
            Intake(url, event_log, settings),
            Outcomes(url, event_log, settings),
            Sender(url, event_log, settings),
            Housekeeping(url, settings, self._alerts),
        )

    def stop(self) -> None:
        for part in self.parts:
            part.stop()

    async def run(self) -> None:
        """Until stopped. If one part fails for good, all of it ends, and says why."""
        tasks = [asyncio.create_task(part.run()) for part in self.parts]
        for task in tasks:
            task.add_done_callback(lambda _: self.stop())
        try:
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            self.stop()
            await asyncio.wait(tasks)
            await self._alerts.close()
        for one in ended:
            if isinstance(one, BaseException):
                raise one
