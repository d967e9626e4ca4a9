"""Small apps around a store, for tests that need a handler of their own, and a bank whose books can be read."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
from fastapi import FastAPI

from surefoot.idempotency import Idempotency, IdempotencySettings, Idempotent, Store, idempotent
from tests.support.idempotency.http_harness import new_key, served
from tests.support.idempotency.reference_app import app_settings
from tests.support.idempotency.reference_middleware import Quiet

SETTINGS = app_settings()
Turn = Callable[[], Awaitable[object]]


def app_around(store: Store, settings: IdempotencySettings = SETTINGS) -> FastAPI:
    app = FastAPI()
    app.add_middleware(Idempotency, store=store, tenant=lambda _: "one", settings=settings)
    return app


@dataclass
class Bank:
    """Charges once for each key, and then takes its turn: what it does before it answers."""

    turns: list[Turn] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    charges: Counter[str] = field(default_factory=Counter)
    called: asyncio.Event = field(default_factory=asyncio.Event)

    async def charge(self, *, key: str) -> str:
        self.calls.append(key)
        self.charges[key] = 1
        self.called.set()
        if self.turns:
            await self.turns.pop(0)()
        return f"paid under {key}"


_limits: list[asyncio.Timeout] = []


@asynccontextmanager
async def until_it_hangs() -> AsyncIterator[None]:
    """A timeout that is over as soon as something inside of it hangs, on a slow machine too."""
    async with asyncio.timeout(None) as limit:
        _limits.append(limit)
        try:
            yield
        finally:
            _limits.remove(limit)


async def hangs() -> None:
    for limit in _limits:
        limit.reschedule(asyncio.get_running_loop().time())
    await asyncio.Event().wait()


async def breaks() -> None:
    raise ConnectionResetError("the bank went away")


def paying(store: Store, bank: Bank, settings: IdempotencySettings = SETTINGS) -> FastAPI:
    """An app whose one route charges by one call."""
    app = app_around(store, settings)

    @app.post("/")
    @idempotent(effect="outside")
    async def pay(once: Idempotent) -> str:
        return await once.call("charge", bank.charge)

    return app


async def answers(app: FastAPI, times: int, path: str = "/") -> list[httpx.Response]:
    """Of the same request, sent so often under one key."""
    async with served(Quiet(app)) as client:
        key = {"Idempotency-Key": new_key()}
        return [await client.post(path, headers=key) for _ in range(times)]
