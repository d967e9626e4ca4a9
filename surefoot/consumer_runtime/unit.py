"""One transaction of a consumer: opened, given to handlers through a guarded session, ended by its fence.

The last statement before COMMIT stores the partition's next offset under its fence. No row changed means no commit:
another member owns the partition, or the transaction is not the one that was begun. It also turns the silent rollback
of a transaction that a handler left aborted into an error.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import cast

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

from surefoot.consumer.failures import sqlstate_of
from surefoot.consumer_runtime.barriers import Barriers
from surefoot.consumer_runtime.plan import Passed, Reading
from surefoot.consumer_runtime.statements import Statements
from surefoot.database.connection import Connection, ConnectionLost
from surefoot.database.engine import create_engine
from surefoot.database.guard import Disposal, Guard, GuardedSession, lift_guard, set_guard, watch
from surefoot.errors import HandlerMisuse, SurefootError
from surefoot.failpoints import failpoint
from surefoot.log.port import TopicPartition
from surefoot.outbox.entry import Entry
from surefoot.outbox.session import forget, take
from surefoot.outbox.session import statement as outbox_statement

ABORTED = "25P02"
CLOSE_S = 2.0
"""How long a server may take to let us go. One that has fallen silent never answers."""


class FenceLost(SurefootError):
    """The partition has another owner; nothing of the transaction was committed."""


class PartFailed(Exception):
    """A part was rolled back. `culprit` is the record whose handler raised; None if it is not known. `own`: it was not
    a handler at all, but a statement of ours."""

    def __init__(self, error: BaseException, *, culprit: object | None = None, own: bool = False) -> None:
        super().__init__(type(error).__name__)  # its words may be a megabyte, or an error of their own
        self.error = error
        self.culprit = culprit
        self.own = own


@contextmanager
def own() -> Iterator[None]:
    """Around what no handler has a part in: a failure in here is not the events' doing."""
    try:
        yield
    except (HandlerMisuse, PartFailed):
        raise
    except Exception as error:
        # A handler that swallowed an error left the transaction aborted: whoever comes next gets to know.
        raise PartFailed(error, own=sqlstate_of(error) != ABORTED) from error


class Position:
    """Where a member stands in a partition, and by which right."""

    def __init__(self, consumer: str, where: TopicPartition, fence: int) -> None:
        self.consumer = consumer
        self.where = where
        self.fence = fence

    @property
    def place(self) -> tuple[str, str, int]:
        """The parameters most statements begin with."""
        return self.consumer, self.where.topic, self.where.partition


class Unit:
    """An open transaction."""

    def __init__(self, position: Position, connection: AsyncConnection, sql: Statements) -> None:
        self.position = position
        self.sql = sql
        self.guard = Guard()
        self.barriers = Barriers()
        self._connection = connection
        self._session: AsyncSession | None = None
        self._xid = ""
        self._committed = False
        self.driver: Connection

    async def begin(self, keys: Sequence[str], *, alone: bool = False) -> frozenset[str]:
        """Begin; which of these keys have something parked. `alone`: when no other batch of this consumer runs."""
        with own():
            await self._connection.begin()
            # The first statement goes through SQLAlchemy, which sends BEGIN with it; the rest straight to the driver.
            found = await self._connection.exec_driver_sql(
                self.sql.begin, (*self.position.place, lock_name(self.position), list(set(keys)))
            )
            if alone:
                await self._connection.exec_driver_sql(self.sql.take_turn, (self.position.consumer,))
        raw = await self._connection.get_raw_connection()
        self.driver = cast(Connection, raw.driver_connection)
        self._xid, held = cast(tuple[str, list[str]], tuple(found.one()))
        set_guard(self._connection.sync_connection, self.guard)  # type: ignore[arg-type]  # it is open
        return frozenset(held)

    @property
    def session(self) -> AsyncSession:
        if self._session is None:
            self._session = AsyncSession(
                self._connection,
                sync_session_class=GuardedSession,
                expire_on_commit=False,
                join_transaction_mode="rollback_only",
            )
            cast(GuardedSession, self._session.sync_session).guard = self.guard
        return self._session

    async def after_handler(self) -> None:
        """Between two handlers: they share the transaction, and nothing else. (Objects that were only added stay
        where they are, and are written together.)"""
        self.check()
        if self._session is not None and cast(GuardedSession, self._session.sync_session).has_loaded:
            await self._session.run_sync(lambda session: cast(GuardedSession, session).forget_loaded())
            self.check()

    async def after_handlers(self) -> list[Entry]:
        """Write what the handlers left in the session; the events they published."""
        if self._session is None:
            return []
        self.check()
        if self._session.sync_session.get_nested_transaction() is not None:
            raise HandlerMisuse(
                "The handler left a savepoint open, so nobody knows whether its work is meant to stay. Use "
                "`async with tx.session.begin_nested()`, which ends it."
            )
        await self._session.flush()
        self.check()
        return take(self._session)

    async def publish(self, entries: Sequence[Entry]) -> None:
        if entries:
            sql, values = outbox_statement(self.sql.schema, entries)
            with own():
                await self.driver.execute(sql, *values)

    async def commit(self, *, next_offset: int | None, ignored: int = 0) -> None:
        self.check()
        await self.barriers.write(self.driver, self.sql.set_barriers, self.position.consumer)
        fence = self.position.fence
        place = self.position.place
        with own():
            kept = await self.driver.fetchval(self.sql.fence, *place, fence, next_offset, ignored, self._xid)
        if kept is None:
            current = await self.driver.fetchval(self.sql.current_fence, *self.position.place)
            if current == fence:
                raise HandlerMisuse("The handler ended the transaction by means of its own: nothing of it was kept.")
            raise FenceLost(
                f"{self.position.where.topic}/{self.position.where.partition} has a new owner (fence {current}, ours "
                f"was {fence}): nothing of the batch was committed, the new owner does it."
            )
        await failpoint("consumer.fenced")
        self._lift()
        await self._connection.commit()
        self._committed = True

    async def end(self) -> None:
        """Roll back what was not committed."""
        self._lift()
        if self._session is not None:
            try:
                cast(GuardedSession, self._session.sync_session).end()
            finally:
                forget(self._session)  # a savepoint that cannot be rolled back any more keeps it from ending
        if self.guard.leaves_traces and not self._connection.closed:
            await self._connection.invalidate()
            return
        if self._committed or self._connection.closed:
            return
        if self._connection.in_transaction():
            await self._connection.rollback()
        else:
            # SQLAlchemy takes a transaction whose commit was refused for over, though it is open: it would not roll it
            # back, and whoever gets the connection next would commit it (tried). So nobody does.
            await self._connection.invalidate()

    def cut(self) -> None:
        """Let go of a server that does not answer, which ends the wait for it. It rolls back when it notices."""
        if self._xid:
            self.driver.terminate()

    def check(self) -> None:
        """Whether it is still the transaction that was begun, as far as that can be known without asking the database.
        After every handler: what the next one did outside of any transaction would stay."""
        if self._session is None:
            self.guard.check()
        else:
            cast(GuardedSession, self._session.sync_session).check()
        if self.driver.is_closed():
            # Whose doing that was, a probe of the database tells: an outage, or a handler that ended its own backend.
            raise ConnectionLost("The connection was lost while the handler ran.")
        if not self.driver.is_in_transaction():
            raise HandlerMisuse("The transaction was over when the handler returned: nothing of it was kept.")

    def _lift(self) -> None:
        found = self._connection.sync_connection
        if found is not None and not found.closed and not found.invalidated:  # else it raises when it is asked
            lift_guard(found)


