"""The endpoints that the bench compares, each with the layer and without it, in one process.

    python -m bench.idempotency_app DATABASE_URL PROVIDER_URL

Both do the same work by the same statements: a local one inserts a row; one with an outside effect inserts a row, asks
a provider over HTTP, and changes the row. It prints its port when it serves.
"""

import socket
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import uvicorn
import uvloop
from cryptography.fernet import Fernet
from fastapi import FastAPI
from pydantic import BaseModel, SecretStr
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine

from surefoot.database.address import sqlalchemy_url
from surefoot.idempotency import Idempotency, IdempotencySettings, Idempotent, Store, idempotent

POOL = 20
TABLE = """
    CREATE TABLE IF NOT EXISTS bench_orders (
        id text PRIMARY KEY, item text NOT NULL, amount bigint NOT NULL, paid text, created_at timestamptz NOT NULL)"""
INSERT = text("INSERT INTO bench_orders (id, item, amount, created_at) VALUES (:id, :item, :amount, :created_at)")
PAY = text("UPDATE bench_orders SET paid = :paid WHERE id = :id")


class Wish(BaseModel):
    item: str
    amount: int


class Made(BaseModel):
    id: str
    item: str
    amount: int
    paid: str | None = None
    created_at: datetime


@dataclass(frozen=True)
class Tools:
    """What both kinds of endpoint work with."""

    database: Any
    provider: httpx.AsyncClient

    async def charge(self, made: Made, *, key: str) -> str:
        answer = await self.provider.post("/", headers={"Idempotency-Key": key}, json={"amount": made.amount})
        return str(answer.json()["charge"])


def new_id() -> str:
    return uuid.uuid4().hex


def now() -> datetime:
    return datetime.now(UTC)


async def insert(where: AsyncSession | AsyncConnection, made: Made) -> Made:
    await where.execute(INSERT, {**made.model_dump(exclude={"paid"})})
    return made


async def pay(where: AsyncSession | AsyncConnection, made: Made, paid: str) -> Made:
    await where.execute(PAY, {"id": made.id, "paid": paid})
    return made.model_copy(update={"paid": paid})


def application(url: str, provider_url: str) -> FastAPI:
    engine = create_async_engine(sqlalchemy_url(url), pool_size=POOL, max_overflow=0)
    settings = IdempotencySettings(secrets=(SecretStr(Fernet.generate_key().decode()),))
    store = Store(url, settings, pool_size=POOL)
    tools = Tools(engine, httpx.AsyncClient(base_url=provider_url, trust_env=False))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with engine.begin() as connection:
            await connection.execute(text(TABLE))
        await store.open()
        yield
        await store.close()
        await engine.dispose()
        await tools.provider.aclose()

    app = FastAPI(lifespan=lifespan)
    app.add_middleware(Idempotency, store=store, tenant=lambda _: "bench", settings=settings)
    _add_bare(app, tools)
    _add_protected(app, tools)
    return app


def _add_bare(app: FastAPI, tools: Tools) -> None:
    @app.post("/bare/local", status_code=201)
    async def local(wish: Wish) -> Made:
        async with AsyncSession(tools.database) as session, session.begin():
            return await insert(session, Made(id=new_id(), created_at=now(), **wish.model_dump()))

    @app.post("/bare/outside", status_code=201)
    async def outside(wish: Wish) -> Made:
        made = Made(id=new_id(), created_at=now(), **wish.model_dump())
        async with AsyncSession(tools.database) as session, session.begin():
            await insert(session, made)
        paid = await tools.charge(made, key=new_id())
        async with AsyncSession(tools.database) as session, session.begin():
            return await pay(session, made, paid)


def _add_protected(app: FastAPI, tools: Tools) -> None:
    async def create(tx: Any, made: Made) -> Made:
        return await insert(tx.session, made)

    async def settle(tx: Any, made: Made, paid: str) -> Made:
        return await pay(tx.session, made, paid)

    @app.post("/local", status_code=201)
    @idempotent(key="required", effect="local")
    async def local(wish: Wish, request: Idempotent) -> Made:
        made = Made(id=new_id(), created_at=now(), **wish.model_dump())
        return await insert(request.tx.session, made)

    @app.post("/outside", status_code=201)
    @idempotent(key="required", effect="outside")
    async def outside(wish: Wish, request: Idempotent) -> Made:
        minted = request.mint(id=new_id, created_at=now)
        made = Made(id=minted.id, created_at=minted.created_at, **wish.model_dump())
        row = await request.phase("created", create, made)
        paid = await request.call("charge", tools.charge, row)
        return await request.phase("paid", settle, row, paid)


async def provider(scope: Any, receive: Any, send: Any) -> None:
    """Answers at once: what the layer adds is not to hide behind a slow provider."""
    while (await receive()).get("more_body"):
        pass
    body = b'{"charge":"ch_' + uuid.uuid4().hex.encode() + b'"}'
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 201, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def serve(app: Any, *, lifespan: Any) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    server = uvicorn.Server(uvicorn.Config(app, lifespan=lifespan, log_level="error", access_log=False))
    print(listener.getsockname()[1], flush=True)  # whoever comes before the server is up waits at the socket
    await server.serve(sockets=[listener])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["provider"]:
            uvloop.run(serve(provider, lifespan="off"))
        case [database, provider_url]:
            uvloop.run(serve(application(database, provider_url), lifespan="on"))
        case _:
            sys.exit("usage: python -m bench.idempotency_app DATABASE_URL PROVIDER_URL, or: … provider")
