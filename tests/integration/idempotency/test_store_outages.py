"""A database that is away is named so; what was claimed is not lost for it, and nothing is left hanging."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest
from sqlalchemy import text

from surefoot.errors import SchemaOutdated
from surefoot.idempotency.store import Begun, Store, transaction
from surefoot.idempotency.values import Answered, InFlight, StoreAway
from tests.support.idempotency.store_requests import (
    CREATED,
    LOCAL,
    SETTINGS,
    answered,
    asked,
    begun,
    found,
    free,
    kept,
    row_of,
)
from tests.support.proxy import Proxy

pytestmark = pytest.mark.slow

END_OTHERS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""
NOWHERE = "postgresql://nobody:secret@127.0.0.1:1/nothing"


async def test_a_database_that_is_not_there_is_away() -> None:
    store = Store(NOWHERE, SETTINGS)
    with pytest.raises(StoreAway, match="does not answer") as away:
        await store.open()
    assert "secret" not in str(away.value)
    with pytest.raises(StoreAway):
        await store.begin(asked(), LOCAL)
    await store.close()


async def test_a_database_without_our_tables_says_what_to_do(empty_database_url: str) -> None:
    store = Store(empty_database_url, SETTINGS)
    with pytest.raises(SchemaOutdated, match="surefoot migrate"):
        await store.open()
    await store.close()


async def test_connections_that_the_server_ended_are_replaced_unnoticed(
    store: Store, connection: asyncpg.Connection
) -> None:
    first = [await begun(store, asked(f"key-{number}")) for number in range(4)]
    for begins in first:
        await begins.release()
    await connection.execute(END_OTHERS)
    for number in range(4):
        await answered(store, asked(f"key-{number}"))
        assert await store.look(asked(f"key-{number}")) == Answered(CREATED)


@pytest.mark.parametrize("ending", ["finish", "undo"])
async def test_a_connection_lost_under_a_handler_takes_its_work_along(
    store: Store, connection: asyncpg.Connection, ending: str
) -> None:
    async with await begun(store, asked()) as begins:
        await begins.tx.session.execute(text("INSERT INTO effects VALUES (1)"))
        await connection.execute(END_OTHERS)
        with pytest.raises(StoreAway):
            await (begins.undo() if ending == "undo" else begins.finish(CREATED, "COMPLETED"))
    assert await connection.fetchval("SELECT count(*) FROM effects") == 0
    await answered(store, asked())


async def test_a_claim_outlives_a_connection_lost_in_a_phase(store: Store, connection: asyncpg.Connection) -> None:
    claim = await kept(store)
    with pytest.raises(StoreAway):
        async with store.phase(claim, "charge_created") as unit:
            await unit.tx.session.execute(text("INSERT INTO effects VALUES (1)"))
            await connection.execute(END_OTHERS)
    assert await connection.fetchval("SELECT count(*) FROM effects") == 0
    assert await store.renew(claim)
    async with store.phase(claim, "charge_created") as unit:
        await unit.tx.session.execute(text("INSERT INTO effects VALUES (1)"))
    await store.complete(claim, CREATED, "COMPLETED")


async def test_a_server_that_takes_no_writes_is_away(database_url: str, connection: asyncpg.Connection) -> None:
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    async with Store(database_url, SETTINGS) as store:
        async with await begun(store, asked()) as begins:
            with pytest.raises(StoreAway, match="read-only"):
                await begins.finish(CREATED, "COMPLETED")


async def test_new_requests_wait_for_a_connection_only_so_long_and_leave_some_to_what_was_claimed(
    database_url: str, store: Store
) -> None:
    async with Store(database_url, SETTINGS, pool_size=6, wait_s=0.05) as small:
        claim = await kept(small)
        busy = [await begun(small, asked(f"key-{number}")) for number in range(2)]
        with pytest.raises(StoreAway, match=r"No connection to .* became free within 0\.05 s"):
            await small.begin(asked("another"), LOCAL)
        async with small.phase(claim, "charge_created"):
            assert await small.renew(claim)
        await small.complete(claim, CREATED, "COMPLETED")
        for begins in busy:
            await begins.release()
        await answered(small, asked("another"))


@pytest.mark.timeout(60)  # closing the store waits for the server no longer than for an answer
async def test_a_server_that_falls_silent_is_away_after_a_while(
    database_url: str, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction, "ANSWER_S", 0.2)
    monkeypatch.setattr(transaction, "CLOSE_S", 0.2)
    async with Proxy(database_url) as proxy:
        async with Store(proxy.url, SETTINGS) as store:
            await answered(store, asked("before"))
            async with await begun(store, asked()) as begins:
                await begins.tx.session.execute(text("INSERT INTO effects VALUES (1)"))
                proxy.silence()
                with pytest.raises(StoreAway):
                    await begins.finish(CREATED, "COMPLETED")
            await answered(store, asked("after"))


async def test_a_process_frozen_in_a_transaction_loses_its_key_after_the_longest_lease(
    database_url: str, connection: asyncpg.Connection
) -> None:
    second = timedelta(seconds=1)
    quick = SETTINGS.model_copy(
        update={"lease": second / 2, "renew_every": second / 4, "longest_lease": second, "call_timeout": second / 2}
    )
    async with Store(database_url, quick) as store, Store(database_url, SETTINGS) as other:
        async with await begun(store, asked()) as frozen:
            await frozen.tx.session.execute(text("INSERT INTO effects VALUES (1)"))
            assert isinstance(await found(other, asked()), InFlight)
            async with await free(other, asked()) as begins:
                await begins.tx.session.execute(text("INSERT INTO effects VALUES (2)"))
                await begins.finish(CREATED, "COMPLETED")
            with pytest.raises(StoreAway):
                await frozen.finish(CREATED, "COMPLETED")
    assert await connection.fetchval("SELECT n FROM effects") == 2


async def test_a_request_that_is_cancelled_gives_everything_back(
    database_url: str, store: Store, connection: asyncpg.Connection
) -> None:
    async with Store(database_url, SETTINGS, pool_size=1, wait_s=5) as small:
        for number in range(5):
            working = asyncio.Event()

            async def work(key: str, working: asyncio.Event) -> None:
                async with await begun(small, asked(key)) as begins:
                    await begins.tx.session.execute(text("INSERT INTO effects VALUES (1)"))
                    working.set()
                    await begins.tx.session.execute(text("SELECT pg_sleep(20)"))

            task = asyncio.create_task(work(f"key-{number}", working))
            await working.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with await free(small, asked("key-0")) as begins:
            await begins.finish(CREATED, "COMPLETED")
    assert await connection.fetchval("SELECT count(*) FROM effects") == 0


async def test_a_claim_whose_begin_is_cancelled_holds_nothing(store: Store, connection: asyncpg.Connection) -> None:
    for turns in range(30):
        task = asyncio.create_task(store.begin(asked(), LOCAL))
        for _ in range(turns):  # to cancel it here, and there
            await asyncio.sleep(0)
        task.cancel()
        (result,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(result, Begun):
            await result.release()
    async with await free(store, asked()):
        assert isinstance(await found(store, asked()), InFlight)
    assert await row_of(connection, asked()) is None
