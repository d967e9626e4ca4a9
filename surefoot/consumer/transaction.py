"""What a handler gets beside its event: the open transaction.

`tx.session` is an ordinary SQLAlchemy session, except that it refuses commit, rollback and close: the transaction
belongs to everybody in the batch. Savepoints (`async with tx.session.begin_nested()`) are the handler's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from surefoot.errors import InvalidEvent
from surefoot.events import Event, EventData
from surefoot.events.commands import Command

if TYPE_CHECKING:  # declaring a consumer loads no driver
    from sqlalchemy.ext.asyncio import AsyncSession

T = TypeVar("T", bound=EventData)


class Add(Protocol):
    """Adds an event to the outbox of the transaction."""

    def __call__(self, session: Any, what: Any, *, key: str | None, caused_by: Event[EventData]) -> Event[Any]: ...


@dataclass(frozen=True, slots=True)
class Transaction:
    session: AsyncSession
    add: Add
    event: Event[EventData] | None
    """The event that is being handled; None in a batch, where there are several."""
    command: Command | None = None
    """The saga's step, where the event is a command."""
    done: bool = False
    """In an undo: whether its do was carried out. Where it was not, or nobody knows, there may be nothing to undo."""

    def publish(self, data: T, *, key: str | None = None, caused_by: Event[EventData] | None = None) -> Event[T]:
        """Publish an event when, and only when, this transaction commits. It belongs to the flow of the event that is
        being handled; in a batch, say which one that is: `caused_by=event`."""
        cause = caused_by or self.event
        if cause is None:
            raise InvalidEvent(
                "In a batch, publish needs to know which event is the cause: say tx.publish(…, caused_by=event)."
            )
        return self.add(self.session, data, key=key, caused_by=cause)


@dataclass(frozen=True, slots=True)
class OutsideCall:
    """What an outside call needs beside its event."""

    key: str
    """The same at every attempt and on every machine: give it to the provider as its idempotency key."""
    do_key: str
    """The key of the call that an undo undoes, so that the provider refuses it if it comes late. Else the same."""
    attempt: int
    prepared: Any
    """What `prepare` returned."""
