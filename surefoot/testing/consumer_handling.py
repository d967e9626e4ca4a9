"""One attempt at an event, as the consumer makes it, with memory in place of the database.

What a handler publishes, the reply that is kept and the outcome come about together when it returns, and not at all
when it raises.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, assert_never

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
from surefoot.events.commands import Command, command_of
from surefoot.telemetry.tracing import handling
from surefoot.testing.consumer_barriers import Barrier, Barriers
from surefoot.testing.consumer_faults import Faults
from surefoot.testing.consumer_records import Delivered, read_back
from surefoot.testing.consumer_transaction import transaction

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
