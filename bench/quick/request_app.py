"""The HTTP app of the bench: one idempotent route that inserts a row. `request_app DATABASE_URL PORT` serves it."""

import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import text

from surefoot.idempotency import Idempotency, IdempotencySettings, Idempotent, Store, idempotent

POOL = 8
KEEP_ALIVE_S = 600
"""Connections outlive the turns of the other paths."""
INSERT = text("INSERT INTO quick_requests (id, item, amount) VALUES (:id, :item, :amount)")


class Purchase(BaseModel):
    item: str
    amount: int


class Purchased(Purchase):
    id: str


def application(url: str) -> FastAPI:
    settings = IdempotencySettings()
    store = Store(url, settings, pool_size=POOL)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await store.open()
        yield
        await store.close()

    app = FastAPI(lifespan=lifespan)
    app.add_middleware(Idempotency, store=store, tenant=lambda _: "bench", settings=settings)

    @app.post("/purchases", status_code=201)
    @idempotent(key="required", effect="local")
    async def purchase(wanted: Purchase, request: Idempotent) -> Purchased:
        made = Purchased(id=uuid.uuid4().hex, **wanted.model_dump())
        await request.tx.session.execute(INSERT, made.model_dump())
        return made

    return app


if __name__ == "__main__":
    uvicorn.run(
        application(sys.argv[1]),
        host="127.0.0.1",
        port=int(sys.argv[2]),
        log_level="error",
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
