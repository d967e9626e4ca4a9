"""Behind a PgBouncer in session mode everything works; in transaction mode a process that needs sessions says so."""

from collections.abc import Iterator

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from surefoot import outbox
from surefoot.database.address import sqlalchemy_url
from surefoot.database.connection import connect
from surefoot.database.pooler import shares_sessions
from surefoot.errors import DatabaseUnavailable
from surefoot.log.postgres.log import PostgresLog
from tests.support.command_line import assert_says, surefoot
from tests.support.event_types import ThingHappened, things_on
from tests.support.pgbouncer import pgbouncer
from tests.support.relay.processes import read_all, relay_running, spec, statuses
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.fixture
def session_pool(database_url: str) -> Iterator[str]:
    with pgbouncer(database_url, "session") as url:
        yield url


@pytest.fixture
def transaction_pool(database_url: str) -> Iterator[str]:
    with pgbouncer(database_url, "transaction") as url:
        yield url


async def test_a_server_and_a_pool_of_sessions_share_none_and_a_pool_of_transactions_does(
    database_url: str, session_pool: str, transaction_pool: str
) -> None:
    found = [await shares_sessions(url) for url in (database_url, session_pool, transaction_pool)]
    assert found == [False, False, True]


async def test_a_database_that_goes_away_while_it_is_asked_is_told_in_a_sentence(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("surefoot.database.pooler._BACKEND", "SELECT pg_terminate_backend(pg_backend_pid())")
    with pytest.raises(DatabaseUnavailable, match="does not answer"):
        await shares_sessions(database_url)


async def test_a_relay_works_behind_a_pool_of_sessions(database_url: str, session_pool: str, topic_name: str) -> None:
    log = PostgresLog(session_pool)
    connection = await asyncpg.connect(database_url)
    with things_on(topic_name):
        await log.create([spec(topic_name)])
        async with outbox.transaction(connection) as tx:
            tx.add(ThingHappened(thing_id="t1"))
        async with relay_running(session_pool, log):

            async def is_published() -> bool:
                return (await statuses(connection)).keys() == {"PUBLISHED"}

            await eventually(is_published, what="the event is published")
    assert len(await read_all(log, topic_name)) == 1
    await connection.close()
    await log.close()


@pytest.mark.parametrize(
    "command",
    [
        ["relay"],
        ["consume", "consumers.notification:notification"],
        ["orchestrate", "orchestrator.sagas:sagas"],
        ["dlq", "serve", "--port", "0"],
    ],
    ids=lambda command: command[0],
)
async def test_a_process_that_needs_sessions_says_so_at_once(transaction_pool: str, command: list[str]) -> None:
    done = await surefoot(*command, "--database", transaction_pool)
    assert_says(done, "A pooler in transaction mode stands before the database")
    assert "address of the server itself" in done.err


async def test_the_doctor_warns_of_a_pool_of_transactions(transaction_pool: str) -> None:
    done = await surefoot("doctor", "--database", transaction_pool)
    assert "A pooler in transaction mode stands before the database." in done.out


async def test_a_service_publishes_through_a_pool_of_transactions(transaction_pool: str, topic_name: str) -> None:
    engine = create_async_engine(
        sqlalchemy_url(transaction_pool), connect_args={"statement_cache_size": 0}, pool_size=4
    )
    with things_on(topic_name):
        for number in range(20):
            async with AsyncSession(engine) as session, session.begin():
                outbox.add(session, ThingHappened(thing_id=f"t{number}"))
    await engine.dispose()
    connection = await connect(transaction_pool, name="test")
    assert await connection.fetchval("SELECT count(*) FROM surefoot.outbox_events") == 20
    await connection.close()
