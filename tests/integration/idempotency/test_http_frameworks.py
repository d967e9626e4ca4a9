"""The same handler under FastAPI, Starlette and Litestar, and with middleware of all kinds around and in the layer."""

import json
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

from surefoot.idempotency import Idempotency, Idempotent, OutcomeUnknown, Store, Tx, idempotent
from tests.idempotency_app import app_settings
from tests.integration.idempotency.http_ground import REPLAYED, new_key, served

pytestmark = pytest.mark.slow

SETTINGS = app_settings()


def tenant_of(request: Request) -> str:
    return request.headers.get("x-tenant", "one")


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with Store(database_url, SETTINGS, pool_size=6) as store:
        yield store


class Provider:
    def __init__(self) -> None:
        self.keys: list[str] = []
        self.fails = False

    async def charge(self, amount: int, *, key: str) -> str:
        self.keys.append(key)
        if self.fails:
            raise ConnectionResetError
        return f"ch_{amount}"


async def note(tx: Tx, charge: str) -> dict[str, str]:
    return {"charge": charge}


async def charge(provider: Provider, amount: int, once: Idempotent) -> dict[str, Any]:
    minted = once.mint(id=new_key)
    paid = await once.call("charge", provider.charge, amount)
    return {"id": minted.id, **await once.phase("noted", note, paid)}


def fastapi_app(store: Store, provider: Provider) -> ASGIApp:
    app = FastAPI()
    app.add_middleware(Idempotency, store=store, tenant=tenant_of, settings=SETTINGS)

    @app.post("/charges", status_code=201)
    @idempotent(effect="outside")
    async def create(body: dict[str, int], once: Idempotent) -> dict[str, Any]:
        return await charge(provider, body["amount"], once)

    return app


def starlette_app(store: Store, provider: Provider) -> ASGIApp:
    @idempotent(effect="outside")
    async def create(request: Request, once: Idempotent) -> Response:
        body = await request.json()
        return JSONResponse(await charge(provider, body["amount"], once), 201)

    layer = Middleware(Idempotency, store=store, tenant=tenant_of, settings=SETTINGS)
    return Starlette(routes=[Route("/charges", create, methods=["POST"])], middleware=[layer])


def endpoint_app(store: Store, provider: Provider) -> ASGIApp:
    """A class with a method for each verb, mounted somewhere, with the layer outside of everything."""

    class Charges(HTTPEndpoint):
        @idempotent(effect="outside")
        async def post(self, request: Request, once: Idempotent) -> Response:
            body = await request.json()
            return JSONResponse(await charge(provider, body["amount"], once), 201)

    app = Starlette(routes=[Mount("/", routes=[Route("/charges", Charges)])])
    return Idempotency(app, store=store, tenant=tenant_of, settings=SETTINGS)


def litestar_app(store: Store, provider: Provider) -> ASGIApp:
    @post("/charges")
    @idempotent(effect="outside")
    async def create(data: JSONBody[dict[str, int]], once: Idempotent) -> dict[str, Any]:
        return await charge(provider, data["amount"], once)

    app = Litestar([create], openapi_config=None)
    return Idempotency(app, store=store, tenant=tenant_of, settings=SETTINGS)  # type: ignore[arg-type]


def litestar_inner_app(store: Store, provider: Provider) -> ASGIApp:
    @post("/charges")
    @idempotent(effect="outside")
    async def create(request: LitestarRequest[Any, Any, Any], once: Idempotent) -> dict[str, Any]:
        return await charge(provider, (await request.json())["amount"], once)

    layer = DefineMiddleware(Idempotency, store=store, tenant=tenant_of, settings=SETTINGS)  # type: ignore[arg-type]
    return Litestar([create], middleware=[layer], openapi_config=None)  # type: ignore[return-value]


def layered_app(store: Store, provider: Provider) -> ASGIApp:
    """Middleware that reads and writes around the layer and within it."""

    class Reading(BaseHTTPMiddleware):
        async def dispatch(self, request: Request, call_next: Any) -> Response:
            await request.body()
            response: Response = await call_next(request)
            response.headers["x-read"] = "yes"
            return response

    app = FastAPI(middleware=[Middleware(Reading), Middleware(GZipMiddleware, minimum_size=1)])
    app.add_middleware(Idempotency, store=store, tenant=tenant_of, settings=SETTINGS)
    app.add_middleware(Reading)

    @app.post("/charges", status_code=201)
    @idempotent(effect="outside")
    async def create(body: dict[str, int], once: Idempotent) -> dict[str, Any]:
        return await charge(provider, body["amount"], once)

    return app


