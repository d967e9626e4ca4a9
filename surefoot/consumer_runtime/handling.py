"""Calling handlers: with the trace of the event, within the time they have, and through the barrier of commands.

Outside calls are made without a transaction, by the owner of the partition: as many at once as there are slots, each
under the key that its event has. The fence is looked at just before a call is made.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, assert_never

import orjson

from surefoot.consumer import Consumer, HandlerMisuse, OutsideCall, Transaction
from surefoot.consumer.handlers import (
    Add,
    BatchHandler,
    CommandHandler,
    EventHandler,
    OutsideHandler,
    call_keys,
    prepared_json,
)
from surefoot.consumer_runtime import barriers
from surefoot.consumer_runtime.barriers import OpenUnit
from surefoot.consumer_runtime.metrics import HANDLER_SECONDS
from surefoot.consumer_runtime.parking import ParkedRow
from surefoot.consumer_runtime.plan import Delivery
from surefoot.consumer_runtime.unit import Database, FenceLost, Position
from surefoot.errors import InvalidEvent
from surefoot.events import Event, EventData
from surefoot.events.event import Command, command_of
from surefoot.failpoints import failpoint
from surefoot.outbox import Outbox
from surefoot.outbox.entry import Entry
from surefoot.telemetry.tracing import handling

Outcome = Literal["PROCESSED", "BARRED"]


@dataclass(frozen=True, slots=True)
class Handled:
    outcome: Outcome
    entries: Sequence[Entry] = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the outside call will be given, as JSON."""

    json: str


_DONE = Handled("PROCESSED")


