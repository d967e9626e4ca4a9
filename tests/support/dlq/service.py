"""The parts of the dead-letter service, running in the test's own process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Protocol, TypeVar

from surefoot.dlq.intake.intake import Intake
from surefoot.dlq.jobs.outcomes import Outcomes
from surefoot.dlq.settings import DlqSettings
from surefoot.log.port import EventLog
from tests.support.waiting import eventually

# Everything compressed: new topics are found at once, what is unanswered is sent again after a second.
QUICK = {
    "look_for_topics": timedelta(milliseconds=200),
    "tick": timedelta(milliseconds=20),
    "resend_after": timedelta(seconds=1),
    "housekeeping": timedelta(milliseconds=200),
}


class Part(Protocol):
    async def run(self) -> None: ...

    def stop(self) -> None: ...


P = TypeVar("P", bound=Part)


def quick(**changes: object) -> DlqSettings:
    return DlqSettings(**{**QUICK, **changes})  # type: ignore[arg-type]


@asynccontextmanager
async def running(part: P) -> AsyncIterator[P]:
    """Run it beside the test; stop it at the end, and fail if it had failed."""
    task = asyncio.create_task(part.run())
    try:
        yield part
    finally:
        part.stop()
        await task


@asynccontextmanager
async def intake_running(url: str, log: EventLog, **changes: object) -> AsyncIterator[Intake]:
    async with running(Intake(url, log, quick(**changes))) as intake:
        yield intake


@asynccontextmanager
async def outcomes_running(url: str, log: EventLog, **changes: object) -> AsyncIterator[Outcomes]:
    async with running(Outcomes(url, log, quick(**changes))) as outcomes:
        yield outcomes


async def all_read(log: EventLog, topic: str, group: str = "dlq") -> None:
    """Wait until the group has told the log that it has read everything there is."""

    async def look() -> bool:
        ends = {where: end for where, end in (await log.end_offsets(topic)).items() if end}
        return dict(await log.group_offsets(group, topic)).items() >= ends.items()

    await eventually(look, what=f"{group} has read all of {topic}")
