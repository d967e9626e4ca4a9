"""A small API for tests of idempotent requests: one route for each way a route can be declared.

    python -m tests.support.idempotency.reference_app --database postgresql://… --port 0 --completer

prints `listening at http://127.0.0.1:…`. What it offers is written in tests/blackbox/idempotency/README.md; all that
can be set by SUREFOOT_IDEMPOTENCY_… and SUREFOOT_FAILPOINTS holds here too.
"""

import argparse
import asyncio
import hashlib
import itertools
import signal
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, SecretStr
from sqlalchemy import text

from surefoot.database.connection import Pool
from surefoot.http.server import HttpService
from surefoot.idempotency import (
    Completer,
    Housekeeping,
    Idempotency,
    IdempotencySettings,
    Idempotent,
    Store,
    Tx,
    idempotent,
)
from surefoot.idempotency.request.idempotent import Minted
from tests.support.event_types import ThingHappened
from tests.support.idempotency.provider import SCHEMA as PROVIDER_SCHEMA
from tests.support.idempotency.provider import Charged, Refused, TableProvider, open_pool
from tests.support.idempotency.reference_middleware import Door, Quiet

SECRET = SecretStr("c3VyZWZvb3QtdGVzdHMtc3VyZWZvb3QtdGVzdHMtMTI=")
SCHEMA = f"""
CREATE SCHEMA IF NOT EXISTS reference;
CREATE TABLE IF NOT EXISTS reference.runs (number bigint GENERATED ALWAYS AS IDENTITY, mark text NOT NULL);
CREATE TABLE IF NOT EXISTS reference.effects (id text PRIMARY KEY, mark text NOT NULL, charge_id text);
{PROVIDER_SCHEMA}
"""
ALWAYS = 1_000_000


class Provider(Protocol):
    async def charge(self, mark: str, amount: float, manner: str, *, key: str) -> Charged: ...

    async def count(self, mark: str) -> int: ...


class Work(BaseModel):
    model_config = ConfigDict(extra="allow")

    mark: str
    amount: float
    delay_ms: int = 0
    status: int = 201
    times: int = ALWAYS
    kind: str = "json"
    provider: str = "answer"


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    mark: str
    run: int
    price: Decimal


class Works:
    """What the routes do."""

    def __init__(self, pool: Pool, provider: Provider) -> None:
        self._pool = pool
        self.provider = provider

    async def begun(self, mark: str) -> int:
        """How often the work of this mark has begun, with this time."""
        async with self._pool.acquire() as connection:
            await connection.execute("INSERT INTO reference.runs (mark) VALUES ($1)", mark)
            return int(await connection.fetchval("SELECT count(*) FROM reference.runs WHERE mark = $1", mark))

    async def counted(self, mark: str) -> dict[str, int]:
        async with self._pool.acquire() as connection:
            runs = await connection.fetchval("SELECT count(*) FROM reference.runs WHERE mark = $1", mark)
            effects = await connection.fetchval(
                "SELECT count(*) FROM reference.effects WHERE mark = $1 AND charge_id IS NULL", mark
            )
        return {"runs": int(runs), "effects": int(effects) + await self.provider.count(mark)}

    async def rows(self, query: str, *values: object) -> list[Any]:
        async with self._pool.acquire() as connection:
            return await connection.fetch(query, *values)

    async def local(self, work: Work, request: Idempotent) -> Response:
        run = await self.begun(work.mark)
        thing = request.mint(id=new_id, at=now)
        await request.tx.session.execute(
            text("INSERT INTO reference.effects (id, mark) VALUES (:id, :mark)"), {"id": thing.id, "mark": work.mark}
        )
        request.tx.publish(ThingHappened(thing_id=thing.id, number=run))
        await asyncio.sleep(work.delay_ms / 1000)
        return answer(work, thing, _status(work, run))

    async def outside(self, work: Work, request: Idempotent) -> Response:
        run = await self.begun(work.mark)
        thing = request.mint(id=new_id, at=now)
        row = await request.phase("created", create, thing.id, work.mark, run)
        await asyncio.sleep(work.delay_ms / 1000)
        status = _status(work, run)
        manner = work.provider if run <= work.times else "answer"
        if 400 <= status < 500:
            manner = str(status)
        try:
            paid = await request.call("charge", self.provider.charge, row.mark, work.amount, manner, answers=(Refused,))
        except Refused as refusal:
            raise HTTPException(refusal.status, "the provider refuses") from refusal
        if status >= 500 or status == 0:
            return answer(work, thing, status)
        await request.phase("finished", finish, row, paid)
        return answer(work, thing, status)


