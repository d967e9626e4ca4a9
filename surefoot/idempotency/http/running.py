"""What is under way in this process: requests with a key are worked on to their end, also when their client has left.

Whoever ends the process waits for them first. What is cut off all the same is taken over by others, later.
"""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import structlog

from surefoot.idempotency import metrics

log = structlog.get_logger("surefoot.idempotency")


class Running:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        metrics.RUNNING.inc()
        task.add_done_callback(self._ended)
        return task

    async def drained(self, within: timedelta) -> int:
        """Wait for what is under way; how many of them are not over by then."""
        if self._tasks:
            log.info("waiting for requests that are under way", requests=len(self._tasks))
            await asyncio.wait(self._tasks, timeout=within.total_seconds())
        return len(self._tasks)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        metrics.RUNNING.dec()


def report(task: asyncio.Task[None]) -> None:
    """For a task that nobody waits for any more: what it raised is told."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a request whose client had left failed", error=type(error).__name__, exc_info=error)
