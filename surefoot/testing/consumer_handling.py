"""One attempt at an event, as the consumer makes it, with memory in place of the database.

What a handler publishes, the reply that is kept and the outcome come about together when it returns, and not at all
when it raises.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal, assert_never

import orjson

from surefoot.consumer import Consumer, OutsideCall, Transaction
from surefoot.consumer.contracts import CommandFailed
from surefoot.consumer.dead_letter import DeadReason, diagnose
from surefoot.consumer.handlers import (
    BatchHandler,
    CommandHandler,
    EventHandler,
    Handler,
    OutsideHandler,
    call_keys,
    is_for_commands,
    prepared_json,
)
from surefoot.errors import InvalidEvent
from surefoot.events import BadRecord, Event, EventData, new_event, to_event
from surefoot.events.event import Command, command_of
from surefoot.telemetry.tracing import handling
from surefoot.testing.consumer_records import Delivered, KitMisuse, read_back
from surefoot.testing.consumer_transaction import transaction


@dataclass(slots=True)
class _Fault:
    calls_before: int
    times: int
    error: Exception


class Faults:
    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._planned: dict[str, list[_Fault]] = {}

    def plan(self, name: str, *, on_call: int, times: int, error: Exception) -> None:
        known = sorted({name for handler in self._consumer.handlers for name in _functions(handler)})
        if name not in known:
            raise KitMisuse(f"{self._consumer.name} has no function {name} to fail: it has {', '.join(known)}.")
        if on_call < 1 or times < 1:
            raise KitMisuse(f"fail(on_call={on_call}, times={times}): both are numbers from 1 up.")
        self._planned.setdefault(name, []).append(_Fault(on_call - 1, times, error))

    async def call(self, function: Callable[..., Awaitable[Any]], *arguments: object) -> Any:
        """Call a function of the consumer's, unless it is to fail now."""
        struck: Exception | None = None
        for fault in self._planned.get(name_of(function), ()):
            if fault.calls_before > 0:
                fault.calls_before -= 1
            elif fault.times > 0:
                fault.times -= 1
                struck = struck or fault.error
        if struck is not None:
            raise struck
        return await function(*arguments)


def _functions(handler: Handler) -> list[str]:
    if not isinstance(handler, OutsideHandler):
        return [handler.name]
    return [handler.name, name_of(handler.call), *([name_of(handler.prepare)] if handler.prepare else [])]


def name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", repr(function)))


@dataclass(frozen=True, slots=True)
class Barrier:
    """The reply, to be given again; or, before the command came, that its undo came first."""

    barred: bool
    reply: Event[EventData] | None


class Barriers:
    """A command that does not say which step it is for (None) leaves nothing."""

    def __init__(self) -> None:
        self._settled: dict[tuple[str, str, str], Barrier] = {}

    def of(self, command: Command | None) -> Barrier | None:
        return None if command is None else self._settled.get(_place(command))

    def keep(self, command: Command | None, reply: Event[EventData] | None) -> None:
        if command is not None:
            self._settled[_place(command)] = Barrier(barred=False, reply=reply)
            self.bar_the_do(command)

    def bar_the_do(self, command: Command | None) -> None:
        """An undo bars its do, should that still come."""
        if command is not None and command.direction == "undo":
            self._settled.setdefault(_do_of(command), Barrier(barred=True, reply=None))

    def was_done(self, command: Command | None) -> bool:
        """In an undo: whether its do was carried out."""
        if command is None or command.direction == "do":
            return False
        do = self._settled.get(_do_of(command))
        return do is not None and not do.barred


def _place(command: Command) -> tuple[str, str, str]:
    return command.saga_id, command.step, command.direction


def _do_of(command: Command) -> tuple[str, str, str]:
    return command.saga_id, command.step, "do"


Settled = Literal["PROCESSED", "BARRED"]