async def create(tx: Tx, id: str, mark: str, run: int) -> Row:  # noqa: A002 - the word of the domain
    tx.publish(ThingHappened(thing_id=id, number=run, note="created"))
    return Row(id, mark, run, Decimal("1.10"))


async def finish(tx: Tx, row: Row, paid: Charged) -> None:
    await tx.session.execute(
        text("INSERT INTO reference.effects (id, mark, charge_id) VALUES (:id, :mark, :charge)"),
        {"id": row.id, "mark": row.mark, "charge": paid.charge_id},
    )
    tx.publish(ThingHappened(thing_id=row.id, number=row.run, note="finished"))


def _status(work: Work, run: int) -> int:
    return work.status if run <= work.times else 201


def answer(work: Work, thing: Minted, status: int) -> Response:
    if status == 0:
        raise RuntimeError("the work failed, as it was told to")
    response: Response
    match work.kind:
        case "empty":
            response = Response(status_code=status)
        case "text":
            response = Response(f"<p>☕ {thing.id}</p>", status, media_type="text/html")
        case "binary":
            response = Response(bytes(range(256)) + thing.id.encode(), status, media_type="application/octet-stream")
        case "spaced":
            response = Response(
                f'{{ "id" : "{thing.id}",\n  "amount":   100.0 }}', status, media_type="application/json"
            )
        case "redirect":
            response = Response(status_code=303)
        case "large":
            response = Response(b"x" * (2 * 1024 * 1024), status)
        case _:
            made = {"id": thing.id, "at": thing.at.isoformat(), "mark": work.mark, "amount": work.amount}
            response = JSONResponse(made, status)
    response.headers["location"] = f"/things/{thing.id}"
    response.headers["x-thing"] = thing.id
    response.headers.append("link", f"</things/{thing.id}>; rel=self")
    response.headers.append("link", "</things>; rel=collection")
    response.set_cookie("seen", thing.id)
    return response


def new_id() -> str:
    return f"thing_{uuid.uuid4().hex}"


def now() -> datetime:
    return datetime.now(UTC)


def tenant_of(request: Request) -> str:
    return str(request.state.tenant)


def make_app(store: Store, settings: IdempotencySettings, works: Works) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await store.open()
        yield

    app = FastAPI(lifespan=lifespan)
    app.add_middleware(Idempotency, store=store, tenant=tenant_of, settings=settings)
    app.add_middleware(Door, largest_body=settings.largest_body)
    _add_local(app, works)
    _add_outside(app, works)
    _add_looking(app, works)
    return app