class Database:
    """The consumer's own connections: as many as there are partitions worked on at once."""

    def __init__(
        self,
        url: str,
        schema: str,
        *,
        name: str,
        size: int,
        lock_timeout: timedelta,
        handler_timeout: timedelta,
        session_settings: Mapping[str, str] | None = None,
    ) -> None:
        self.url = url
        self.sql = Statements(schema)
        settings = {
            "lock_timeout": _milliseconds(lock_timeout),
            "statement_timeout": _milliseconds(handler_timeout),
            # A backstop only: whoever takes over a partition ends the transaction of the one before (see positions).
            "idle_in_transaction_session_timeout": _milliseconds(handler_timeout + timedelta(seconds=30)),
            **(session_settings or {}),
        }
        self.engine: AsyncEngine = create_engine(
            url,
            name=name,
            settings=settings,
            command_timeout=handler_timeout,
            pool_size=size,
            max_overflow=0,
            pool_timeout=60 * 60,  # a partition waits for its turn as long as it takes
        )
        watch(self.engine.sync_engine)
        self._disposal = Disposal(self.engine)
        self.seats = asyncio.Semaphore(size)
        """First come, first served. Whoever has one finds a connection free, or soon will."""

    @asynccontextmanager
    async def unit(self, position: Position) -> AsyncIterator[Unit]:
        with own():
            connection = await self.engine.connect()
        try:
            unit = Unit(position, connection, self.sql)
            failed_ourselves = False
            try:
                yield unit
            except PartFailed as failed:
                failed_ourselves = failed.own
                raise
            finally:
                await _quietly_end(unit, connection)
                if failed_ourselves:  # after the end of it: SQLAlchemy lets nobody end what it has given up
                    await connection.invalidate()  # it may be to a server that takes no writes any more
        finally:
            await connection.close()

    @asynccontextmanager
    async def driver(self) -> AsyncIterator[Connection]:
        """A plain connection, without a transaction of SQLAlchemy's around what is done with it."""
        async with self.engine.connect() as connection:
            raw = await connection.get_raw_connection()
            try:
                yield cast(Connection, raw.driver_connection)
            except BaseException:
                await connection.invalidate()  # SQLAlchemy has not seen what went wrong, and would use it again
                raise

    async def close(self) -> None:
        await self._disposal.dispose(CLOSE_S)


async def receive(unit: Unit, known: Sequence[Reading]) -> set[tuple[str, str]] | None:
    """Write all of them into the inbox; those it had not seen, or None if it had seen none of them."""
    if not known:
        return None
    identities = [(reading.source, reading.event_id) for reading in known if not isinstance(reading, Passed)]
    sources, event_ids = zip(*identities, strict=True)
    rows = await unit.driver.fetch(unit.sql.receive, unit.position.consumer, list(sources), list(event_ids))
    return None if len(rows) == len(identities) else {(row[0], row[1]) for row in rows}


async def settle(unit: Unit, settled: Sequence[tuple[str, str, str, str | None]]) -> None:
    """Change outcomes in the inbox."""
    if settled:
        columns = [list(column) for column in zip(*settled, strict=True)]
        with own():
            await unit.driver.execute(unit.sql.settle, unit.position.consumer, *columns)


async def _quietly_end(unit: Unit, connection: AsyncConnection) -> None:
    """A connection that broke cannot be rolled back, and need not be. Nor need one whose server has fallen silent."""
    cutting = asyncio.get_running_loop().call_later(CLOSE_S, unit.cut)
    try:
        await unit.end()
    except (DBAPIError, OSError):
        await connection.invalidate()
    finally:
        cutting.cancel()


def lock_name(position: Position) -> str:
    return "surefoot/" + "/".join(str(part) for part in position.place)


def _milliseconds(value: timedelta) -> str:
    return str(int(value.total_seconds() * 1000))
