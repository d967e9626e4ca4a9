"""The HTTP app of the walks: a local route and one with an outside call. `walk_app DATABASE_URL PORT` serves it."""

import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from cryptography.fernet import Fernet
from fastapi import FastAPI
from pydantic import BaseModel, SecretStr
from sqlalchemy import text

from surefoot.idempotency import Idempotency, IdempotencySettings, Idempotent, Store, idempotent

INSERT = text("INSERT INTO walk_handled (id) VALUES (:id)")


class Purchase(BaseModel):
    item: str


async def insert(tx: Any, purchase: Purchase) -> str:
    made = uuid.uuid4().hex
    await tx.session.execute(INSERT, {"id": made})
    return made


async def charge(_: str, *, key: str) -> str:
    """The provider, which takes every charge."""
    return f"ch_{key}"


def application(url: str) -> FastAPI:
    settings = IdempotencySettings(secrets=(SecretStr(Fernet.generate_key().decode()),))
    store = Store(url, settings, pool_size=4)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await store.open()
        yield
        await store.close()

    app = FastAPI(lifespan=lifespan)
    app.add_middleware(Idempotency, store=store, tenant=lambda _: "bench", settings=settings)

    @app.post("/local", status_code=201)
    @idempotent(key="required", effect="local")
    async def local(wanted: Purchase, request: Idempotent) -> str:
        return await insert(request.tx, wanted)

    @app.post("/outside", status_code=201)
    @idempotent(key="required", effect="outside")
    async def outside(wanted: Purchase, request: Idempotent) -> str:
        made = await request.phase("created", insert, wanted)
        return await request.call("charge", charge, made)

    return app


if __name__ == "__main__":
    uvicorn.run(application(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]), log_level="error", access_log=False)