class Handling:
    def __init__(self, consumer: Consumer, schema: str, timeout: timedelta | None, *, add: Add | None = None) -> None:
        """`timeout`: None is no limit. `add`: adds an event to a transaction; unless it is given, the outbox's own."""
        self._consumer = consumer
        self._add: Add = add or Outbox(schema).add
        self._timeout_s = None if timeout is None else timeout.total_seconds()
        self._seconds = {
            handler.event_type.name: HANDLER_SECONDS.labels(consumer.name, handler.event_type.name)
            for handler in consumer.handlers
        }

    async def look_ahead(self, unit: OpenUnit, deliveries: Sequence[Delivery]) -> None:
        """Ask for the barriers of all commands that follow, at once instead of one by one."""
        commands = []
        for delivery in deliveries:
            if isinstance(delivery.handler, CommandHandler):
                with suppress(InvalidEvent):  # its handling says what is wrong with it
                    commands.append(command_of(delivery.event))
        known = [command for command in commands if command is not None]
        if len(known) > 1:
            await unit.barriers.look_up(unit.driver, unit.sql.barriers, known)

    async def one(self, unit: OpenUnit, delivery: Delivery) -> Handled:
        event, handler = delivery.event, delivery.handler
        with handling(event, self._consumer.name):
            if isinstance(handler, EventHandler):
                await self._timed(event.type, handler.function(event, Transaction(unit.session, self._add, event)))
                handled = _DONE
            elif isinstance(handler, CommandHandler):
                handled = await self._command(unit, event, handler)
            elif isinstance(handler, BatchHandler | OutsideHandler):
                raise TypeError(f"{handler.name} takes no single events")  # the plan sends them elsewhere
            else:
                assert_never(handler)
        await unit.after_handler()
        return handled

    async def run(self, unit: OpenUnit, deliveries: Sequence[Delivery]) -> None:
        handler = deliveries[0].handler
        assert isinstance(handler, BatchHandler)
        events = [delivery.event for delivery in deliveries]
        with handling(events[0], self._consumer.name):
            await self._timed(events[0].type, handler.function(events, Transaction(unit.session, self._add, None)))
        await unit.after_handler()

    async def prepare(self, unit: OpenUnit, delivery: Delivery, *, prepared: str | None = None) -> Prepared | Handled:
        """The first half of an outside call; or, for a command that was answered before, all there is to do.

        `prepared`: what it gave before the event died. It runs once, also where the call is made again later."""
        event, handler = delivery.event, delivery.handler
        assert isinstance(handler, OutsideHandler)
        command = command_of(event) if handler.command else None
        done = False
        if command is not None:
            standing = await barriers.stand(unit, command, event)
            if not isinstance(standing, barriers.Clear):
                return _settled(standing)
            done = standing.done
        if prepared is not None:
            return Prepared(prepared)
        if handler.prepare is None:
            return Prepared("null")
        with handling(event, self._consumer.name):
            tx = Transaction(unit.session, self._add, event, command, done)
            given = await self._timed(event.type, handler.prepare(event, tx))
        await unit.after_handler()
        return Prepared(prepared_json(given, handler.prepare))

    async def finish(self, unit: OpenUnit, delivery: Delivery, result: Any) -> Handled:
        event, handler = delivery.event, delivery.handler
        assert isinstance(handler, OutsideHandler)
        command = command_of(event) if handler.command else None
        done = False
        if command is not None:
            standing = await barriers.stand_after_call(unit, command, event)
            if not isinstance(standing, barriers.Clear):
                return _settled(standing)
            done = standing.done
        with handling(event, self._consumer.name):
            tx = Transaction(unit.session, self._add, event, command, done)
            reply = await self._timed(event.type, handler.finish(event, tx, result))
        await unit.after_handler()
        if handler.command:
            await self._answer(unit, event, command, reply)
        return _DONE

    async def _command(self, unit: OpenUnit, event: Event[Any], handler: CommandHandler) -> Handled:
        command = command_of(event)
        standing: barriers.Standing = barriers.Clear(done=False)
        if command is not None:
            standing = await barriers.stand(unit, command, event)
        if not isinstance(standing, barriers.Clear):
            return _settled(standing)
        tx = Transaction(unit.session, self._add, event, command, standing.done)
        reply = await self._timed(event.type, handler.function(event, tx))
        await unit.after_handler()
        await self._answer(unit, event, command, reply)
        return _DONE

    async def _answer(
        self, unit: OpenUnit, event: Event[Any], command: Command | None, reply: EventData | None
    ) -> None:
        published: Event[EventData] | None = None
        if reply is not None:
            if not isinstance(reply, EventData):
                raise InvalidEvent(
                    f"The handler of the command {event.type} returned a {type(reply).__name__}: return the reply, "
                    "data of a declared event type, or None."
                )
            published = self._add(unit.session, reply, key=None, caused_by=event)
        if command is not None:
            await barriers.settle(unit, command, published)

    async def _timed(self, event_type: str, call: Any) -> Any:
        began = time.perf_counter()
        try:
            with ordinary_errors():
                async with asyncio.timeout(self._timeout_s):
                    return await call
        finally:
            self._seconds[event_type].observe(time.perf_counter() - began)


@contextmanager
def ordinary_errors() -> Iterator[None]:
    """Around code that is not ours. What is no Exception would end a partition's loop in silence: a handler that waits
    for a task that was cancelled gets the same error as one whose own task is."""
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        raise HandlerMisuse(
            f"The handler raised {type(error).__name__}, which is no ordinary error: it would end the consumer, not "
            "this event. Catch it where it comes from."
        ).with_traceback(error.__traceback__) from error


def _settled(standing: barriers.Answered | barriers.Barred) -> Handled:
    if isinstance(standing, barriers.Barred):
        return Handled("BARRED")
    return Handled("PROCESSED", () if standing.reply is None else (standing.reply,))


def outside_call(consumer: str, delivery: Delivery, attempts: int, prepared: str | None) -> OutsideCall:
    """What the call of this event is given, after so many failed attempts."""
    event, handler = delivery.event, delivery.handler
    assert isinstance(handler, OutsideHandler)
    command = command_of(event) if handler.command else None
    key, do_key = call_keys(consumer, event, command)
    return OutsideCall(key, do_key, attempts + 1, orjson.loads(prepared or "null"))


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
        call = outside_call(self._position.consumer, delivery, row.attempts, row.prepared)
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
