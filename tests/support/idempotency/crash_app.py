"""An API to be killed: one route that has a provider charge, one that writes an entry of its own.

    python -m tests.support.idempotency.crash_app --database postgresql://… --completer

Nothing here keeps anything from happening twice but the layer: no key of a table is the request's, and every answer has
something in it that was not minted, so that an answer which is made a second time is another one. The provider's books
say what it was asked for; how it tells that it was asked before, if it does, is said by CRASH_PROVIDER.
"""

import argparse
import asyncio
import os
import signal
import socket
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import text

from surefoot.database.connection import Pool, create_pool
from surefoot.http.server import HttpService
from surefoot.idempotency import Completer, Idempotency, Idempotent, Store, Tx, idempotent
from tests.support.idempotency.reference_app import app_settings

PROVIDER = "CRASH_PROVIDER"
"""It charges once for each `key`, once for each `reference` (the id that we minted), or `always`."""
GATE = 4711
"""The first half of the locks that tests close as gates."""
GATES = {"handler": 1, "provider": 2}
SCHEMA = """
CREATE SCHEMA IF NOT EXISTS crash;
CREATE TABLE IF NOT EXISTS crash.calls (number bigint GENERATED ALWAYS AS IDENTITY, mark text NOT NULL);
CREATE TABLE IF NOT EXISTS crash.charges (number bigint GENERATED ALWAYS AS IDENTITY, mark text NOT NULL,
    seen_as text NOT NULL);
CREATE TABLE IF NOT EXISTS crash.entries (number bigint GENERATED ALWAYS AS IDENTITY, mark text NOT NULL);
"""
CHARGE = """
WITH found AS (SELECT number FROM crash.charges WHERE seen_as = $2),
charged AS (
    INSERT INTO crash.charges (mark, seen_as) SELECT $1, $2 WHERE NOT EXISTS (SELECT FROM found) RETURNING number)
SELECT number FROM found UNION ALL SELECT number FROM charged
"""


class Order(BaseModel):
    mark: str
    amount: int
    at_once: bool = False
    """The provider is called without a phase before it."""
    gate: str = ""
    """Where it waits, if the test has closed a gate there: see GATES."""


@dataclass(frozen=True, slots=True)
class Charged:
    number: int


class Provider:
    def __init__(self, pool: Pool, manner: str) -> None:
        self._pool = pool
        self._manner = manner

    async def hears(self, order: Order) -> None:
        """That the work has begun: a test may wait for it."""
        async with self._pool.acquire() as connection:
            await connection.execute("INSERT INTO crash.calls (mark) VALUES ($1)", order.mark)

    async def passes(self, order: Order, where: str) -> None:
        if order.gate == where:
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock_shared($1, $2)", GATE, GATES[where])

    async def charge(self, order: Order, reference: str, *, key: str) -> Charged:
        seen_as = {"key": key, "reference": reference}.get(self._manner, uuid.uuid4().hex)
        async with self._pool.acquire() as connection:
            async with connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock(hashtext($1))", seen_as)
                number = await connection.fetchval(CHARGE, order.mark, seen_as)
        await self.hears(order)
        await self.passes(order, "provider")
        return Charged(number)


async def create(tx: Tx) -> None:
    return None


async def finish(tx: Tx, mark: str) -> None:
    await tx.session.execute(text("INSERT INTO crash.entries (mark) VALUES (:mark)"), {"mark": mark})


def make_app(store: Store, provider: Provider) -> FastAPI:
    app = FastAPI()
    app.add_middleware(Idempotency, store=store, settings=app_settings(), tenant=lambda _: "one")

    @app.post("/charges", status_code=201)
    @idempotent(effect="outside")
    async def charge(order: Order, request: Idempotent) -> dict[str, Any]:
        thing = request.mint(id=lambda: uuid.uuid4().hex, at=lambda: datetime.now(UTC))
        await provider.passes(order, "handler")
        if not order.at_once:
            await request.phase("created", create)
        charged = await request.call("charge", provider.charge, order, thing.id)
        await request.phase("finished", finish, order.mark)
        return {"id": thing.id, "at": thing.at, "charge": charged.number, "unminted": uuid.uuid4().hex}

    @app.post("/entries", status_code=201)
    @idempotent(effect="local")
    async def entry(order: Order, request: Idempotent) -> dict[str, Any]:
        await finish(request.tx, order.mark)
        await provider.hears(order)
        await provider.passes(order, "handler")
        return {"unminted": uuid.uuid4().hex}

    return app


async def serve(url: str, listener: socket.socket, *, completer: bool) -> None:
    settings = app_settings()
    store = Store(url, settings, pool_size=10)
    pool = await create_pool(url, name="the provider", size=4)
    app = make_app(store, Provider(pool, os.environ.get(PROVIDER, "key")))
    service = HttpService(app, listener)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, service.stop)
    tasks = [asyncio.create_task(Completer(app, store, settings).run(stop))] if completer else []
    try:
        await service.run()
    finally:
        stop.set()
        await asyncio.gather(*tasks)
        await store.close()
        await pool.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", required=True)
    parser.add_argument("--completer", action="store_true", help="go on with abandoned requests, too")
    given = parser.parse_args()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    print(f"listening at http://127.0.0.1:{listener.getsockname()[1]}", flush=True)  # noqa: T201
    asyncio.run(serve(given.database, listener, completer=given.completer))


if __name__ == "__main__":
    main()
