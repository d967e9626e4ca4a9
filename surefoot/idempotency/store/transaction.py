"""The connections of the store, and one transaction on one of them, with a session for the handler in it.

SQLAlchemy keeps the connections, because handlers want its sessions; but it is told to leave transactions alone
(AUTOCOMMIT). We begin and end them with the driver's own messages, which is fewer of them: and a flush that fails does
not take the claim along with the handler's work. The session is guarded: only the store ends the transaction, and what
a handler did to end it is an error when it is to be committed. Events that the handler published are written last.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoneFree
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from surefoot.consumer.failures import causes, sqlstate_of
from surefoot.database.address import shown_url
from surefoot.database.connection import (
    DRIVER_ERRORS,
    Connection,
    ConnectionLost,
    Row,
    explain,
    is_database_error,
    is_outage,
)
from surefoot.database.engine import create_engine
from surefoot.database.guard import Disposal, Guard, GuardedSession, lift_guard, set_guard, watch
from surefoot.errors import HandlerMisuse
from surefoot.events import Event, EventData
from surefoot.idempotency.store.statements import OURS, WORK
from surefoot.idempotency.values import FenceLost, StoreAway
from surefoot.outbox import Outbox
from surefoot.outbox.session import forget, take
from surefoot.outbox.session import statement as outbox_statement

WAIT_S = 5.0
"""How long a request waits for a connection before it is told that there is none."""
PATIENT_S = 10.0
"""And what has been claimed already: its work is done, and is to be kept."""
ANSWER_S = 10.0
"""How long the server may take for a statement of ours."""
CLOSE_S = 2.0
RESERVED = 4
"""Connections that requests which have yet to be claimed leave to those which have."""
READ_ONLY = "25006"
"""Another server has taken over from this one, and it takes no writes."""
NOT_AS_MIGRATED = "42"
"""A table, a column or a right is missing."""
ABORTED = "25P02"
T = TypeVar("T", bound=EventData)


@dataclass(slots=True)
class Held:
    """A connection in use, and the driver's own under it."""

    connection: AsyncConnection
    driver: Connection
    seats: asyncio.Semaphore | None

    async def give_back(self) -> None:
        try:
            await self.connection.close()
        finally:
            if self.seats is not None:
                self.seats.release()
                self.seats = None


