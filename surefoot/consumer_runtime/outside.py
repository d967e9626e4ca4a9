"""Outside calls: made with no transaction open, again and again until they succeed, always under the same key.

The partition's owner makes them, as tasks beside its batches; whoever takes the partition over makes those that were
under way again, under the same key, so that the provider can tell that it has seen them.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson

from surefoot.consumer import OutsideCall
from surefoot.consumer.handlers import OutsideHandler, call_keys
from surefoot.consumer_runtime.handling import ordinary_errors
from surefoot.consumer_runtime.parking import ParkedRow
from surefoot.consumer_runtime.plan import Delivery
from surefoot.consumer_runtime.unit import Database, FenceLost, Position
from surefoot.events.commands import command_of
from surefoot.failpoints import failpoint
from surefoot.telemetry.tracing import handling


@dataclass(frozen=True, slots=True)
class Called:
    """A call that has ended: with a result, or with an error."""

    row: ParkedRow
    delivery: Delivery
    result: Any
    error: BaseException | None


class Slots:
    """So many calls at once, over all partitions. Taken when a call is begun, so that none is begun to wait."""

    def __init__(self, count: int) -> None:
        self._free = count

    def take(self) -> bool:
        if self._free == 0:
            return False
        self._free -= 1
        return True

    def give_back(self) -> None:
        self._free += 1


class _NotBegun(Exception):
    """We are to stop: the call is for whoever owns the partition next."""


class OutsideCalls:
    """The calls of one partition."""

    def __init__(
        self,
        position: Position,
        database: Database,
        slots: Slots,
        timeout: timedelta,
        wake: Callable[[], None],
    ) -> None:
        self._position = position
        self._database = database
        self._slots = slots
        self._timeout_s = timeout.total_seconds()
        self._wake = wake
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ended: list[Called] = []
        self._no_more = False

    def begin_no_more(self) -> None:
        """Those that were begun may end; one that is about to begin does not."""
        self._no_more = True

    def under_way(self) -> list[int]:
        """Offsets of calls that were started and whose end has not been dealt with."""
        return [*self._tasks, *(called.row.log_offset for called in self._ended)]

    def start(self, row: ParkedRow, delivery: Delivery) -> int:
        """Begin the call, if there is a slot for it; how many were begun."""
        if not self._slots.take():
            return 0
        self._tasks[row.log_offset] = asyncio.create_task(self._call(row, delivery))
        return 1

    def ended(self) -> list[Called]:
        ended, self._ended = self._ended, []
        return ended

    async def cancel(self) -> None:
        """End the calls under way; whoever owns the partition next makes them again."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def one_ended(self, within_s: float) -> None:
        """Wait until one of the calls under way has ended, but not for ever."""
        if self._tasks:
            tasks = set(self._tasks.values())
            await asyncio.wait(tasks, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)

    async def _call(self, row: ParkedRow, delivery: Delivery) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = await self._made(row, delivery)
        except _NotBegun:
            return
        except Exception as raised:
            error = raised
        finally:
            del self._tasks[row.log_offset]
            self._slots.give_back()
        self._ended.append(Called(row, delivery, result, error))
        self._wake()

    async def _made(self, row: ParkedRow, delivery: Delivery) -> Any:
        handler, event = delivery.handler, delivery.event
        assert isinstance(handler, OutsideHandler)
        command = command_of(event) if handler.command else None
        key, do_key = call_keys(self._position.consumer, event, command)
        call = OutsideCall(key, do_key, row.attempts + 1, orjson.loads(row.prepared or "null"))
        async with self._database.driver() as driver:
            fence = await driver.fetchval(self._database.sql.current_fence, *self._position.place)
        if fence != self._position.fence:
            raise FenceLost("The partition has a new owner: the call is the new owner's to make.")
        if self._no_more:
            raise _NotBegun
        await failpoint("consumer.calling")
        with handling(event, self._position.consumer), ordinary_errors():
            async with asyncio.timeout(self._timeout_s):
                return await handler.call(event, call)
