"""One attempt at an event, made by the consumer's own code, with memory in place of the database.

What a handler publishes, the reply that is kept and the outcome come about together when it returns, and not at all
when it raises. With a real session each attempt is a savepoint, so that what a failed one wrote is gone, as in
production.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import wraps
from typing import Any, NoReturn, cast

import orjson
from sqlalchemy import event as hooks
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session, SessionTransaction

from surefoot.consumer import Consumer, HandlerMisuse
from surefoot.consumer.contracts import CommandFailed
from surefoot.consumer.handlers import Handler, OutsideHandler
from surefoot.consumer_runtime.barriers import Barriers
from surefoot.consumer_runtime.handling import Handled, Handling, Prepared, outside_call
from surefoot.consumer_runtime.handling import Outcome as Settled
from surefoot.consumer_runtime.plan import Delivery, Handle, HandleRun, Prepare
from surefoot.consumer_runtime.statements import Statements
from surefoot.database.connection import Connection
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.events import Event, EventData, EventType, decode, event_type_of, to_event
from surefoot.events.binding import version_of
from surefoot.outbox.entry import Entry, as_event, entry_of
from surefoot.telemetry.tracing import handling as traced
from surefoot.testing.consumer_records import Delivered, KitMisuse

Function = Callable[..., Awaitable[Any]]


class Faults:
    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._calls: Counter[str] = Counter()
        self._planned: list[tuple[str, range, Exception]] = []

    def plan(self, name: str, *, on_call: int, times: int, error: Exception) -> None:
        known = sorted({_name_of(each) for handler in self._consumer.handlers for each in _functions(handler).values()})
        if name not in known:
            raise KitMisuse(f"{self._consumer.name} has no function {name} to fail: it has {', '.join(known)}.")
        if on_call < 1 or times < 1:
            raise KitMisuse(f"fail(on_call={on_call}, times={times}): both are numbers from 1 up.")
        first = self._calls[name] + on_call
        self._planned.append((name, range(first, first + times), error))

    def put_into(self, delivery: Delivery) -> Delivery:
        """The same with a handler whose functions fail when they are to."""
        failing: dict[str, Any] = {name: self._failing(each) for name, each in _functions(delivery.handler).items()}
        return delivery._replace(handler=replace(delivery.handler, **failing))

    def _failing(self, function: Function) -> Function:
        name = _name_of(function)

        @wraps(function)
        async def call(*arguments: object) -> Any:
            self._calls[name] += 1
            for whose, calls, error in self._planned:
                if whose == name and self._calls[name] in calls:
                    raise error
            return await function(*arguments)

        return call


def _functions(handler: Handler) -> dict[str, Function]:
    if not isinstance(handler, OutsideHandler):
        return {"function": handler.function}
    prepare = {} if handler.prepare is None else {"prepare": handler.prepare}
    return {"call": handler.call, "finish": handler.finish, **prepare}


def _name_of(function: Function) -> str:
    return str(getattr(function, "__name__", repr(function)))


class NoSession:
    """Stands where the session would be."""

    def __getattr__(self, name: str) -> NoReturn:
        raise KitMisuse(
            f"The handler uses tx.session.{name}, and the kit has no session to give it: make it with "
            "ConsumerKit(consumer, session=…), with a session of a test database or a stand-in of your own."
        )


class Store:
    """What stays when a transaction is over. To the barriers of commands it is the driver of their table."""

    def __init__(self, session: object | None) -> None:
        self.session = NoSession() if session is None else session
        self.published: list[Event[EventData]] = []
        self._barriers: dict[tuple[str, str, str], tuple[Any, ...]] = {}
        self._types: dict[tuple[str, int | None], EventType[Any]] = {}
        self.know(event_type_of(CommandFailed))

    def know(self, declared: EventType[Any]) -> None:
        self._types[declared.name, declared.version] = declared

    def publish(self, entries: Sequence[Entry]) -> None:
        """Publish what is in the outbox, as a reader gets it."""
        for entry in entries:
            headers = [(name, value.encode()) for name, value in orjson.loads(entry.headers)]
            envelope = decode(headers, entry.body, entry.key.encode())
            self.published.append(to_event(envelope, self._types[envelope.type, version_of(envelope)]))

    async def fetch(self, _: str, saga_ids: Sequence[str]) -> list[tuple[Any, ...]]:
        return [row for row in self._barriers.values() if row[0] in saga_ids]

    async def execute(self, _: str, *columns: Sequence[Any]) -> None:
        for saga_id, step, direction, _consumer, *barrier in zip(*columns, strict=True):
            self._barriers[saga_id, step, direction] = (saga_id, step, direction, *barrier)


class MemoryUnit:
    """A transaction that is open, as far as handlers and barriers need one."""

    sql = Statements(DEFAULT_SCHEMA)

    def __init__(self, store: Store) -> None:
        self.session = cast(AsyncSession, store.session)
        self.driver = cast(Connection, store)
        self.barriers = Barriers()
        self._store = store
        self._savepoint: SessionTransaction | None = None
        """Of a real session."""
        self._entries: list[tuple[SessionTransaction | None, Entry]] = []
        """What was published so far, each with the savepoint it was published in."""

    def add(self, session: Any, what: Any, *, key: str | None, caused_by: Event[EventData]) -> Event[Any]:
        made: Event[EventData] = as_event(what, key=key, caused_by=caused_by)
        self._entries.append((self._innermost(), entry_of(made)))  # refuses what the outbox would refuse
        self._store.know(event_type_of(made.data))
        return made

    def settled(self, handled: Handled) -> Settled:
        self._entries += [(None, entry) for entry in handled.entries]
        return handled.outcome

    async def after_handler(self) -> None:
        if self._savepoint is not None and not self._is_open():
            raise HandlerMisuse(
                "The handler committed, rolled back or closed tx.session, which would do the same to the work of "
                "others in its batch: leave that to the consumer, and use tx.session.begin_nested() to undo a part."
            )

    async def commit(self) -> None:
        await self.barriers.write(self.driver, self.sql.set_barriers, "")
        self._store.publish([entry for _, entry in self._entries])

    @asynccontextmanager
    async def undone_on_failure(self) -> AsyncIterator[None]:
        """What the handlers write, if they have a real session."""
        if not isinstance(self._store.session, AsyncSession):
            yield
            return
        savepoint = await self.session.begin_nested()
        self._savepoint = savepoint.sync_transaction
        hooks.listen(self.session.sync_session, "after_soft_rollback", self._forget)
        try:
            yield
            # Fails if the handler left the transaction aborted by swallowing an error of the database's.
            await self.session.execute(text("SELECT 1"))
            await savepoint.commit()
        except BaseException:
            if self._is_open():
                await savepoint.rollback()
            raise
        finally:
            hooks.remove(self.session.sync_session, "after_soft_rollback", self._forget)

    def _forget(self, _: Session, undone: SessionTransaction) -> None:
        """A savepoint of the handler's own was rolled back: so is what was published in it."""
        self._entries = [(within, entry) for within, entry in self._entries if not _is_part_of(within, undone)]

    def _innermost(self) -> SessionTransaction | None:
        return None if self._savepoint is None else self.session.sync_session.get_nested_transaction()

    def _is_open(self) -> bool:
        """Also while it is aborted and can only be rolled back, which `is_active` would deny."""
        return self._savepoint is not None and _is_part_of(self._innermost(), self._savepoint)


