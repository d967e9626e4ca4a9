"""Handlers that do odd things to the layer: nothing happens twice, and nothing of it stays open."""

import asyncio
import threading
from contextlib import suppress
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from fastapi import BackgroundTasks, FastAPI
from sqlalchemy import text
from starlette.responses import JSONResponse, Response

from surefoot.consumer import HandlerMisuse
from surefoot.idempotency import Completer, Idempotency, Idempotent, Store, idempotent
from tests.integration.idempotency.http_ground import REPLAYED, new_key, served
from tests.integration.idempotency.review_ground import SETTINGS, Bank, app_around, breaks
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

INSERT = text("INSERT INTO effects SELECT coalesce(max(n), 0) + 1 FROM effects")
OPEN = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"


async def effects(connection: asyncpg.Connection) -> int:
    return int(await connection.fetchval("SELECT count(*) FROM effects"))


async def test_an_idempotent_handler_that_calls_another_is_told_not_to_and_leaves_nothing_open(
    store: Store, connection: asyncpg.Connection
) -> None:
    app = app_around(store)

    @app.post("/inner")
    @idempotent()
    async def inner(once: Idempotent) -> str:
        return "inner"

    @app.post("/outer")
    @idempotent()
    async def outer(once: Idempotent) -> Any:
        await once.tx.session.execute(INSERT)
        return await inner()

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        answer = await client.post("/outer", headers=key)
        assert answer.status_code == 500

        async def nothing_is_open() -> bool:
            return bool(await connection.fetchval(OPEN) == 0)

        await eventually(nothing_is_open, what="its transaction ends", within_s=3)
    assert await effects(connection) == 0


async def test_a_request_under_a_mount_is_made_again_where_it_was_made(store: Store) -> None:
    inner, bank = FastAPI(), Bank([breaks])

    @inner.post("/charges")
    @idempotent(effect="outside")
    async def pay(once: Idempotent) -> str:
        return await once.call("charge", bank.charge)

    app = app_around(store)
    app.mount("/v1", inner)
    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        assert (await client.post("/v1/charges", headers=key)).status_code == 504
        completer = Completer(app, store, SETTINGS)

        async def has_called_again() -> bool:
            await completer.start_overdue()
            await completer.settled()
            return len(bank.calls) == 2

        await eventually(has_called_again, what="the completer calls", within_s=10)
        answer = await client.post("/v1/charges", headers=key)
        assert (answer.status_code, answer.headers[REPLAYED]) == (200, "true")
    assert len(bank.charges) == 1


@pytest.mark.parametrize("effect", ["local", "outside"])
async def test_an_answer_that_took_longer_than_its_window_is_given_again_all_the_same(
    store: Store, connection: asyncpg.Connection, effect: Any
) -> None:
    app = app_around(store)
    runs: list[int] = []

    @app.post("/")
    @idempotent(effect=effect, replay_for=timedelta(seconds=1), gone_for=timedelta(0))
    async def slow(once: Idempotent) -> int:
        runs.append(1)
        await asyncio.sleep(1.2)
        return len(runs)

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        assert (await client.post("/", headers=key)).json() == 1
        again = await client.post("/", headers=key)
        assert (again.json(), again.headers.get(REPLAYED)) == (1, "true")


@pytest.mark.parametrize("status", [204, 304])
async def test_a_body_where_none_may_be_is_not_sent(
    store: Store, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    app = app_around(store)

    @app.post("/")
    @idempotent()
    async def nothing(once: Idempotent) -> Response:
        return JSONResponse({"said": "too much"}, status)

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        for _ in range(2):
            answer = await client.post("/", headers=key)
            assert (answer.status_code, answer.content) == (status, b"")
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []  # the server takes it amiss


async def test_a_session_that_is_used_in_a_background_task_does_nothing(
    store: Store, connection: asyncpg.Connection
) -> None:
    app = app_around(store)
    errors: list[str] = []

    @app.post("/")
    @idempotent()
    async def work(tasks: BackgroundTasks, once: Idempotent) -> str:
        session = once.tx.session
        await session.execute(INSERT)

        async def later() -> None:
            try:
                await session.execute(INSERT)
            except HandlerMisuse as error:
                errors.append(str(error))

        tasks.add_task(later)
        return "done"

    async with served(app) as client:
        for _ in range(20):
            assert (await client.post("/", headers={"Idempotency-Key": new_key()})).status_code == 200
    assert await effects(connection) == 20
    assert len(errors) == 20


async def test_tasks_that_use_the_session_of_a_request_that_is_over_do_not_harm_the_next(
    store: Store, connection: asyncpg.Connection
) -> None:
    app = app_around(store)
    tasks: list[asyncio.Task[Any]] = []

    @app.post("/")
    @idempotent()
    async def work(once: Idempotent, stray: int) -> str:
        session = once.tx.session
        await session.execute(INSERT)

        async def later(after_s: float) -> None:
            await asyncio.sleep(after_s)
            await session.execute(INSERT)

        tasks.extend(asyncio.create_task(later(n / 2000)) for n in range(stray))
        return "done"

    async with served(app) as client:
        for _ in range(20):
            await client.post("/?stray=10", headers={"Idempotency-Key": new_key()})
        await asyncio.gather(*tasks, return_exceptions=True)
        before = await effects(connection)
        for _ in range(20):
            assert (await client.post("/?stray=0", headers={"Idempotency-Key": new_key()})).status_code == 200
    assert await effects(connection) == before + 20


async def test_a_large_body_is_not_read_where_all_others_would_wait_for_it(store: Store) -> None:
    threads: list[bool] = []

    class Watched(str):
        def encode(self, *how: Any) -> bytes:
            threads.append(threading.current_thread() is threading.main_thread())
            return super().encode(*how)

    app = FastAPI()
    app.add_middleware(Idempotency, store=store, tenant=lambda _: Watched("one"), settings=SETTINGS)

    @app.post("/")
    @idempotent()
    async def work(once: Idempotent, body: list[int]) -> int:
        return len(body)

    async with served(app) as client:
        for count, is_main in ((10, True), (100_000, False)):
            threads.clear()
            answer = await client.post("/", headers={"Idempotency-Key": new_key()}, json=[1] * count)
            assert (answer.status_code, answer.json()) == (200, count)
            assert set(threads) == {is_main}


async def test_a_statement_that_the_handler_cuts_short_takes_its_transaction_along(
    store: Store, connection: asyncpg.Connection
) -> None:
    app = app_around(store)

    @app.post("/")
    @idempotent()
    async def work(once: Idempotent) -> str:
        await once.tx.session.execute(INSERT)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await once.tx.session.execute(text("SELECT pg_sleep(5)"))
        return "done"

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        for _ in range(2):
            assert (await client.post("/", headers=key)).status_code == 503
    assert await effects(connection) == 0