class Handling:
    def __init__(self, consumer: Consumer, session: object, faults: Faults) -> None:
        self.published: list[Event[EventData]] = []
        self._consumer = consumer
        self._session = session
        self._faults = faults
        self._barriers = Barriers()

    def read(self, one: Delivered) -> tuple[Handler, Event[EventData]]:
        """The handler and the typed event; raises BadRecord if the event is not one that it takes."""
        handler = self._handler(one)
        return handler, to_event(one.envelope(), handler.event_type)

    async def attempt(self, one: Delivered, handler: Handler, event: Event[EventData]) -> Settled:
        """Raises whatever the handler raises."""
        with handling(event, self._consumer.name):
            match handler:
                case EventHandler():
                    async with self._transaction(event) as tx:
                        await self._faults.call(handler.function, event, tx)
                case BatchHandler():
                    async with self._transaction(None) as tx:
                        await self._faults.call(handler.function, [event], tx)
                case CommandHandler():
                    return await self._command(event, handler)
                case OutsideHandler():
                    return await self._outside(event, handler, one)
                case _:
                    assert_never(handler)
        return "PROCESSED"

    async def whole(self, run: Sequence[Delivered]) -> None:
        """A run of events, each read as its own type, in one call of their batch handler."""
        handler = self._handler(run[0])
        assert isinstance(handler, BatchHandler)
        events = [event for _, event in map(self.read, run)]
        with handling(events[0], self._consumer.name):
            async with self._transaction(None) as tx:
                await self._faults.call(handler.function, events, tx)

    def is_command(self, one: Delivered) -> bool:
        handler = self._consumer.handler(one.type, one.version)
        return handler is not None and is_for_commands(handler)

    def tell_saga(self, one: Delivered, reason: DeadReason, error: Exception) -> None:
        """A command is dead: its saga gets to know, if it says which one that is."""
        try:
            command = command_of(one.event)
        except InvalidEvent:
            return
        if command is None:
            return
        told = CommandFailed(
            saga_id=command.saga_id,
            step=command.step,
            direction=command.direction,
            attempt=command.attempt,
            consumer=self._consumer.name,
            reason=reason,
            error=diagnose(error, reason, consumer=self._consumer.name, event_type=one.type, data=one.event.data).error,
        )
        self.published.append(read_back(new_event(told, caused_by=one.event)))

    def _handler(self, one: Delivered) -> Handler:
        handler = self._consumer.handler(one.type, one.version)
        if handler is None:
            raise BadRecord(
                "wrong_version",
                f"The {one.type} event is of version {one.version}, and {self._consumer.name} has handlers for "
                f"{', '.join(map(str, self._consumer.versions(one.type)))}: add one for that version.",
            )
        return handler

    async def _command(self, event: Event[EventData], handler: CommandHandler) -> Settled:
        command = command_of(event)
        known = self._barriers.of(command)
        if known is not None:
            return self._again(known, event)
        async with self._transaction(event, command) as tx:
            reply = _published(tx, await self._faults.call(handler.function, event, tx))
        self._barriers.keep(command, reply)
        return "PROCESSED"

    async def _outside(self, event: Event[EventData], handler: OutsideHandler, one: Delivered) -> Settled:
        command = command_of(event) if handler.command else None
        if one.prepared is None:
            known = self._barriers.of(command)
            if known is not None:
                return self._again(known, event)
            async with self._transaction(event, command) as tx:
                prepared = "null"
                if handler.prepare is not None:
                    prepared = prepared_json(await self._faults.call(handler.prepare, event, tx), handler.prepare)
            one.prepared = prepared
            self._barriers.bar_the_do(command)
        key, do_key = call_keys(self._consumer.name, event, command)
        call = OutsideCall(key, do_key, one.attempts + 1, orjson.loads(one.prepared))
        result = await self._faults.call(handler.call, event, call)
        async with self._transaction(event, command) as tx:
            answer = await self._faults.call(handler.finish, event, tx, result)
            reply = _published(tx, answer) if handler.command else None
        self._barriers.keep(command, reply)
        return "PROCESSED"

    def _again(self, known: Barrier, event: Event[EventData]) -> Settled:
        if known.barred:
            return "BARRED"
        if known.reply is not None:
            self.published.append(read_back(new_event(known.reply.data, key=known.reply.key, caused_by=event)))
        return "PROCESSED"

    def _transaction(
        self, event: Event[EventData] | None, command: Command | None = None
    ) -> AbstractAsyncContextManager[Transaction]:
        return transaction(self._session, self.published, event, command, self._barriers.was_done(command))


def _published(tx: Transaction, reply: EventData | None) -> Event[EventData] | None:
    return None if reply is None else tx.publish(reply)
