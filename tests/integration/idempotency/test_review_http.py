"""Odd requests and odd answers over real HTTP: one effect, the same bytes, and nothing that stays open."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import asyncpg
import pytest
from fastapi import Depends, FastAPI, Request
from sqlalchemy import text
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.responses import Response, StreamingResponse

from surefoot.idempotency import Idempotency, Idempotent, Store, idempotent
from tests.idempotency_door import Quiet
from tests.integration.idempotency.http_ground import REPLAYED, ground, new_key, served
from tests.integration.idempotency.review_ground import SETTINGS, app_around
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

INSERT = text("INSERT INTO effects SELECT coalesce(max(n), 0) + 1 FROM effects")


async def effects(connection: asyncpg.Connection) -> int:
    return int(await connection.fetchval("SELECT count(*) FROM effects"))


@pytest.mark.parametrize(
    "path",
    ["/local/%61", "/local/a/", "/local/a?x=1&y=2", "/local/a?y=2&x=1", "/local/a?", "/local/A", "//local/a"],
)
async def test_a_path_that_is_spelled_otherwise_is_never_taken_for_a_retry(database_url: str, path: str) -> None:
    """Nor done under the key: it is another request, or none at all."""
    async with ground(database_url) as there:
        key = new_key()
        first = await there.post("/local/a?x=1", key)
        assert first.status_code == 201
        other = await there.client.post(
            path, json={"mark": key, "amount": 100}, headers={"Idempotency-Key": key}, follow_redirects=False
        )
        assert other.status_code in (307, 404, 422), other.text
        assert REPLAYED not in other.headers
        assert await there.effects(key) == 1


@pytest.mark.parametrize(
    ("tenant", "status"),
    [
        ("ß☕", 200),
        ("'; DROP TABLE effects; --", 200),
        ("x" * 255, 200),
        ("x" * 256, 500),
        ("one\x00two", 500),
        ("\ud800", 500),
        ("", 500),
    ],
)
async def test_a_tenant_of_odd_characters_is_one_tenant_or_none(
    store: Store, connection: asyncpg.Connection, tenant: str, status: int
) -> None:
    app = FastAPI()
    app.add_middleware(Idempotency, store=store, tenant=lambda _: tenant, settings=SETTINGS)

    @app.post("/")
    @idempotent()
    async def work(once: Idempotent) -> int:
        await once.tx.session.execute(INSERT)
        return 1

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        first, second = await client.post("/", headers=key), await client.post("/", headers=key)
    assert (first.status_code, second.status_code) == (status, status)
    assert await effects(connection) == (1 if status == 200 else 0)


async def test_a_stream_that_is_not_announced_is_kept_whole(store: Store, connection: asyncpg.Connection) -> None:
    app = app_around(store)

    @app.post("/", response_model=None)
    @idempotent()
    async def work(once: Idempotent, breaks: bool = False) -> Any:
        await once.tx.session.execute(INSERT)

        async def parts() -> AsyncIterator[bytes]:
            for n in range(5):
                await asyncio.sleep(0)
                yield b"part %d\n" % n
                if breaks:
                    raise RuntimeError("in the middle of it")

        return StreamingResponse(parts(), 201)

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        first, second = await client.post("/", headers=key), await client.post("/", headers=key)
        assert (first.status_code, first.content.count(b"part")) == (201, 5)
        assert (second.status_code, second.content, second.headers[REPLAYED]) == (201, first.content, "true")
        assert (await client.post("/?breaks=1", headers={"Idempotency-Key": new_key()})).status_code == 500
    assert await effects(connection) == 1


async def test_a_dependency_that_fails_behind_the_handler_changes_no_answer(
    store: Store, connection: asyncpg.Connection
) -> None:
    app = app_around(store)

    def failing() -> Iterator[str]:
        yield "something"
        raise RuntimeError("too late")

    @app.post("/")
    @idempotent()
    async def work(once: Idempotent, given: Annotated[str, Depends(failing)]) -> str:
        await once.tx.session.execute(INSERT)
        return given

    async with served(Quiet(app)) as client:
        key = {"Idempotency-Key": new_key()}
        first, second = await client.post("/", headers=key), await client.post("/", headers=key)
    assert (first.status_code, second.status_code, second.headers[REPLAYED]) == (200, 200, "true")
    assert first.content == second.content
    assert await effects(connection) == 1


async def test_handlers_that_hold_every_connection_let_others_wait_and_not_for_ever(
    database_url: str, connection: asyncpg.Connection
) -> None:
    goes_on = asyncio.Event()
    async with Store(database_url, SETTINGS, pool_size=6, wait_s=0.3) as store:
        app = app_around(store)

        @app.post("/")
        @idempotent()
        async def slow(once: Idempotent) -> int:
            await once.tx.session.execute(text("SELECT 1"))
            await goes_on.wait()
            await once.tx.session.execute(text("INSERT INTO effects SELECT nextval('n')"))
            return 1

        await connection.execute("CREATE SEQUENCE n")
        async with served(app) as client:
            keys = [new_key() for _ in range(12)]
            asked = [asyncio.create_task(client.post("/", headers={"Idempotency-Key": key})) for key in keys]

            async def most_are_answered() -> bool:
                return sum(one.done() for one in asked) == 10

            await eventually(most_are_answered, what="those that find no connection are told so")
            assert {one.result().status_code for one in asked if one.done()} == {503}
            assert all("retry-after" in one.result().headers for one in asked if one.done())
            goes_on.set()
            await asyncio.wait(asked)
            again = [await client.post("/", headers={"Idempotency-Key": key}) for key in keys]
            assert {one.status_code for one in again} == {200}
    assert await effects(connection) == 12


async def test_a_handler_that_asks_its_own_service_under_its_own_key_is_told_that_it_is_in_flight(
    database_url: str, connection: asyncpg.Connection
) -> None:
    settings = SETTINGS.model_copy(update={"wait_in_flight": SETTINGS.wait_in_flight / 20})
    async with Store(database_url, settings) as store:
        app = app_around(store, settings)

        @app.post("/")
        @idempotent()
        async def work(once: Idempotent, request: Request) -> int:
            await once.tx.session.execute(INSERT)
            inner = await client.post("/", headers={"Idempotency-Key": request.headers["idempotency-key"]})
            return inner.status_code

        async with served(app) as client:
            answer = await client.post("/", headers={"Idempotency-Key": new_key()})
    assert (answer.status_code, answer.json()) == (200, 409)
    assert await effects(connection) == 1


async def test_a_middleware_within_the_layer_that_changes_answers_changes_the_kept_one(store: Store) -> None:
    """What was sent first is what every retry gets, also where a middleware numbers its answers."""
    app = app_around(store)
    numbers = iter(range(100))

    class Numbering(BaseHTTPMiddleware):
        async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
            response = await call_next(request)
            response.headers["x-number"] = str(next(numbers))
            return response

    inner = FastAPI()
    inner.add_middleware(Numbering)

    @inner.post("/work")
    @idempotent()
    async def work(once: Idempotent) -> int:
        return 1

    app.mount("/inner", inner)
    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        answers = [await client.post("/inner/work", headers=key) for _ in range(3)]
    assert [answer.headers["x-number"] for answer in answers] == ["0", "0", "0"]
    assert [answer.headers.get(REPLAYED) for answer in answers] == [None, "true", "true"]