def _is_part_of(inner: SessionTransaction | None, outer: SessionTransaction) -> bool:
    while inner is not None and inner is not outer:
        inner = inner.parent
    return inner is outer


class Attempts:
    """Has the consumer's own code do a step, and raises whatever the handler raises."""

    def __init__(self, consumer: Consumer, store: Store, faults: Faults) -> None:
        self.store = store
        self._consumer = consumer
        self._faults = faults

    async def make(self, step: Handle | HandleRun | Prepare, one: Delivered) -> Settled:
        if isinstance(step, Prepare):
            return await self._outside(self._faults.put_into(step.delivery), one)
        async with self._transaction() as (unit, handling):
            if isinstance(step, Handle):
                return unit.settled(await handling.one(unit, self._faults.put_into(step.delivery)))
            await handling.run(unit, [self._faults.put_into(delivery) for delivery in step.deliveries])
            return "PROCESSED"

    async def _outside(self, delivery: Delivery, one: Delivered) -> Settled:
        assert isinstance(delivery.handler, OutsideHandler)
        if one.prepared is None:
            async with self._transaction() as (unit, handling):
                made = await handling.prepare(unit, delivery)
                if not isinstance(made, Prepared):
                    return unit.settled(made)
            one.prepared = made.json
        with traced(delivery.event, self._consumer.name):
            call = outside_call(self._consumer.name, delivery, one.attempts, one.prepared)
            result = await delivery.handler.call(delivery.event, call)
        async with self._transaction() as (unit, handling):
            return unit.settled(await handling.finish(unit, delivery, result))

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[tuple[MemoryUnit, Handling]]:
        unit = MemoryUnit(self.store)
        async with unit.undone_on_failure():
            yield unit, Handling(self._consumer, DEFAULT_SCHEMA, None, add=unit.add)
        await unit.commit()
