"""Savepoints that the session, or we ourselves, know nothing of: the events of undone work go with it."""

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from surefoot import outbox
from surefoot.database.address import sqlalchemy_url
from surefoot.errors import InvalidEvent
from tests.support.event_types import ThingHappened


class Undone(Exception):
    pass


async def numbers(url: str) -> tuple[list[int], list[int]]:
    """What is in the table `work`, and what is in the outbox."""
    connection = await asyncpg.connect(url)
    try:
        work = await connection.fetch("SELECT n FROM work ORDER BY n")
        told = await connection.fetch("SELECT (payload ->> 'number')::int FROM surefoot.outbox ORDER BY position")
        return [row[0] for row in work], [row[0] for row in told]
    finally:
        await connection.close()


def happened(number: int) -> ThingHappened:
    return ThingHappened(thing_id="a", number=number)


async def test_a_savepoint_of_the_connection_takes_its_events_along(database_url: str) -> None:
    engine = create_async_engine(sqlalchemy_url(database_url))
    async with AsyncSession(engine) as session, session.begin():
        connection = await session.connection()
        await connection.execute(text("CREATE TABLE work (n int)"))
        outbox.add(session, happened(1))
        await connection.execute(text("INSERT INTO work VALUES (1)"))
        with pytest.raises(Undone):
            async with connection.begin_nested():
                await connection.execute(text("INSERT INTO work VALUES (2)"))
                outbox.add(session, happened(2))
                raise Undone
        async with connection.begin_nested():
            await connection.execute(text("INSERT INTO work VALUES (3)"))
            outbox.add(session, happened(3))
    await engine.dispose()
    assert await numbers(database_url) == ([1, 3], [1, 3])


async def test_a_session_that_joined_within_a_savepoint_of_its_connection_goes_with_it(database_url: str) -> None:
    engine = create_async_engine(sqlalchemy_url(database_url))
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE work (n int)"))
        savepoint = await connection.begin_nested()
        session = AsyncSession(connection, join_transaction_mode="rollback_only")
        await session.execute(text("INSERT INTO work VALUES (1)"))
        outbox.add(session, happened(1))
        await savepoint.rollback()
        await session.execute(text("INSERT INTO work VALUES (2)"))
        outbox.add(session, happened(2))
        await session.commit()
    await session.close()
    await engine.dispose()
    assert await numbers(database_url) == ([2], [2])


async def test_a_savepoint_that_could_not_begin_hides_no_other_rollback(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute("CREATE TABLE work (n int)")
    with pytest.raises(InvalidEvent, match="rolled back inside"):
        async with outbox.transaction(connection) as tx:
            with pytest.raises(asyncpg.PostgresError):
                async with connection.transaction():
                    await connection.execute("INSERT INTO work VALUES (1)")
                    tx.add(happened(1))
                    with pytest.raises(asyncpg.DivisionByZeroError):
                        await connection.execute("SELECT 1 / 0")
                    async with tx.savepoint():
                        raise AssertionError("the transaction is aborted")
    await connection.close()
    assert await numbers(database_url) == ([], [])
