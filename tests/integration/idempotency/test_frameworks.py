"""The same handler under FastAPI, Starlette and Litestar, and with middleware of all kinds around and in the layer."""

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import pytest
from fastapi import BackgroundTasks, Depends, FastAPI, HTTPException
from litestar import Litestar, post
from litestar import Request as LitestarRequest
from litestar.middleware import DefineMiddleware
from litestar.params import JSONBody
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from surefoot.idempotency import Idempotency, Idempotent, Store, Tx, idempotent
from tests.support.idempotency.apps import SETTINGS, Bank, answers, app_around, breaks
from tests.support.idempotency.http_harness import REPLAYED, new_key, served

pytestmark = pytest.mark.slow


def around(app: Any, store: Store) -> ASGIApp:
    return Idempotency(app, store=store, tenant=lambda _: "one", settings=SETTINGS)


def layer(store: Store) -> Middleware:
    return Middleware(Idempotency, store=store, tenant=lambda _: "one", settings=SETTINGS)


async def note(tx: Tx, paid: str, amount: int) -> dict[str, str]:
    return {"charge": f"{amount}, {paid}"}


async def charge(bank: Bank, amount: int, once: Idempotent) -> dict[str, Any]:
    minted = once.mint(id=new_key)
    paid = await once.call("charge", bank.charge)
    return {"id": minted.id, **await once.phase("noted", note, paid, amount)}


def add_charges(app: FastAPI, bank: Bank) -> FastAPI:
    @app.post("/charges", status_code=201)
    @idempotent(effect="outside")
    async def create(body: dict[str, int], once: Idempotent) -> dict[str, Any]:
        return await charge(bank, body["amount"], once)

    return app


def fastapi_app(store: Store, bank: Bank) -> ASGIApp:
    return add_charges(app_around(store), bank)


def starlette_app(store: Store, bank: Bank) -> ASGIApp:
    @idempotent(effect="outside")
    async def create(request: Request, once: Idempotent) -> Response:
        return JSONResponse(await charge(bank, (await request.json())["amount"], once), 201)

    return Starlette(routes=[Route("/charges", create, methods=["POST"])], middleware=[layer(store)])


def endpoint_app(store: Store, bank: Bank) -> ASGIApp:
    """A class with a method for each verb, mounted somewhere, with the layer outside of everything."""

    class Charges(HTTPEndpoint):
        @idempotent(effect="outside")
        async def post(self, request: Request, once: Idempotent) -> Response:
            return JSONResponse(await charge(bank, (await request.json())["amount"], once), 201)

    return around(Starlette(routes=[Mount("/", routes=[Route("/charges", Charges)])]), store)


def litestar_app(store: Store, bank: Bank) -> ASGIApp:
    @post("/charges")
    @idempotent(effect="outside")
    async def create(data: JSONBody[dict[str, int]], once: Idempotent) -> dict[str, Any]:
        return await charge(bank, data["amount"], once)

    return around(Litestar([create], openapi_config=None), store)


def litestar_inner_app(store: Store, bank: Bank) -> ASGIApp:
    @post("/charges")
    @idempotent(effect="outside")
    async def create(request: LitestarRequest[Any, Any, Any], once: Idempotent) -> dict[str, Any]:
        return await charge(bank, (await request.json())["amount"], once)

    inner = DefineMiddleware(Idempotency, store=store, tenant=lambda _: "one", settings=SETTINGS)  # type: ignore[arg-type]
    return Litestar([create], middleware=[inner], openapi_config=None)  # type: ignore[return-value]


def layered_app(store: Store, bank: Bank) -> ASGIApp:
    """Middleware that reads and writes around the layer and within it."""

    class Reading(BaseHTTPMiddleware):
        async def dispatch(self, request: Request, call_next: Any) -> Response:
            await request.body()
            response: Response = await call_next(request)
            response.headers["x-read"] = "yes"
            return response

    app = FastAPI(middleware=[Middleware(Reading), Middleware(GZipMiddleware, minimum_size=1)])
    app.user_middleware.insert(0, layer(store))
    app.add_middleware(Reading)
    return add_charges(app, bank)


APPS = [fastapi_app, starlette_app, endpoint_app, litestar_app, litestar_inner_app, layered_app]


