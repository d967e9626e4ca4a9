"""The work of a local route, its claim and its answer are one transaction, whatever the handler does."""

from collections.abc import Awaitable, Callable

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from surefoot.consumer import HandlerMisuse
from surefoot.idempotency.store import Store, Tx
from surefoot.idempotency.values import Answer, Answered, InFlight
from tests.support.event_types import ThingHappened
from tests.support.idempotency.store_requests import CREATED, SETTINGS, asked, begun, found, history_of, row_of

FAILED = Answer(409, (), b"there is one already")


class Base(DeclarativeBase):
    pass


class Effect(Base):
    __tablename__ = "effects"

    n: Mapped[int] = mapped_column(primary_key=True)


async def insert(tx: Tx, n: int) -> None:
    await tx.session.execute(text("INSERT INTO effects VALUES (:n)"), {"n": n})


async def effects(connection: asyncpg.Connection) -> list[int]:
    return [row["n"] for row in await connection.fetch("SELECT n FROM effects ORDER BY n")]


async def test_nothing_is_seen_of_it_before_the_answer_and_without_one_nothing_stays(
    store: Store, connection: asyncpg.Connection
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with await begun(store, asked()) as begins:
            await insert(begins.tx, 1)
            raise ZeroDivisionError
    async with await begun(store, asked()) as begins:
        await insert(begins.tx, 1)
        assert await row_of(connection, asked()) is None
        assert isinstance(await found(store, asked()), InFlight)
        await begins.finish(CREATED, "COMPLETED")
        assert await found(store, asked()) == Answered(CREATED)
    assert await effects(connection) == [1]


async def test_undone_work_leaves_its_answer(store: Store, connection: asyncpg.Connection) -> None:
    async with await begun(store, asked()) as begins:
        await insert(begins.tx, 1)
        begins.tx.session.add(Effect(n=2))
        begins.tx.publish(ThingHappened(thing_id="a", number=1))
        await begins.undo()
        assert isinstance(await found(store, asked()), InFlight)
        await begins.finish(FAILED, "FAILED_TERMINAL")
    assert await effects(connection) == []
    assert await connection.fetchval("SELECT count(*) FROM surefoot.outbox_events") == 0
    assert await found(store, asked()) == Answered(FAILED)
    assert await history_of(connection, asked()) == ["claimed", "stored"]


async def test_a_failure_that_may_be_tried_again_keeps_no_answer(store: Store, connection: asyncpg.Connection) -> None:
    async with await begun(store, asked()) as begins:
        await begins.finish(Answer(503, (("x-why", "busy"),), b"busy"), "FAILED_RETRY")
    row = await row_of(connection, asked())
    assert row is not None
    assert (row["state"], row["status"], row["headers"], row["body"]) == ("FAILED_RETRY", None, None, None)
    assert row["error"] == "The handler answered 503."
    assert await history_of(connection, asked()) == ["claimed", "failed"]


async def test_what_was_published_or_added_to_the_session_leaves_with_the_work(
    store: Store, connection: asyncpg.Connection
) -> None:
    async with await begun(store, asked()) as begins:
        begins.tx.session.add(Effect(n=3))
        event = begins.tx.publish(ThingHappened(thing_id="a", number=1))
        begins.tx.publish(ThingHappened(thing_id="a", number=2), key="b")
        await begins.finish(CREATED, "COMPLETED")
    assert await effects(connection) == [3]
    rows = await connection.fetch("SELECT event_id, key FROM surefoot.outbox_events ORDER BY key")
    assert [row["key"] for row in rows] == ["a", "b"]
    assert str(rows[0]["event_id"]) == event.id


async def fail_in_sql(tx: Tx) -> None:
    await insert(tx, 7)


async def fail_in_a_flush(tx: Tx) -> None:
    tx.session.add(Effect(n=7))
    await tx.session.flush()


@pytest.mark.parametrize("fails", [fail_in_sql, fail_in_a_flush])
async def test_an_error_of_the_database_is_not_swallowed_in_silence_and_can_be_answered(
    store: Store, connection: asyncpg.Connection, fails: Callable[[Tx], Awaitable[None]]
) -> None:
    """COMMIT of an aborted transaction is a rollback without an error."""
    await connection.execute("INSERT INTO effects VALUES (7)")
    async with await begun(store, asked()) as begins:
        await insert(begins.tx, 1)
        with pytest.raises(IntegrityError):
            await fails(begins.tx)
        with pytest.raises(HandlerMisuse, match="went on as if nothing had happened"):
            await begins.finish(CREATED, "COMPLETED")
        await begins.undo()
        await begins.finish(FAILED, "FAILED_TERMINAL")
    assert await effects(connection) == [7]
    assert await found(store, asked()) == Answered(FAILED)


async def test_a_savepoint_of_the_handlers_own_may_fail(store: Store, connection: asyncpg.Connection) -> None:
    await connection.execute("INSERT INTO effects VALUES (7)")
    async with await begun(store, asked()) as begins:
        with pytest.raises(IntegrityError):
            async with begins.tx.session.begin_nested():
                begins.tx.publish(ThingHappened(thing_id="a", number=1))
                await insert(begins.tx, 7)
        await insert(begins.tx, 8)
        await begins.finish(CREATED, "COMPLETED")
    assert await effects(connection) == [7, 8]
    assert await connection.fetchval("SELECT count(*) FROM surefoot.outbox_events") == 0


@pytest.mark.parametrize(
    "misuse",
    [lambda session: session.commit(), lambda session: session.execute(text("COMMIT"))],
    ids=["commit", "COMMIT"],
)
async def test_a_handler_cannot_end_the_transaction_and_cannot_hide_that_it_tried(
    store: Store, connection: asyncpg.Connection, misuse: Callable[[AsyncSession], Awaitable[object]]
) -> None:
    async with await begun(store, asked()) as begins:
        await insert(begins.tx, 1)
        with pytest.raises(HandlerMisuse):
            await misuse(begins.tx.session)
        with pytest.raises(HandlerMisuse, match="the transaction is not its own"):
            await begins.finish(CREATED, "COMPLETED")
    assert await effects(connection) == []
    assert await row_of(connection, asked()) is None


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK", "COMMIT; BEGIN"])
async def test_a_handler_that_ends_it_behind_our_back_is_found_out(store: Store, end: str) -> None:
    async with await begun(store, asked()) as begins:
        await insert(begins.tx, 1)
        raw = await (await begins.tx.session.connection()).get_raw_connection()
        await raw.driver_connection.execute(end)  # type: ignore[union-attr]
        with pytest.raises(HandlerMisuse, match=r"nothing of it was kept|nobody knows what of it stays"):
            await begins.finish(CREATED, "COMPLETED")
    assert await store.look(asked()) is None


async def test_a_savepoint_that_is_left_open_is_a_misuse_and_can_be_undone(
    store: Store, connection: asyncpg.Connection
) -> None:
    async with await begun(store, asked()) as begins:
        await begins.tx.session.begin_nested()
        await insert(begins.tx, 1)
        with pytest.raises(HandlerMisuse, match="left a savepoint open"):
            await begins.finish(CREATED, "COMPLETED")
        await begins.undo()
        await begins.finish(FAILED, "FAILED_TERMINAL")
    assert await effects(connection) == []


async def test_a_session_that_is_used_afterwards_says_so(store: Store) -> None:
    async with await begun(store, asked()) as begins:
        await begins.finish(CREATED, "COMPLETED")
        with pytest.raises(HandlerMisuse, match="The transaction is over"):
            await insert(begins.tx, 1)


async def test_the_connection_is_clean_for_the_next_request(database_url: str, store: Store) -> None:
    """One connection, so that each gets what the one before left."""
    async with Store(database_url, SETTINGS, pool_size=1) as small:
        for number in range(3):
            async with await begun(small, asked(f"released-{number}")) as begins:
                await insert(begins.tx, 1)
        for number in range(3):
            async with await begun(small, asked(f"kept-{number}")) as begins:
                await insert(begins.tx, number)
                await begins.finish(CREATED, "COMPLETED")


async def test_a_setting_that_outlives_the_transaction_ends_the_connection(database_url: str, store: Store) -> None:
    async with Store(database_url, SETTINGS, pool_size=1) as small:
        pid = text("SELECT pg_backend_pid()")
        async with await begun(small, asked("first")) as begins:
            first = (await begins.tx.session.execute(pid)).scalar_one()
            await begins.tx.session.execute(text("SELECT pg_advisory_lock(7)"))
            await begins.finish(CREATED, "COMPLETED")
        async with await begun(small, asked("second")) as begins:
            assert (await begins.tx.session.execute(pid)).scalar_one() != first
