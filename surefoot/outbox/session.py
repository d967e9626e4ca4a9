"""Events added to a SQLAlchemy session: buffered, and written just before the commit.

Each buffered event belongs to the (nested) transaction it was added in. When a savepoint is rolled back its events go
with it, however it ends; what is left when the outermost transaction commits is written as its last statement.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session, SessionTransaction

from surefoot.errors import ConfigurationError
from surefoot.outbox.entry import Entry
from surefoot.outbox.write import write

_KEY = "surefoot.outbox"


class _Buffered(NamedTuple):
    transaction: SessionTransaction
    schema: str
    entry: Entry


@dataclass(slots=True)
class _Buffer:
    """What a session has in hand."""

    events: list[_Buffered] = field(default_factory=list)
    released: set[SessionTransaction] = field(default_factory=set)
    """Savepoints that were committed: their events belong to what is around them now."""

    def drop(self, undone: SessionTransaction) -> None:
        self.events = [buffered for buffered in self.events if not _is_within(buffered.transaction, undone)]


def buffer(session: AsyncSession | Session, entry: Entry, schema: str) -> None:
    """Keep an entry until the session's transaction commits."""
    sync = session.sync_session if isinstance(session, AsyncSession) else session
    transaction = sync.get_nested_transaction() or sync.get_transaction() or sync.begin()  # as session.add() would
    in_hand = sync.info.get(_KEY)
    if in_hand is None:
        in_hand = sync.info[_KEY] = _Buffer()
    in_hand.events.append(_Buffered(transaction, schema, entry))


@event.listens_for(Session, "before_commit")
def _write_before_commit(session: Session) -> None:
    in_hand: _Buffer | None = session.info.get(_KEY)
    if in_hand is None:
        return
    savepoint = session.get_nested_transaction()
    if savepoint is not None:
        in_hand.released.add(savepoint)
        return
    # The user's own rows first: taking the key locks before row locks, while others take them after, would deadlock.
    session.flush()
    del session.info[_KEY]
    if not in_hand.events:
        return
    connection = session.connection()
    _refuse_autocommit(connection)
    for schema in dict.fromkeys(buffered.schema for buffered in in_hand.events):
        entries = [buffered.entry for buffered in in_hand.events if buffered.schema == schema]
        write(connection, schema, entries)


@event.listens_for(Session, "after_soft_rollback")
def _forget_what_was_rolled_back(session: Session, undone: SessionTransaction) -> None:
    in_hand: _Buffer | None = session.info.get(_KEY)
    if in_hand is not None:
        in_hand.drop(undone)


@event.listens_for(Session, "after_transaction_end")
def _forget_what_was_closed(session: Session, ended: SessionTransaction) -> None:
    """Closing a transaction without committing it rolls it back, but tells nobody that it did."""
    in_hand: _Buffer | None = session.info.get(_KEY)
    if in_hand is not None and ended not in in_hand.released:
        in_hand.drop(ended)


def _refuse_autocommit(connection: Connection) -> None:
    level = connection.get_execution_options().get("isolation_level")
    if level is None:  # set on the engine: SQLAlchemy keeps it where only it looks
        level = getattr(connection.dialect, "_on_connect_isolation_level", None)
    if level == "AUTOCOMMIT":
        raise ConfigurationError(
            "The session's connection is in AUTOCOMMIT: there is no transaction for the event to be part of. "
            "Use a session with ordinary transactions for work that publishes events."
        )


def _is_within(transaction: SessionTransaction | None, outer: SessionTransaction) -> bool:
    while transaction is not None:
        if transaction is outer:
            return True
        transaction = transaction.parent
    return False