def _add_local(app: FastAPI, works: Works) -> None:
    hour, second = timedelta(hours=1), timedelta(seconds=1)
    ways: dict[str, dict[str, Any]] = {
        "/local": {},
        "/local/{part}": {},
        "/replayed-failures": {"on_failure": "replay"},
        "/optional": {"key": "optional"},
        "/counted": {"key": "counted"},
        "/off": {"key": "off"},
        "/short-replay": {"replay_for": second, "gone_for": hour},
        "/short-gone": {"replay_for": second / 2, "gone_for": second / 2},
    }
    for path, way in ways.items():

        @app.api_route(path, methods=["POST", "PATCH"], status_code=201, name=path)
        @idempotent(**way)
        async def local(work: Work, request: Idempotent) -> Response:
            return await works.local(work, request)

    @app.post("/open")
    @idempotent(fail_open=True)
    async def fail_open(work: Work, request: Idempotent) -> dict[str, Any]:
        """Does without the store: it uses nothing of it."""
        return {"protected": request.protected, "run": await works.begun(work.mark)}

    @app.post("/open-tx")
    @idempotent(fail_open=True)
    async def fail_open_tx(work: Work, request: Idempotent) -> Response:
        return await works.local(work, request)

    @app.post("/raw", status_code=201)
    @idempotent()
    async def raw(http: Request, mark: str, request: Idempotent) -> dict[str, Any]:
        content = await http.body()
        await works.begun(mark)
        thing = request.mint(id=new_id)
        await request.tx.session.execute(
            text("INSERT INTO reference.effects (id, mark) VALUES (:id, :mark)"), {"id": thing.id, "mark": mark}
        )
        return {"id": thing.id, "length": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _add_outside(app: FastAPI, works: Works) -> None:
    ways: dict[str, dict[str, Any]] = {
        "/outside": {},
        "/outside-replayed": {"on_failure": "replay"},
        "/outside-optional": {"key": "optional"},
        "/outside-twice": {"attempts": 2},
    }
    for path, way in ways.items():

        @app.post(path, status_code=201, name=path)
        @idempotent(effect="outside", **way)
        async def outside(work: Work, request: Idempotent) -> Response:
            return await works.outside(work, request)

    @app.post("/outside-moody", status_code=201)
    @idempotent(effect="outside")
    async def moody(work: Work, request: Idempotent) -> Response:
        """Refuses the second attempt before it does anything: with 422, or with what it is told."""
        request.mint(id=new_id, at=now)
        if request.attempt == 2:
            raise HTTPException(getattr(work, "mood", 422), "not now")
        return await works.outside(work, request)


def _add_looking(app: FastAPI, works: Works) -> None:
    looks = itertools.count(1)

    @app.api_route("/local", methods=["GET", "HEAD"])
    async def look(response: Response) -> dict[str, int]:
        number = next(looks)
        response.headers["x-look"] = str(number)
        return {"look": number}

    @app.get("/effects")
    async def effects(mark: str) -> dict[str, int]:
        return await works.counted(mark)


@asynccontextmanager
async def open_works(url: str, provider: Provider | None = None) -> AsyncIterator[Works]:
    pool = await open_pool(url)
    try:
        async with pool.acquire() as connection:
            await connection.execute("SELECT pg_advisory_lock(7)")  # two processes that start at once
            await connection.execute(SCHEMA)
            await connection.execute("SELECT pg_advisory_unlock(7)")
        yield Works(pool, provider or TableProvider(pool))
    finally:
        await pool.close()


def app_settings(**changes: Any) -> IdempotencySettings:
    return IdempotencySettings(**{"secrets": (SECRET,), **changes})


async def serve(url: str, listener: socket.socket, *, pool_size: int, completer: bool) -> None:
    settings = app_settings()
    store = Store(url, settings, pool_size=pool_size)
    async with open_works(url) as works:
        app = make_app(store, settings, works)
        service = HttpService(Quiet(app), listener)
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, service.stop)
        background = [Housekeeping(store, settings).run(stop)]
        if completer:
            background.append(Completer(app, store, settings).run(stop))
        tasks = [asyncio.create_task(one) for one in background]
        try:
            await service.run()
        finally:
            stop.set()
            await asyncio.gather(*tasks)
            await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--pool", type=int, default=20)
    parser.add_argument("--completer", action="store_true", help="go on with abandoned requests, too")
    given = parser.parse_args()
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", given.port))
    listener.listen(2048)
    print(f"listening at http://127.0.0.1:{listener.getsockname()[1]}", flush=True)  # noqa: T201
    asyncio.run(serve(given.database, listener, pool_size=given.pool, completer=given.completer))


if __name__ == "__main__":
    main()