@pytest.mark.parametrize("made", APPS, ids=lambda made: made.__name__)
async def test_a_handler_is_the_same_under_every_framework(
    store: Store, made: Callable[[Store, Bank], ASGIApp]
) -> None:
    bank = Bank()
    async with served(made(store, bank)) as client:
        key = {"Idempotency-Key": new_key()}
        first = await client.post("/charges", json={"amount": 5}, headers=key)
        again = await client.post("/charges", json={"amount": 5}, headers=key)
        assert (first.status_code, first.json()["charge"]) == (201, f"5, paid under {bank.calls[0]}")
        assert (again.status_code, again.content, again.headers[REPLAYED]) == (201, first.content, "true")
        other = await client.post("/charges", json={"amount": 6}, headers=key)
        assert (other.status_code, other.headers["content-type"]) == (422, "application/problem+json")
        missing = await client.post("/charges", json={"amount": 5})
        assert (missing.status_code, missing.json()["type"]) == (400, "/problems/idempotency/key-missing")
        assert len(bank.calls) == 1
        bank.turns.append(breaks)
        key = {"Idempotency-Key": new_key()}
        unknown = await client.post("/charges", json={"amount": 7}, headers=key)
        assert (unknown.status_code, unknown.json()["type"]) == (504, "/problems/idempotency/outcome-unknown")
        done = await client.post("/charges", json={"amount": 7}, headers=key)
        assert (done.status_code, done.json()["id"]) == (201, unknown.json()["resource"])
        assert len(bank.charges) == 2


async def test_websockets_pass_untouched(store: Store) -> None:
    async def talk(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("hello")
        await socket.close()

    app = Starlette(routes=[WebSocketRoute("/talk", talk)], middleware=[layer(store)])
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    await app(
        {"type": "websocket", "path": "/talk", "headers": [], "query_string": b"", "subprotocols": []}, receive, send
    )
    assert [message["type"] for message in sent] == ["websocket.accept", "websocket.send", "websocket.close"]


async def test_a_route_without_the_decorator_streams_as_before(store: Store) -> None:
    app = app_around(store)

    @app.post("/stream")
    async def stream() -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            for number in range(3):
                yield b"x" * 600_000 + str(number).encode()

        return StreamingResponse(pieces())

    async with served(app) as client:
        response = await client.post("/stream", headers={"Idempotency-Key": new_key()}, content=b"y" * 3_000_000)
    assert (response.status_code, len(response.content)) == (200, 1_800_003)


async def test_background_tasks_and_dependencies_run_once_and_after_the_answer_is_kept(store: Store) -> None:
    app, seen = app_around(store), []

    async def session() -> AsyncIterator[str]:
        seen.append("opened")
        yield "session"
        seen.append("closed")

    async def later() -> None:
        seen.append("later")

    @app.post("/")
    @idempotent()
    async def work(tasks: BackgroundTasks, session: Annotated[str, Depends(session)], once: Idempotent) -> str:
        tasks.add_task(later)
        seen.append("worked")
        return session

    assert [answer.json() for answer in await answers(app, 2)] == ["session", "session"]
    assert [seen.count(what) for what in ("worked", "later", "opened", "closed")] == [1, 1, 2, 2]


async def test_an_error_that_shows_at_the_commit_is_answered_with_500_and_nothing_is_kept(store: Store) -> None:
    """The handler swallowed what the database said, and its transaction cannot be committed."""
    app, runs = app_around(store), [0]

    @app.post("/")
    @idempotent()
    async def work(once: Idempotent) -> int:
        runs[0] += 1
        if runs == [1]:
            try:
                await once.tx.session.execute(text("SELECT * FROM nowhere"))
            except DBAPIError:
                return 0
        return runs[0]

    failed, done = await answers(app, 2)
    assert (failed.status_code, failed.json()["type"]) == (500, "/problems/idempotency/failed")
    assert done.json() == 2


async def test_who_asks_is_found_by_an_async_function_and_its_errors_are_the_apps(store: Store) -> None:
    async def tenant(request: Request) -> str:
        if "x-tenant" not in request.headers:
            raise HTTPException(401, "who are you?")
        return request.headers["x-tenant"]

    app = FastAPI()
    app.add_middleware(Idempotency, store=store, tenant=tenant, settings=SETTINGS)

    @app.post("/")
    @idempotent()
    async def work(once: Idempotent) -> str:
        return once.tenant

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        assert (await client.post("/", headers=key)).status_code == 401
        assert (await client.post("/", headers={**key, "X-Tenant": "shop"})).json() == "shop"
