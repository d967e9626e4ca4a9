"""The transaction a handler gets in the test kit: what it publishes counts when, and only when, the attempt succeeds.

With a real session each attempt is a savepoint, so that what a failed one wrote is gone, as in production.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NoReturn, cast

from sqlalchemy import event as hooks
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, AsyncSessionTransaction
from sqlalchemy.orm import Session, SessionTransaction

from surefoot.consumer import HandlerMisuse, Transaction
from surefoot.events import Event, EventData
from surefoot.events.event import Command
from surefoot.outbox.entry import as_event, entry_of
from surefoot.testing.consumer_records import KitMisuse, read_back


class NoSession:
    """Stands where the session would be."""

    def __getattr__(self, name: str) -> NoReturn:
        raise KitMisuse(
            f"The handler uses tx.session.{name}, and the kit has no session to give it: make it with "
            "ConsumerKit(consumer, session=…), with a session of a test database or a stand-in of your own."
        )


class Added:
    """What an attempt has published so far, each with the savepoint it was published in."""

    def __init__(self, session: object) -> None:
        self._session = session
        self._events: list[tuple[SessionTransaction | None, Event[EventData]]] = []

    def __call__(self, session: Any, what: Any, *, key: str | None, caused_by: Event[EventData]) -> Event[Any]:
        made: Event[EventData] = as_event(what, key=key, caused_by=caused_by)
        entry_of(made)  # refuses what the outbox would refuse
        real = isinstance(self._session, AsyncSession)
        within = cast(AsyncSession, self._session).sync_session.get_nested_transaction() if real else None
        self._events.append((within, read_back(made)))
        return made

    def forget(self, _: Session, undone: SessionTransaction) -> None:
        """A savepoint of the handler's own was rolled back: so is what was published in it."""
        self._events = [(within, event) for within, event in self._events if not _is_part_of(within, undone)]

    @property
    def events(self) -> list[Event[EventData]]:
        return [event for _, event in self._events]


@asynccontextmanager
async def transaction(
    session: object,
    published: list[Event[EventData]],
    event: Event[EventData] | None,
    command: Command | None,
    done: bool,
) -> AsyncIterator[Transaction]:
    added = Added(session)
    async with _undone_on_failure(session, added):
        yield Transaction(cast(AsyncSession, session), added, event, command, done)
    published.extend(added.events)


@asynccontextmanager
async def _undone_on_failure(session: object, added: Added) -> AsyncIterator[None]:
    if not isinstance(session, AsyncSession):
        yield
        return
    savepoint = await session.begin_nested()
    hooks.listen(session.sync_session, "after_soft_rollback", added.forget)
    try:
        yield
        if not _is_open(savepoint, session):
            raise HandlerMisuse(
                "The handler committed, rolled back or closed tx.session, which would do the same to the work of "
                "others in its batch: leave that to the consumer, and use tx.session.begin_nested() to undo a part."
            )
        # Fails if the handler left the transaction aborted by swallowing an error of the database's.
        await session.execute(text("SELECT 1"))
        await savepoint.commit()
    except BaseException:
        if _is_open(savepoint, session):
            await savepoint.rollback()
        raise
    finally:
        hooks.remove(session.sync_session, "after_soft_rollback", added.forget)


def _is_open(savepoint: AsyncSessionTransaction, session: AsyncSession) -> bool:
    """Also while it is aborted and can only be rolled back, which `is_active` would deny."""
    ours = savepoint.sync_transaction
    return ours is not None and _is_part_of(session.sync_session.get_nested_transaction(), ours)


def _is_part_of(inner: SessionTransaction | None, outer: SessionTransaction) -> bool:
    while inner is not None and inner is not outer:
        inner = inner.parent
    return inner is outer
