"""A session that a handler cannot use to end the transaction it was given.

A commit in the middle would make the work durable without the record that it was done, a rollback would undo more than
the handler's own. So the session refuses both, and so do its connection and SQL text; and because a handler may swallow
the refusal, it is remembered, and the transaction fails when the handler returns. A rollback by SQLAlchemy itself
(after a failed flush) is remembered as well.

`Disposal` closes an engine whose server may have fallen silent: it says goodbye, and does not wait for an answer for
ever.
"""

import asyncio
import re
from typing import Any, NoReturn
from weakref import WeakSet

from sqlalchemy import Connection, Engine, event
from sqlalchemy.event import listen
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import Session, SessionTransaction

from surefoot.database.connection import Connection as DriverConnection
from surefoot.errors import HandlerMisuse

_KEY = "surefoot.guard"
_ENDS_A_TRANSACTION = re.compile(
    r"(?:[\s;]|--[^\n\r]*[\n\r]|/\*.*?\*/)*"
    r"(?P<what>COMMIT|END|ABORT|BEGIN|START\s+TRANSACTION|PREPARE\s+TRANSACTION|ROLLBACK(?!\s+(?:WORK\s+|TRANSACTION\s+)?TO\b))\b",
    re.IGNORECASE | re.DOTALL,
)
_OUTLIVES_IT = re.compile(
    r"(?:[\s;]|--[^\n\r]*[\n\r]|/\*.*?\*/)*"
    r"(?P<what>SET(?!\s+(?:LOCAL|CONSTRAINTS|TRANSACTION)\b)|RESET|DISCARD|DEALLOCATE|LISTEN|UNLISTEN)\b",
    re.IGNORECASE | re.DOTALL,
)
_LEAVES_TRACES = re.compile(r"\b(?:set_config|pg_(?:try_)?advisory_lock(?:_shared)?)\s*\(", re.IGNORECASE)


class Guard:
    """Watches one transaction on one connection."""

    def __init__(self) -> None:
        self.broken: HandlerMisuse | None = None
        self.leaves_traces = False
        """Something was done to the session that a commit does not end: nobody else gets the connection."""
        self.is_over = False
        """The transaction was ended by its owner: whoever still has its session, or its connection, is refused."""

    def refuse(self, what: str) -> NoReturn:
        self.broken = HandlerMisuse(
            f"The handler called {what}, and the transaction is not its own: it has the record of what was done in it, "
            "and in a batch the work of others. Return to have it committed, raise to have it undone, and use "
            "`async with tx.session.begin_nested()` for a part that may fail."
        )
        raise self.broken

    def refuse_setting(self, what: str) -> NoReturn:
        self.broken = HandlerMisuse(
            f"The handler sent {what}, which would outlive its transaction and change how others' handlers work on the "
            "same connection. Use SET LOCAL (it lasts until the end of the transaction), or ALTER ROLE for all of them."
        )
        raise self.broken

    def refuse_if_over(self) -> None:
        if self.is_over:
            raise HandlerMisuse(
                "The transaction is over: its session cannot be used any more. Do the work before the handler returns, "
                "and await it."
            )

    def rolled_back(self) -> None:
        if self.broken is None:
            self.broken = HandlerMisuse(
                "A database error in the handler undid the transaction, and the handler went on as if nothing had "
                "happened. Let the error out, or catch it around `async with tx.session.begin_nested()`."
            )

    def check(self) -> None:
        if self.broken is not None:
            raise self.broken


class GuardedSession(Session):
    guard: Guard
    begun = 0
    """Transactions of the session's own, savepoints aside. There is to be one, and it is to last."""

    def check(self) -> None:
        """Whether its transaction is still the one it began. `session.get_transaction().commit()` over an open
        savepoint cannot be told from the release of the savepoint while it happens; afterwards it can."""
        self.guard.check()
        found = self.get_transaction()
        if self.begun > 1 or (self.begun == 1 and (found is None or not found.is_active)):
            self.guard.refuse("commit() or rollback() on its session's transaction")

    def commit(self) -> None:
        self.guard.refuse("commit() on its session")

    def rollback(self) -> None:
        self.guard.refuse("rollback() on its session")

    def close(self) -> None:
        self.guard.refuse("close() on its session")

    def invalidate(self) -> None:
        self.guard.refuse("invalidate() on its session")

    def reset(self) -> None:
        self.guard.refuse("reset() on its session")

    def connection(self, *args: Any, **kwargs: Any) -> Connection:
        """Whoever goes on below the session finds what was added to it: another event's handler may have added it."""
        if self.autoflush:
            self.flush()
        return super().connection(*args, **kwargs)

    @property
    def has_loaded(self) -> bool:
        return len(self.identity_map) > 0

    def forget_loaded(self) -> None:
        """Write what was changed, and begin with nothing in hand: what one handler has loaded may be out of date for
        the next, or be written over what the next has done by SQL."""
        self.flush()
        self.expunge_all()

    def end(self) -> None:
        """What `close` does, for the owner of the transaction."""
        super().close()


@event.listens_for(GuardedSession, "before_commit")
def _commit_of_its_transaction(session: GuardedSession) -> None:
    """`session.get_transaction().commit()` does not ask the session. A savepoint is the handler's own to release."""
    if session.get_nested_transaction() is None:
        session.guard.refuse("commit() on its session's transaction")


@event.listens_for(GuardedSession, "after_transaction_create")
def _count_transactions(session: GuardedSession, begun: SessionTransaction) -> None:
    if begun.parent is None:
        session.begun += 1


def watch(engine: Engine) -> None:
    """Guard every connection of this engine while a Guard is set on it."""

    @event.listens_for(engine, "commit")
    def _commit(connection: Connection) -> None:
        guard = _guard_of(connection)
        if guard is not None:
            guard.refuse("commit() on its connection")

    @event.listens_for(engine, "rollback")
    def _rollback(connection: Connection) -> None:
        guard = _guard_of(connection)
        if guard is not None:
            guard.rolled_back()

    @event.listens_for(engine, "before_cursor_execute")
    def _text(connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
        guard = _guard_of(connection)
        if guard is None:
            return
        guard.refuse_if_over()
        if ends := _ENDS_A_TRANSACTION.match(statement):
            guard.refuse(ends["what"].upper() + " as SQL")
        if setting := _OUTLIVES_IT.match(statement):
            guard.refuse_setting(setting["what"].upper())
        if _LEAVES_TRACES.search(statement):
            guard.leaves_traces = True


def _guard_of(connection: Connection) -> Guard | None:
    """A connection that SQLAlchemy has given up has nothing left to guard, and raises when it is asked."""
    if connection.invalidated:
        return None
    guard: Guard | None = connection.info.get(_KEY)
    return guard


def set_guard(connection: Connection, guard: Guard) -> None:
    connection.info[_KEY] = guard


def lift_guard(connection: Connection) -> None:
    connection.info.pop(_KEY, None)


class Disposal:
    """Made with the engine: it remembers the connections that the engine opens."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._drivers: WeakSet[DriverConnection] = WeakSet()
        listen(engine.sync_engine, "connect", lambda made, _: self._drivers.add(made.driver_connection))

    async def dispose(self, within_s: float) -> None:
        """Close all connections; after so many seconds, by cutting them."""
        closing = asyncio.create_task(self._engine.dispose())
        await asyncio.wait([closing], timeout=within_s)
        if not closing.done():
            for driver in list(self._drivers):
                driver.terminate()  # which ends the wait for an answer
        await closing
