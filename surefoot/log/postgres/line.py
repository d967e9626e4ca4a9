"""One connection of the Postgres log: opened when needed, opened again after a failure, used by one task at a time.

Every failure of the database comes out of it as LogUnavailable (or SchemaOutdated, if the tables are missing): for
whoever uses the log, a database that is down is a log that is down.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from surefoot.database.connection import (
    Connection,
    close_quietly,
    connect,
    explain,
    is_database_error,
    is_missing_table,
)
from surefoot.errors import DatabaseUnavailable, LeaseLost, LogUnavailable
from surefoot.log.postgres.records import RecordsGone

# A frozen process must not keep its locks: the server ends its transaction, and whoever waits for a lock outlasts that.
TRANSACTION_TIMEOUT = timedelta(seconds=5)
LOCK_TIMEOUT = timedelta(seconds=10)
ANSWER_TIMEOUT = timedelta(seconds=15)


class Line:
    def __init__(self, url: str, *, name: str, opened: Callable[[Connection], Awaitable[None]] | None = None) -> None:
        self._url = url
        self._name = name
        self._opened = opened
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self._closed = False

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Connection]:
        async with self._turn:
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT.total_seconds()):
                    yield await self._open()
            except (LeaseLost, RecordsGone):
                raise  # an answer, not a failure
            except BaseException as error:
                # Nobody knows what the connection is in the middle of: the next use gets a new one.
                self._drop()
                if isinstance(error, Exception) and is_database_error(error):
                    raise log_unavailable(error, self._url) from error
                raise

    async def close(self) -> None:
        self._closed = True
        async with self._turn:
            connection, self._connection = self._connection, None
            if connection is not None:
                await close_quietly(connection)

    async def _open(self) -> Connection:
        if self._closed:
            raise LogUnavailable("This part of the event log was closed; open another one.")
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect(
                self._url,
                name=self._name,
                lock_timeout=LOCK_TIMEOUT,
                transaction_timeout=TRANSACTION_TIMEOUT,
            )
            if self._opened is not None:
                await self._opened(self._connection)
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


def log_unavailable(error: BaseException, url: str) -> Exception:
    explained = error if isinstance(error, DatabaseUnavailable) else explain(error, url)
    if is_missing_table(error):
        return explained
    return LogUnavailable(f"The event log cannot be used, because it lies in the database. {explained}")
