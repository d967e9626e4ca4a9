"""The outbox itself, and its events in a transaction of a bare asyncpg connection.

    async with outbox.transaction(connection) as tx:
        await connection.execute("INSERT INTO orders …")
        tx.add(OrderPlaced(…))

Savepoints are made with `tx.savepoint()`, which knows the events added inside it. asyncpg does not tell us of
savepoints made behind our back, so a rollback to one of those is noticed in the connection's query log and refused:
better no commit than an event of work that was undone.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from surefoot.database.schema import DEFAULT_SCHEMA, checked_schema
from surefoot.errors import InvalidEvent
from surefoot.events import Event, EventData
from surefoot.outbox.entry import DEFAULT_MAX_BYTES, Entry, as_event, entry_of
from surefoot.outbox.session import AnySession, buffer, statement

if TYPE_CHECKING:  # a program on another driver goes without asyncpg
    from surefoot.database.connection import Connection

T = TypeVar("T", bound=EventData)
_ROLLBACK = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:ROLLBACK|ABORT)\b", re.IGNORECASE | re.DOTALL)
Prepare = Callable[..., tuple[Event[T], Entry]]


class OutboxTransaction:
    """What `outbox.transaction` gives you."""

    def __init__(self, connection: "Connection", prepare: Prepare[EventData], schema: str) -> None:
        self.connection = connection
        self._prepare = prepare
        self._schema = schema
        self._entries: list[Entry] = []
        self._own_rollbacks = 0
        self._seen_rollbacks = 0

    def add(
        self,
        what: T | Event[T],
        *,
        key: str | None = None,
        caused_by: Event[EventData] | None = None,
        correlation_id: str | None = None,
    ) -> Event[T]:
        """Check an event now, write it just before the commit."""
        event, entry = self._prepare(what, key=key, caused_by=caused_by, correlation_id=correlation_id)
        self._entries.append(entry)
        return event  # type: ignore[return-value]  # the event of what was given

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """A nested transaction: rolled back with its events when the block raises."""
        before, begun = len(self._entries), 0
        try:
            async with self.connection.transaction():
                begun = 1
                yield
        except BaseException:
            del self._entries[before:]
            self._own_rollbacks += begun  # one that could not even begin is not rolled back
            raise

    def _watch(self, query: object) -> None:
        if _ROLLBACK.match(str(getattr(query, "query", ""))):
            self._seen_rollbacks += 1

    async def _write(self) -> None:
        if not self._entries:
            return
        await asyncio.sleep(0)  # asyncpg calls its query loggers on the next turn of the loop
        if self._seen_rollbacks > self._own_rollbacks:
            raise InvalidEvent(
                "Something was rolled back inside outbox.transaction(), and its events cannot be told from the others. "
                "Use `async with tx.savepoint():` instead of connection.transaction() there. Nothing was committed."
            )
        sql, values = statement(self._schema, self._entries)
        await self.connection.execute(sql, *values)


@asynccontextmanager
async def _transaction(
    connection: "Connection", prepare: Prepare[EventData], schema: str
) -> AsyncIterator[OutboxTransaction]:
    tx = OutboxTransaction(connection, prepare, schema)
    connection.add_query_logger(tx._watch)
    try:
        async with connection.transaction():
            yield tx
            await tx._write()
    finally:
        connection.remove_query_logger(tx._watch)


@dataclass(frozen=True, slots=True)
class Outbox:
    """An outbox in a schema of your choice. `add` and `transaction` below are those of the default one."""

    schema: str = DEFAULT_SCHEMA
    max_bytes: int = DEFAULT_MAX_BYTES

    def __post_init__(self) -> None:
        checked_schema(self.schema)

    def add(
        self,
        session: AnySession,
        what: T | Event[T],
        *,
        key: str | None = None,
        caused_by: Event[EventData] | None = None,
        correlation_id: str | None = None,
    ) -> Event[T]:
        """Add an event to the session's transaction. `what` is the data of a declared type, or a whole Event."""
        event, entry = self._prepare(what, key=key, caused_by=caused_by, correlation_id=correlation_id)
        buffer(session, entry, self.schema)
        return event

    def transaction(self, connection: object) -> AbstractAsyncContextManager[OutboxTransaction]:
        """A transaction on an asyncpg connection (also one from a pool) that can carry events."""
        return _transaction(cast("Connection", connection), self._prepare, self.schema)

    def _prepare(
        self,
        what: T | Event[T],
        *,
        key: str | None,
        caused_by: Event[EventData] | None,
        correlation_id: str | None,
    ) -> tuple[Event[T], Entry]:
        event = as_event(what, key=key, caused_by=caused_by, correlation_id=correlation_id)
        return event, entry_of(event, max_bytes=self.max_bytes)


_default = Outbox()
add = _default.add
transaction = _default.transaction
