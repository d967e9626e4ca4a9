"""The reference app on a real port, in the test's own process, with what a test wants to know of it."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
from prometheus_client import REGISTRY
from starlette.types import ASGIApp

from surefoot.http.server import HttpService
from surefoot.idempotency import IdempotencySettings, Store
from tests.support.idempotency.reference_app import Provider, Works, app_settings, make_app, open_works
from tests.support.idempotency.reference_middleware import Quiet
from tests.support.waiting import eventually

REPLAYED = "x-idempotency-replayed"


@dataclass(frozen=True, slots=True)
class Ground:
    url: str
    """Of the database."""
    app: ASGIApp
    store: Store
    settings: IdempotencySettings
    works: Works
    client: httpx.AsyncClient

    async def post(self, path: str, key: str | None, **members: Any) -> httpx.Response:
        members.setdefault("mark", key or "none")
        headers = {} if key is None else {"Idempotency-Key": key}
        return await self.client.post(path, json={"amount": 100, **members}, headers=headers)

    async def rows(self, query: str, *values: object) -> list[Any]:
        return await self.works.rows(query, *values)

    async def state(self, resource: str) -> Any:
        """The key's row, by what it makes."""
        (row,) = await self.rows("SELECT * FROM surefoot.idempotency_keys WHERE resource = $1", resource)
        return row

    async def runs(self, mark: str) -> int:
        return (await self.works.counted(mark))["runs"]

    async def effects(self, mark: str) -> int:
        return (await self.works.counted(mark))["effects"]

    async def begun(self, mark: str) -> None:
        async def has_begun() -> bool:
            return await self.runs(mark) > 0

        await eventually(has_begun, what=f"the work of {mark} begins")


def metric(name: str, **labels: str) -> float:
    """Of those whose names begin with surefoot_idempotency; 0 if there is none with these labels yet."""
    return REGISTRY.get_sample_value(f"surefoot_idempotency_{name}", labels) or 0.0


def new_key() -> str:
    return uuid4().hex


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[httpx.AsyncClient]:
    """A client for the app, over a real port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(512)
        service = HttpService(app, listener)
        serving = asyncio.create_task(service.run())

        async def has_started() -> bool:
            return service.has_started

        await eventually(has_started, what="the server starts")
        base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        limits = httpx.Limits(max_connections=256, max_keepalive_connections=256)
        headers = {"Authorization": "Bearer one"}
        try:
            async with httpx.AsyncClient(
                base_url=base_url, headers=headers, limits=limits, timeout=30, trust_env=False
            ) as client:
                yield client
        finally:
            service.stop()
            await serving


@asynccontextmanager
async def ground(
    url: str, *, provider: Provider | None = None, store_url: str | None = None, **changes: Any
) -> AsyncIterator[Ground]:
    settings = app_settings(**changes)
    store = Store(store_url or url, settings, pool_size=8)
    async with open_works(url, provider) as works:
        app = make_app(store, settings, works)
        try:
            async with served(Quiet(app)) as client:
                yield Ground(url, app, store, settings, works, client)
        finally:
            await store.close()
