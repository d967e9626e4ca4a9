"""The store's connections: how one is had, what it means that none can be had, and how it is given back.

SQLAlchemy keeps them, because handlers want its sessions; but it is told to leave transactions alone (AUTOCOMMIT). We
begin and end them with the driver's own messages, which is fewer of them: and a flush that fails does not take the
claim along with the handler's work.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoneFree
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from surefoot.consumer.failures import causes, sqlstate_of
from surefoot.database.connection import (
    CONNECT_TIMEOUT_S,
    DRIVER_ERRORS,
    Connection,
    explain,
    is_database_error,
    is_outage,
    shown_url,
    sqlalchemy_url,
)
from surefoot.database.disposal import Disposal
from surefoot.database.guard import watch
from surefoot.idempotency.values import StoreAway

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
        self._engine = create_async_engine(
            sqlalchemy_url(url),
            isolation_level="AUTOCOMMIT",
            pool_size=size,
            max_overflow=0,
            pool_timeout=PATIENT_S,
            pool_use_lifo=True,
            connect_args={
                "server_settings": {
                    "application_name": name[:63],
                    "lock_timeout": milliseconds,
                    "statement_timeout": milliseconds,
                    # Whoever is frozen in a transaction keeps its key from all others for so long.
                    "idle_in_transaction_session_timeout": milliseconds,
                },
                "timeout": CONNECT_TIMEOUT_S,
                "command_timeout": longest.total_seconds(),
            },
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