APPS = [fastapi_app, starlette_app, endpoint_app, litestar_app, litestar_inner_app, layered_app]


@pytest.mark.parametrize("made", APPS, ids=lambda made: made.__name__)
async def test_a_handler_is_the_same_under_every_framework(
    store: Store, made: Callable[[Store, Provider], ASGIApp]
) -> None:
    provider = Provider()
    async with served(made(store, provider)) as client:
        key = {"Idempotency-Key": new_key()}
        first = await client.post("/charges", json={"amount": 5}, headers=key)
        again = await client.post("/charges", json={"amount": 5}, headers=key)
        assert (first.status_code, first.json()["charge"]) == (201, "ch_5")
        assert (again.status_code, again.content, again.headers[REPLAYED]) == (201, first.content, "true")
        other = await client.post("/charges", json={"amount": 6}, headers=key)
        assert (other.status_code, other.headers["content-type"]) == (422, "application/problem+json")
        missing = await client.post("/charges", json={"amount": 5})
        assert (missing.status_code, missing.json()["type"]) == (400, "/problems/idempotency/key-missing")
        assert len(provider.keys) == 1
        provider.fails = True
        key = {"Idempotency-Key": new_key()}
        unknown = await client.post("/charges", json={"amount": 7}, headers=key)
        assert (unknown.status_code, unknown.json()["type"]) == (504, "/problems/idempotency/outcome-unknown")
        provider.fails = False
        done = await client.post("/charges", json={"amount": 7}, headers=key)
        assert (done.status_code, done.json()["id"]) == (201, unknown.json()["resource"])
        assert len(set(provider.keys)) == 2


async def test_websockets_and_safe_methods_pass_untouched(store: Store) -> None:
    async def talk(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("hello")
        await socket.close()

    async def look(request: Request) -> Response:
        return JSONResponse({"seen": True})

    layer = Middleware(Idempotency, store=store, tenant=tenant_of, settings=SETTINGS)
    app = Starlette(routes=[WebSocketRoute("/talk", talk), Route("/look", look)], middleware=[layer])
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    await app(
        {"type": "websocket", "path": "/talk", "headers": [], "query_string": b"", "subprotocols": []}, receive, send
    )
    assert [message["type"] for message in sent] == ["websocket.accept", "websocket.send", "websocket.close"]
    async with served(app) as client:
        for _ in range(2):
            response = await client.get("/look", headers={"Idempotency-Key": new_key()})
            assert (response.status_code, REPLAYED in response.headers) == (200, False)


async def test_a_route_without_the_decorator_streams_as_before(store: Store) -> None:
    app = FastAPI()
    app.add_middleware(Idempotency, store=store, tenant=tenant_of, settings=SETTINGS)

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
    app = FastAPI()
    app.add_middleware(Idempotency, store=store, tenant=tenant_of, settings=SETTINGS)
    seen: list[str] = []

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

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        assert (await client.post("/", headers=key)).json() == "session"
        assert (await client.post("/", headers=key)).json() == "session"
    assert seen.count("worked") == 1
    assert seen.count("later") == 1
    assert seen.count("opened") == seen.count("closed") == 2


async def test_a_handler_that_swallows_an_unknown_outcome_does_not_hide_it(store: Store) -> None:
    app = FastAPI()
    app.add_middleware(Idempotency, store=store, tenant=tenant_of, settings=SETTINGS)
    provider = Provider()
    provider.fails = True

    @app.post("/")
    @idempotent(effect="outside")
    async def work(once: Idempotent) -> dict[str, str]:
        try:
            await once.call("charge", provider.charge, 1)
        except OutcomeUnknown:
            return {"status": "never mind"}
        return {"status": "paid"}

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        assert (await client.post("/", headers=key)).status_code == 504
        provider.fails = False
        assert (await client.post("/", headers=key)).json() == {"status": "paid"}


async def test_an_error_that_shows_at_the_commit_is_answered_with_500_and_nothing_is_kept(store: Store) -> None:
    """The handler swallowed what the database said, and its transaction cannot be committed."""
    app = FastAPI()
    app.add_middleware(Idempotency, store=store, tenant=tenant_of, settings=SETTINGS)
    runs: list[int] = []

    @app.post("/")
    @idempotent()
    async def work(once: Idempotent) -> dict[str, int]:
        runs.append(1)
        if len(runs) == 1:
            try:
                await once.tx.session.execute(text("SELECT * FROM nowhere"))
            except DBAPIError:
                return {"run": 0}
        return {"run": len(runs)}

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        failed = await client.post("/", headers=key)
        assert failed.status_code == 500
        assert json.loads(failed.content)["type"] == "/problems/idempotency/failed"


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
