"""Commit, and the event is in the outbox; roll back, also to a savepoint, and it is not. With every kind of session."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from opentelemetry.sdk.trace import TracerProvider
from sqlalchemy import create_engine, text
from sqlalchemy.event import listen
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from surefoot import outbox
from surefoot.database.address import sqlalchemy_url
from surefoot.errors import ConfigurationError, EventTooLarge, FloatMoney, InvalidEvent, UndeclaredEvent
from surefoot.events import Money, new_event
from surefoot.log.port import record_bytes
from surefoot.outbox.entry import entry_of
from surefoot.relay.plan import PendingRow, record_of
from tests.support.event_types import NeverDeclared, ThingHappened, ThingPaid
from tests.support.waiting import eventually


class Base(DeclarativeBase):
    pass


class Stock(Base):
    __tablename__ = "stock"
    id: Mapped[str] = mapped_column(primary_key=True)
    pieces: Mapped[int]


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(sqlalchemy_url(database_url))
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE things (id text PRIMARY KEY)"))
    yield engine
    await engine.dispose()


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def notes(connection: asyncpg.Connection) -> list[str]:
    """The notes of the events in the outbox, in position order."""
    rows = await connection.fetch("SELECT payload ->> 'note' AS note FROM surefoot.outbox ORDER BY position")
    return [row["note"] for row in rows]


def thing(note: str, key: str = "t1") -> ThingHappened:
    return ThingHappened(thing_id=key, note=note)


async def test_a_committed_event_is_in_the_outbox_with_all_that_is_sent(
    engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    async with AsyncSession(engine) as session, session.begin():
        event = outbox.add(session, thing("first"))

    row = await connection.fetchrow("SELECT * FROM surefoot.outbox_events")
    assert row is not None
    assert (row["event_id"], row["topic"], row["event_type"], row["key"], row["status"], row["attempts"]) == (
        UUID(event.id),
        "test.things",
        "thing.happened",
        "t1",
        "PENDING",
        0,
    )
    assert row["body"] == b'{"thing_id":"t1","number":0,"note":"first"}'
    assert '["ce_partitionkey","t1"]' in row["headers"]


async def test_a_rolled_back_event_is_not(engine: AsyncEngine, connection: asyncpg.Connection) -> None:
    async with AsyncSession(engine) as session:
        outbox.add(session, thing("gone"))
        await session.rollback()
        outbox.add(session, thing("kept"))
        await session.commit()
    assert await notes(connection) == ["kept"]


async def test_a_session_closed_without_commit_leaves_nothing_behind(
    engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    session = AsyncSession(engine)
    outbox.add(session, thing("gone"))
    await session.close()
    outbox.add(session, thing("kept"))
    await session.commit()
    await session.close()
    assert await notes(connection) == ["kept"]


async def test_events_of_a_savepoint_go_and_stay_with_it(engine: AsyncEngine, connection: asyncpg.Connection) -> None:
    async with AsyncSession(engine) as session, session.begin():
        outbox.add(session, thing("before"))
        async with session.begin_nested():
            outbox.add(session, thing("kept inside"))
        undone = await session.begin_nested()
        outbox.add(session, thing("undone"))
        async with session.begin_nested():
            outbox.add(session, thing("undone, deeper"))
        await undone.rollback()
        outbox.add(session, thing("after"))
    assert await notes(connection) == ["before", "kept inside", "after"]


async def test_a_savepoint_undone_by_a_database_error_takes_its_event_along(
    engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    async with AsyncSession(engine) as session, session.begin():
        await session.execute(text("INSERT INTO things VALUES ('t1')"))
        with pytest.raises(IntegrityError):
            async with session.begin_nested():
                outbox.add(session, thing("undone"))
                await session.execute(text("INSERT INTO things VALUES ('t1')"))
        outbox.add(session, thing("kept"))
    assert await notes(connection) == ["kept"]


async def test_events_of_one_transaction_keep_the_order_they_were_added_in(
    engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    async with AsyncSession(engine) as session, session.begin():
        for number in range(50):
            outbox.add(session, thing(str(number), key=f"key-{number % 7}"))
    assert await notes(connection) == [str(number) for number in range(50)]


async def test_a_sync_session_works_the_same(database_url: str, connection: asyncpg.Connection) -> None:
    def work() -> None:
        engine = create_engine(sqlalchemy_url(database_url, "psycopg"))
        with Session(engine) as session:
            with session.begin():
                outbox.add(session, thing("kept"))
                nested = session.begin_nested()
                outbox.add(session, thing("undone"))
                nested.rollback()
            outbox.add(session, thing("gone"))
            session.rollback()
        engine.dispose()

    await asyncio.to_thread(work)
    assert await notes(connection) == ["kept"]


async def test_a_bare_connection_works_the_same(connection: asyncpg.Connection) -> None:
    async with outbox.transaction(connection) as tx:
        tx.add(thing("kept"))
        with pytest.raises(ZeroDivisionError):
            async with tx.savepoint():
                tx.add(thing("undone"))
                raise ZeroDivisionError
        async with tx.savepoint():
            tx.add(thing("kept too"))
    with pytest.raises(ZeroDivisionError):
        async with outbox.transaction(connection) as tx:
            tx.add(thing("gone"))
            raise ZeroDivisionError
    assert await notes(connection) == ["kept", "kept too"]


async def test_a_pooled_connection_works_too(database_url: str, connection: asyncpg.Connection) -> None:
    async with asyncpg.create_pool(database_url, min_size=1, max_size=1) as pool, pool.acquire() as pooled:
        async with outbox.transaction(pooled) as tx:
            tx.add(thing("kept"))
    assert await notes(connection) == ["kept"]


async def test_a_savepoint_rolled_back_behind_our_back_commits_nothing(connection: asyncpg.Connection) -> None:
    with pytest.raises(InvalidEvent, match=r"tx\.savepoint\(\)"):
        async with outbox.transaction(connection) as tx:
            with pytest.raises(ZeroDivisionError):
                async with connection.transaction():
                    tx.add(thing("undone"))
                    raise ZeroDivisionError
    assert await notes(connection) == []


BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "an undeclared type": (lambda: NeverDeclared(thing_id="t1"), UndeclaredEvent, "NeverDeclared"),
    "data that does not fit": (
        lambda: ThingHappened.model_construct(thing_id="t1", number="many"),  # type: ignore[arg-type]
        InvalidEvent,
        "number",
    ),
    "money as a float": (
        lambda: ThingPaid.model_construct(thing_id="t1", price={"minor_units": 19.99, "currency": "EUR"}),  # type: ignore[arg-type]
        FloatMoney,
        "float",
    ),
    "a NUL character": (lambda: thing("a\x00b"), InvalidEvent, "NUL"),
    "a NUL in the key": (lambda: thing("x", key="a\x00b"), InvalidEvent, "NUL"),
    "too many bytes": (lambda: thing("x" * 1024 * 1024), EventTooLarge, "1,048,576"),
    "an id that is no UUID": (lambda: new_event(thing("x"), id="order-1"), InvalidEvent, "UUID"),
}


@pytest.mark.parametrize("what", BAD)
async def test_a_bad_event_is_one_clear_error_and_the_transaction_goes_on(
    what: str, engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    make, error, word = BAD[what]
    async with AsyncSession(engine) as session, session.begin():
        await session.execute(text("INSERT INTO things VALUES ('t1')"))
        with pytest.raises(error, match=word):
            outbox.add(session, make())
        outbox.add(session, thing("kept"))
    assert await notes(connection) == ["kept"]
    assert await connection.fetchval("SELECT count(*) FROM things") == 1


async def test_float_money_cannot_even_be_made() -> None:
    with pytest.raises(FloatMoney):
        Money(19.99, "EUR")  # type: ignore[arg-type]
    assert Money(Decimal("19.99"), "EUR").minor_units == 1999


async def test_an_autocommit_session_is_refused(database_url: str) -> None:
    engine = create_async_engine(sqlalchemy_url(database_url), isolation_level="AUTOCOMMIT")
    async with AsyncSession(engine) as session:
        outbox.add(session, thing("x"))
        with pytest.raises(ConfigurationError, match="AUTOCOMMIT"):
            await session.commit()
    await engine.dispose()


async def test_events_of_a_savepoint_still_open_at_the_commit_are_not_lost(
    engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    async with AsyncSession(engine) as session, session.begin():
        outbox.add(session, thing("outside"))
        await session.begin_nested()
        outbox.add(session, thing("inside, never released by hand"))
    assert await notes(connection) == ["outside", "inside, never released by hand"]


async def test_an_event_added_by_a_hook_of_the_flush_or_the_commit_is_not_lost(
    engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    await connection.execute("CREATE TABLE stock (id text PRIMARY KEY, pieces int)")
    async with AsyncSession(engine) as session:

        def on_flush(flushed: Session, *_: object) -> None:
            for row in flushed.new:
                outbox.add(flushed, thing(f"created {row.id}"))

        def on_commit(committed: Session) -> None:
            outbox.add(committed, thing("at the last moment"))

        listen(session.sync_session, "before_flush", on_flush)
        listen(session.sync_session, "before_commit", on_commit)
        session.add(Stock(id="a", pieces=1))
        await session.commit()
    assert sorted(await notes(connection)) == ["at the last moment", "created a"]


async def test_an_event_added_after_the_commit_is_an_error(engine: AsyncEngine, connection: asyncpg.Connection) -> None:
    async with AsyncSession(engine) as session:
        listen(session.sync_session, "after_commit", lambda committed: outbox.add(committed, thing("too late")))
        outbox.add(session, thing("kept"))
        with pytest.raises(ConfigurationError, match="before the commit"):
            await session.commit()
    assert await notes(connection) == ["kept"]


async def test_a_session_that_spans_two_databases_is_refused(
    engine: AsyncEngine, connection: asyncpg.Connection, empty_database_url: str
) -> None:
    other = create_async_engine(sqlalchemy_url(empty_database_url))
    async with other.begin() as setup:
        await setup.run_sync(Base.metadata.create_all)
    async with AsyncSession(engine, binds={Stock: other}) as session:
        session.add(Stock(id="a", pieces=1))
        outbox.add(session, thing("in the first"))
        with pytest.raises(ConfigurationError, match="several databases"):
            await session.commit()
    async with other.connect() as check:
        assert (await check.execute(text("SELECT count(*) FROM stock"))).scalar() == 0
    assert await notes(connection) == []
    await other.dispose()


async def test_scoped_sessions_work_too(engine: AsyncEngine, connection: asyncpg.Connection) -> None:
    scoped = async_scoped_session(async_sessionmaker(engine), scopefunc=asyncio.current_task)
    outbox.add(scoped, thing("kept"))
    await scoped.commit()
    await scoped.remove()
    assert await notes(connection) == ["kept"]


async def test_a_session_inside_somebody_elses_transaction_follows_it(
    engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    for ends_well in (False, True):
        async with engine.connect() as outer:
            transaction = await outer.begin()
            async with AsyncSession(outer, join_transaction_mode="create_savepoint") as session:
                outbox.add(session, thing("kept" if ends_well else "undone"))
                await session.commit()
            await (transaction.commit() if ends_well else transaction.rollback())
    assert await notes(connection) == ["kept"]


async def test_a_session_bound_to_a_connection_is_let_go_of_when_it_is_closed(engine: AsyncEngine) -> None:
    """The session holds the connection: whoever remembers one for the other keeps both for ever."""
    async with engine.connect() as outer:
        async with AsyncSession(outer) as session:
            outbox.add(session, ThingHappened(thing_id="a", number=1))
            await session.commit()
        seen = weakref.ref(session.sync_session)
        del session
    del outer
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize(
    "how", ["ROLLBACK TO SAVEPOINT s", "\n rollback transaction to savepoint s", "/* x */ ROLLBACK"]
)
async def test_a_rollback_by_hand_on_a_bare_connection_publishes_nothing(
    how: str, connection: asyncpg.Connection
) -> None:
    with pytest.raises(InvalidEvent, match="rolled back"):
        async with outbox.transaction(connection) as tx:
            await connection.execute("SAVEPOINT s")
            tx.add(thing("undone"))
            await connection.execute(how)
    assert await notes(connection) == []


async def test_an_event_that_just_fits_by_our_count_fits_the_record_too(engine: AsyncEngine) -> None:
    key = "é" * 2000
    fixed = entry_of(new_event(ThingHappened(thing_id=key, note="")))
    room = 1024 * 1024 - len(fixed.body or b"") - len(fixed.headers.encode()) - len(key.encode())
    entry = entry_of(new_event(ThingHappened(thing_id=key, note="x" * room)))
    row = PendingRow(1, 0, 0, entry.topic, entry.key, entry.body, entry.headers, 0)
    record = record_of(row)
    assert record is not None
    assert record_bytes(record) <= 1024 * 1024
    with pytest.raises(EventTooLarge):
        entry_of(new_event(ThingHappened(thing_id=key, note="x" * (room + 1))))


async def test_the_trace_an_event_is_added_in_travels_with_it(
    engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    tracer = TracerProvider().get_tracer("tests")
    with tracer.start_as_current_span("place order") as span:
        async with AsyncSession(engine) as session, session.begin():
            outbox.add(session, thing("traced"))
    headers = await connection.fetchval("SELECT headers::text FROM surefoot.outbox_events")
    assert f"{span.get_span_context().trace_id:032x}" in headers


async def test_cause_and_correlation_follow_from_the_event_before(engine: AsyncEngine) -> None:
    async with AsyncSession(engine) as session, session.begin():
        first = outbox.add(session, thing("first"))
        second = outbox.add(session, thing("second"), caused_by=first)
    assert (second.causation_id, second.correlation_id) == (first.id, first.correlation_id)


async def test_transactions_with_many_keys_in_any_order_do_not_deadlock(database_url: str) -> None:
    async with asyncpg.create_pool(database_url, min_size=8, max_size=8) as pool:

        async def write(backwards: bool) -> None:
            keys = [f"key-{n}" for n in range(40)]
            for _ in range(15):
                async with pool.acquire() as connection, outbox.transaction(connection) as tx:
                    for key in reversed(keys) if backwards else keys:
                        tx.add(thing("x", key=key))

        await asyncio.gather(*(write(n % 2 == 0) for n in range(8)))
        assert await pool.fetchval("SELECT count(*) FROM surefoot.outbox_events") == 8 * 15 * 40


async def test_the_users_own_rows_are_flushed_before_the_keys_are_locked(
    engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    """One transaction holds a row; another wants it and publishes on the same key. With the locks taken the other way
    round, the second would hold the key while it waits for the row, and the first could not commit: a deadlock."""
    await connection.execute("CREATE TABLE stock (id text PRIMARY KEY, pieces int); INSERT INTO stock VALUES ('s', 9)")
    async with AsyncSession(engine) as first, AsyncSession(engine) as second:
        seen_by_second = await second.get_one(Stock, "s")
        (await first.get_one(Stock, "s")).pieces = 8
        await first.flush()
        outbox.add(first, thing("first", key="same"))
        seen_by_second.pieces = 7
        outbox.add(second, thing("second", key="same"))

        waiting = asyncio.create_task(second.commit())
        await eventually(lambda: _somebody_waits(connection), what="the second transaction waits for the row")
        await first.commit()
        await waiting
    assert await notes(connection) == ["first", "second"]


async def _somebody_waits(connection: asyncpg.Connection) -> bool:
    return bool(await connection.fetchval("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
