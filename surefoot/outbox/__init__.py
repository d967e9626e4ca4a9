"""Publish an event in your own transaction: commit, and it reaches the log; roll back, and it never does.

    from surefoot import outbox

    async with AsyncSession(engine) as session, session.begin():
        session.add(order)
        outbox.add(session, OrderPlaced(order_id=order.id, total=order.total))

`add` checks at once (an undeclared type, data that does not fit, money as float, a NUL, too many bytes: one clear error
each, and your transaction is still usable) and buffers; the rows are written just before your commit.
"""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from surefoot.database.schema import DEFAULT_SCHEMA, checked_schema
from surefoot.events import Event, EventData
from surefoot.outbox import bare
from surefoot.outbox.bare import OutboxTransaction
from surefoot.outbox.entry import DEFAULT_MAX_BYTES, Entry, as_event, entry_of
from surefoot.outbox.session import AnySession, buffer

if TYPE_CHECKING:  # a program on another driver goes without asyncpg
    from surefoot.database.connection import Connection

__all__ = ["Outbox", "OutboxTransaction", "add", "transaction"]

T = TypeVar("T", bound=EventData)


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
        return bare.transaction(cast("Connection", connection), self._prepare, self.schema)

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
