"""asyncpg, typed. The one module that imports it: everything else uses the protocols below.

Hot paths (relay, log) talk to Postgres through this; users' own sessions and everyday queries go through SQLAlchemy.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, Protocol, cast

import asyncpg

from surefoot.database.address import read_address, shown_url
from surefoot.errors import ConfigurationError, DatabaseRefused, DatabaseUnavailable, SchemaOutdated

CONNECT_TIMEOUT_S = 10.0
TRANSACTION_TIMEOUT_SINCE = 17
OUTAGE_CLASSES = ("08", "40", "53", "57", "58")
"""SQLSTATE classes: connection, transaction rollback (deadlock), resources, operator intervention, system."""
OUTAGE_STATES = ("25P03", "25P04", "55P03")
"""Idle in transaction for too long, transaction for too long, lock not available."""
# asyncpg on uvloop answers with an InternalClientError when the server ended the session while we were not looking
# (tried).
DRIVER_ERRORS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
PREPARED_ELSEWHERE = (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError)
"""What a statement meets on a backend where another client prepared it, or where it was never prepared."""
ConnectionLost: type[Exception] = asyncpg.InterfaceError
"""What the driver raises when it is asked to use a connection that is gone."""


class Row(Protocol):
    """One row: by column name or by position, whichever reads better."""

    def __getitem__(self, key: str | int) -> Any: ...

    def __len__(self) -> int: ...


class Statement(Protocol):
    async def fetch(self, *arguments: object) -> list[Row]: ...


class Connection(Protocol):
    async def execute(self, query: str, *arguments: object) -> str: ...

    async def executemany(self, query: str, arguments: Sequence[Sequence[object]]) -> None: ...

    async def fetch(self, query: str, *arguments: object) -> list[Row]: ...

    async def fetchrow(self, query: str, *arguments: object) -> Row | None: ...

    async def fetchval(self, query: str, *arguments: object) -> Any: ...

    async def prepare(self, query: str) -> Statement:
        """Use `prepared` below, which does not leave the server waiting in a transaction."""

    async def copy_records_to_table(
        self, table_name: str, *, records: Sequence[Sequence[object]], columns: Sequence[str], schema_name: str
    ) -> str: ...

    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...

    def add_query_logger(self, callback: Callable[..., None]) -> None: ...

    def remove_query_logger(self, callback: Callable[..., None]) -> None: ...

    def transaction(self) -> AbstractAsyncContextManager[object]: ...

    def is_in_transaction(self) -> bool: ...

    def is_closed(self) -> bool: ...

    async def close(self, *, timeout: float | None = None) -> None: ...

    def terminate(self) -> None: ...


class Pool(Protocol):
    def acquire(self) -> AbstractAsyncContextManager[Connection]: ...

    async def close(self) -> None: ...


async def connect(
    url: str,
    *,
    name: str,
    lock_timeout: timedelta | None = None,
    transaction_timeout: timedelta | None = None,
    idle_transaction_timeout: timedelta | None = None,
    command_timeout: timedelta | None = None,
    settings: Mapping[str, str] | None = None,
) -> Connection:
    """One connection. `name` shows up in pg_stat_activity.

    `command_timeout` ends the wait for a server that went silent (a dropped route, a host without power): without it
    a statement waits for ever. It shows as a TimeoutError.

    The two timeouts keep a frozen process from holding its locks against whoever takes over from it: a transaction that
    is left alone for `transaction_timeout` is ended by the server. Before PostgreSQL 17 the server does not notice one
    whose client froze in the middle of a message (while a statement is being prepared, or rows are being copied).
    `idle_transaction_timeout` alone leaves a transaction that works all the time it needs."""
    wanted = {**(settings or {}), **_idle_limit(idle_transaction_timeout or transaction_timeout)}
    if lock_timeout is not None:
        wanted["lock_timeout"] = _milliseconds(lock_timeout)
    if transaction_timeout is not None:
        wanted["transaction_timeout"] = _milliseconds(transaction_timeout)
    try:
        return await open_driver(url, name=name, settings=wanted, command_timeout=command_timeout)
    except DRIVER_ERRORS as error:
        raise _unavailable(url, error) from error


async def open_driver(
    url: str, *, name: str, settings: Mapping[str, str] | None = None, command_timeout: timedelta | None = None
) -> Connection:
    """One connection, with errors as the driver raises them.

    The settings are made by a statement, and not in the packet that opens the connection: a pooler refuses those that
    it does not know."""
    address = read_address(url)
    try:
        connection = await asyncpg.connect(
            address.dsn,
            timeout=address.connect_timeout_s or CONNECT_TIMEOUT_S,
            command_timeout=None if command_timeout is None else command_timeout.total_seconds(),
            server_settings={"application_name": address.application(name)},
        )
    except asyncpg.ClientConfigurationError as error:
        raise ConfigurationError(f"The database URL {address.shown} cannot be used: {error}.") from error
    await _set(cast(Connection, connection), settings or {})
    return cast(Connection, connection)


async def _set(connection: Connection, settings: Mapping[str, str]) -> None:
    """Those that this server knows, for the whole session."""
    major = cast(asyncpg.Connection, connection).get_server_version().major
    known = {k: v for k, v in settings.items() if k != "transaction_timeout" or major >= TRANSACTION_TIMEOUT_SINCE}
    if known:
        calls = ", ".join(f"set_config(${2 * n + 1}, ${2 * n + 2}, false)" for n in range(len(known)))
        await connection.fetchrow(f"SELECT {calls}", *(part for pair in known.items() for part in pair))


def _idle_limit(limit: timedelta | None) -> dict[str, str]:
    return {} if limit is None else {"idle_in_transaction_session_timeout": _milliseconds(limit)}


async def create_pool(url: str, *, name: str, size: int, idle_transaction_timeout: timedelta | None = None) -> Pool:
    """A pool of connections.

    `idle_transaction_timeout`: the server ends a transaction that is left alone for so long. Unlike the
    `transaction_timeout` of `connect`, it does not limit a transaction that works."""
    address = read_address(url)
    settings = _idle_limit(idle_transaction_timeout)
    try:
        pool = await asyncpg.create_pool(
            address.dsn,
            min_size=1,
            max_size=size,
            timeout=address.connect_timeout_s or CONNECT_TIMEOUT_S,
            server_settings={"application_name": address.application(name)},
            setup=lambda connection: _set(connection, settings),
        )
    except asyncpg.ClientConfigurationError as error:
        raise ConfigurationError(f"The database URL {address.shown} cannot be used: {error}.") from error
    except DRIVER_ERRORS as error:
        raise _unavailable(url, error) from error
    return cast(Pool, pool)


async def prepared(connection: Connection, *queries: str) -> list[Statement]:
    """Prepare statements outside of any transaction.

    asyncpg prepares without a Sync, which leaves the server in an implicit transaction until the next statement: it
    would run into `transaction_timeout` (tried). So a statement follows at once."""
    statements = [await connection.prepare(query) for query in queries]
    await connection.execute("SELECT 1")
    return statements


async def close_quietly(connection: Connection) -> None:
    """Close a connection that may be broken already."""
    try:
        await connection.close(timeout=2)
    except DRIVER_ERRORS:
        connection.terminate()


def is_database_error(error: BaseException) -> bool:
    """Whether this came from Postgres or the way to it (asyncpg's own errors, a broken socket, a timeout)."""
    return isinstance(error, (*DRIVER_ERRORS, DatabaseUnavailable))


def is_outage(error: BaseException) -> bool:
    """Whether waiting can mend it: the server is away, ending, out of resources, or somebody holds a lock.

    A missing right, a missing column or bad data will be there after any wait, and is not an outage."""
    if isinstance(error, asyncpg.PostgresError) and not isinstance(error, asyncpg.PostgresConnectionError):
        state = str(getattr(error, "sqlstate", "") or "")
        return state[:2] in OUTAGE_CLASSES or state in OUTAGE_STATES
    return is_database_error(error)


def is_missing_table(error: BaseException) -> bool:
    return isinstance(
        error, asyncpg.UndefinedTableError | asyncpg.UndefinedFunctionError | asyncpg.InvalidSchemaNameError
    )


def explain(error: BaseException, url: str) -> Exception:
    """A database error as one of ours, with a sentence."""
    if is_missing_table(error):
        return SchemaOutdated(
            f"The database at {shown_url(url)} has no Surefoot tables ({error}). Run: surefoot migrate --database …"
        )
    if is_database_error(error) and not is_outage(error):
        return DatabaseRefused(
            f"The database at {shown_url(url)} refuses what Surefoot does there: {error}. Look at the rights of its "
            "user, and whether somebody changed Surefoot's tables."
        )
    return _unavailable(url, error)


def _unavailable(url: str, error: BaseException) -> DatabaseUnavailable:
    said = str(error).strip() or type(error).__name__
    return DatabaseUnavailable(
        f"The database at {shown_url(url)} does not answer: {said}. Is it running, is the URL right?"
    )


def _milliseconds(value: timedelta) -> str:
    return str(max(1, int(value.total_seconds() * 1000)))
