"""What the reviews of the layer stand on: an app around a store, and a provider whose books can be read."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from fastapi import FastAPI

from surefoot.idempotency import Idempotency, IdempotencySettings, Store
from tests.idempotency_app import app_settings

SETTINGS = app_settings()


def app_around(store: Store, settings: IdempotencySettings = SETTINGS) -> FastAPI:
    app = FastAPI()
    app.add_middleware(Idempotency, store=store, tenant=lambda _: "one", settings=settings)
    return app


Turn = Callable[[], Awaitable[object]]


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


async def hangs() -> None:
    await asyncio.Event().wait()


async def breaks() -> None:
    raise ConnectionResetError("the bank went away")