class Connections:
    def __init__(self, url: str, *, name: str, size: int, longest: timedelta, wait_s: float) -> None:
        self.url = url
        self.wait_s = wait_s
        milliseconds = str(int(longest.total_seconds() * 1000))
        self._engine = create_engine(
            url,
            name=name,
            settings={
                "lock_timeout": milliseconds,
                "statement_timeout": milliseconds,
                # Whoever is frozen in a transaction keeps its key from all others for so long.
                "idle_in_transaction_session_timeout": milliseconds,
            },
            command_timeout=longest,
            isolation_level="AUTOCOMMIT",
            pool_size=size,
            max_overflow=0,
            pool_timeout=PATIENT_S,
            pool_use_lifo=True,
        )
        watch(self._engine.sync_engine)
        self._disposal = Disposal(self._engine)
        self._seats = asyncio.Semaphore(max(1, size - RESERVED))
        self._ending: set[asyncio.Task[None]] = set()

    async def take(self, *, is_new: bool = False) -> Held:
        """A connection, for whoever gives it back. New requests leave some of them to those that have a claim."""
        with self.answering():
            if is_new:
                await self._sit()
            try:
                connection = await self._engine.connect()
            except BaseException:
                if is_new:
                    self._seats.release()
                raise
            held = Held(connection, _driver(connection), self._seats if is_new else None)
            try:
                while held.driver.is_closed():  # the server has ended it while nobody looked
                    await connection.invalidate()
                    await connection.get_raw_connection()
                    held.driver = _driver(connection)
            except BaseException:
                await held.give_back()
                raise
            return held

    @asynccontextmanager
    async def driver(self, timeout_s: float | None = ANSWER_S) -> AsyncIterator[Connection]:
        """A plain connection. A single statement is a transaction of its own."""
        held = await self.take()
        try:
            with self.answering():
                async with asyncio.timeout(timeout_s):
                    yield held.driver
        except BaseException:
            await held.connection.invalidate()  # SQLAlchemy has not seen what went wrong, and would use it again
            raise
        finally:
            await held.give_back()

    async def _sit(self) -> None:
        try:
            async with asyncio.timeout(self.wait_s):
                await self._seats.acquire()
        except TimeoutError:
            raise StoreAway(
                f"No connection to {shown_url(self.url)} became free within {self.wait_s:g} s: requests come faster "
                "than they are answered. Raise the store's pool_size, or look for handlers that take long."
            ) from None

    def later(self, ending: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do it whatever becomes of whoever asks."""
        task = asyncio.get_running_loop().create_task(ending)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Around statements of ours: a server that is away is named so, a missing table has its sentence."""
        try:
            yield
        except NoneFree:
            raise StoreAway(
                f"No connection to {shown_url(self.url)} became free within {PATIENT_S:g} s. Raise the pool_size."
            ) from None
        except (*DRIVER_ERRORS, DBAPIError) as error:
            found = _translated(error, self.url)
            if found is None:
                raise
            raise found from error

    async def close(self) -> None:
        if self._ending:
            await asyncio.wait(self._ending, timeout=CLOSE_S)
        await self._disposal.dispose(CLOSE_S)


def _driver(connection: AsyncConnection) -> Connection:
    held = connection.sync_connection
    assert held is not None  # it is open
    return cast(Connection, held.connection.driver_connection)


def _translated(error: Exception, url: str) -> Exception | None:
    """What our own statements met; None where it is as good as it is."""
    own = next((cause for cause in causes(error) if is_database_error(cause)), None)
    if own is None:
        return None
    if is_outage(own) or sqlstate_of(own) == READ_ONLY:
        said = str(own).strip() or type(own).__name__
        return StoreAway(f"The database at {shown_url(url)} that keeps the idempotency keys does not answer: {said}.")
    return explain(own, url) if sqlstate_of(own).startswith(NOT_AS_MIGRATED) else None


class ConnectionWasClosed(StoreAway):
    """The server had ended the connection, and it took a statement to notice. Another one may be had."""


class OpenTransaction:
    """Open until `commit` or `end`. Made by `opened`."""

    def __init__(self, connections: Connections, held: Held, outbox: Outbox) -> None:
        self._connections = connections
        self._held = held
        self._connection = held.connection
        self._driver = held.driver
        self._outbox = outbox
        self._guard = Guard()
        self._session: AsyncSession | None = None
        self._is_over = False

    # -- for the handler ----------------------------------------------------------------------------------------------

    @property
    def session(self) -> AsyncSession:
        if self._session is None:
            held = self._connection.sync_connection
            if self._is_over or held is None or held.closed:
                raise HandlerMisuse(
                    "The transaction is over: its session cannot be used any more. Do the work before the handler (or "
                    "its phase) returns, and await it."
                )
            if not held.in_transaction():
                held.begin()  # for SQLAlchemy alone: the server has begun long ago
            set_guard(held, self._guard)
            self._session = AsyncSession(
                self._connection,
                sync_session_class=GuardedSession,
                expire_on_commit=False,
                join_transaction_mode="rollback_only",
            )
            cast(GuardedSession, self._session.sync_session).guard = self._guard
        return self._session

    def publish(self, data: T, *, key: str | None) -> Event[T]:
        return self._outbox.add(self.session, data, key=key)

    # -- for the store ------------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self._driver.is_closed()

    async def execute(self, statement: str) -> None:
        self._refuse_if_over()
        with self._connections.answering(), _not_aborted():
            async with asyncio.timeout(ANSWER_S):
                await self._driver.execute(statement)

    async def fetchrow(self, statement: str, *values: object) -> Row | None:
        self._refuse_if_over()
        with self._connections.answering(), _not_aborted():
            async with asyncio.timeout(ANSWER_S):
                return await self._driver.fetchrow(statement, *values)

    async def write_work(self) -> None:
        """Write what the handler left in its session, and the events it published."""
        if self._session is None:
            return
        self._check()
        if self._session.sync_session.get_nested_transaction() is not None:
            raise HandlerMisuse(
                "The handler left a savepoint open, so nobody knows whether its work is meant to stay. Use "
                "`async with tx.session.begin_nested()`, which ends it."
            )
        await self._session.flush()
        self._check()
        entries = take(self._session)
        if entries:
            sql, values = outbox_statement(self._outbox.schema, entries)
            await self.fetchrow(sql, *values)

    async def undo_work(self) -> None:
        """Back to the savepoint: what the handler did and published is gone, also if it left the transaction aborted.
        The lock on the key stays, and the transaction too."""
        await self._end_session()
        self._lift()
        self._guard = Guard()
        if not self._driver.is_closed() and not self._driver.is_in_transaction():
            raise HandlerMisuse("The handler ended the transaction by means of its own: nobody knows what of it stays.")
        await self.execute(f"ROLLBACK TO SAVEPOINT {WORK}")

    async def why_not(self, lost: FenceLost) -> Exception:
        """Why the last statement changed nothing: the fence has risen, or it is not the transaction it was."""
        row = await self.fetchrow(f"SELECT {OURS}")
        if row is not None and row[0]:
            return lost
        return HandlerMisuse("The handler ended the transaction by means of its own: nobody knows what of it stays.")

    async def commit(self) -> None:
        """After a last statement of the store's, which fails in an aborted transaction, where this would not."""
        self._guard.is_over = True  # what a task of the handler's did after it would be committed by itself
        await self.execute("COMMIT")
        self.end_later()

    async def end(self) -> None:
        """Roll back what was not committed, and give the connection back. A second time nothing happens.

        Whoever waits for this may be cancelled, and it is done all the same."""
        if not self._is_over:
            self._is_over = True
            await asyncio.shield(self._connections.later(self._ended()))

    def end_later(self) -> None:
        """The same, without waiting for it."""
        if not self._is_over:
            self._is_over = True
            self._connections.later(self._ended())

    def _refuse_if_over(self) -> None:
        """Somebody else may have the connection by now: a statement would be part of their transaction."""
        if self._is_over:
            raise HandlerMisuse("The transaction is over: what was to be done in it was not.")

    def _check(self) -> None:
        """Whether it is still the transaction that was begun, as far as that can be known without asking."""
        if self._session is None:
            self._guard.check()
        else:
            cast(GuardedSession, self._session.sync_session).check()
        if self._driver.is_closed():
            with self._connections.answering():
                raise ConnectionLost("the connection was lost while the handler ran")
        if not self._driver.is_in_transaction():
            raise HandlerMisuse("The transaction was over when the handler returned: nothing of it was kept.")

    async def _ended(self) -> None:
        cutting = asyncio.get_running_loop().call_later(CLOSE_S, self._driver.terminate)
        self._guard.is_over = True
        try:
            await self._end_session()
            if not self._driver.is_closed() and self._driver.is_in_transaction():
                await self._driver.execute("ROLLBACK")
            if self._guard.leaves_traces:
                await self._connection.invalidate()
        except Exception:  # it cannot be rolled back, and need not be; or a task of the handler's still uses it
            self._driver.terminate()
            await self._connection.invalidate()
        finally:
            cutting.cancel()
            self._lift()
            await self._held.give_back()

    async def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        try:
            if session.sync_session.get_nested_transaction() is None:
                cast(GuardedSession, session.sync_session).end()
            else:  # which is rolled back by a statement
                self._lift()
                await session.run_sync(lambda sync: cast(GuardedSession, sync).end())
        except (*DRIVER_ERRORS, DBAPIError):
            if self._driver.is_closed():
                raise
        finally:
            forget(session)

    def _lift(self) -> None:
        held = self._connection.sync_connection
        if held is not None and not held.closed and not held.invalidated:
            lift_guard(held)


@contextmanager
def _not_aborted() -> Iterator[None]:
    """A statement of ours that fails only because one of the handler's has failed before."""
    try:
        yield
    except DRIVER_ERRORS as error:
        if sqlstate_of(error) != ABORTED:
            raise
        raise HandlerMisuse(
            "A database error in the handler undid the transaction, and the handler went on as if nothing had "
            "happened. Let the error out, or catch it around `async with tx.session.begin_nested()`."
        ) from error


async def opened(connections: Connections, outbox: Outbox, beginning: str, *, is_new: bool = False) -> OpenTransaction:
    """Begin a transaction with these statements. `is_new`: for a request that has no claim yet."""
    try:
        return await _opened(connections, outbox, beginning, is_new)
    except ConnectionWasClosed:
        return await _opened(connections, outbox, beginning, is_new)


async def _opened(connections: Connections, outbox: Outbox, beginning: str, is_new: bool) -> OpenTransaction:
    transaction = OpenTransaction(connections, await connections.take(is_new=is_new), outbox)
    try:
        await transaction.execute(beginning)
    except BaseException as error:
        await transaction.end()
        if isinstance(error, StoreAway) and transaction.is_closed:
            raise ConnectionWasClosed(str(error)) from error
        raise
    return transaction


@dataclass(frozen=True, slots=True)
class Tx:
    """What a handler gets: `tx.session` is an ordinary SQLAlchemy session, except that it refuses commit, rollback and
    close. Savepoints (`async with tx.session.begin_nested()`) are the handler's own."""

    _opened: OpenTransaction

    @property
    def session(self) -> AsyncSession:
        return self._opened.session

    def publish(self, data: T, *, key: str | None = None) -> Event[T]:
        """Publish an event when, and only when, this transaction commits."""
        return self._opened.publish(data, key=key)
