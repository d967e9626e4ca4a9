"""What the tests of the payments API stand on: its tables, the provider as a process, and the API over real HTTP."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
from cryptography.fernet import Fernet
from pydantic import SecretStr

from services.checks import charges, ledger
from services.payment.api.access import Access, tenants_by_hash
from services.payment.api.app import Parts, api
from services.payment.http_gateway import HttpGateway
from services.payment.settings import PaymentSettings
from services.settings import ServiceSettings
from services.tables import create_tables
from surefoot.http.server import HttpService
from surefoot.idempotency import IdempotencySettings, Store
from tests.support.services.provider_process import ProviderProcess, provider_running

ACME_KEY = "sk_acme_0123456789abcdef"
BOLT_KEY = "sk_bolt_0123456789abcdef"
ACCESS = Access(tenants_by_hash(f'{{"{ACME_KEY}": "acme", "{BOLT_KEY}": "bolt"}}'))
EUR_20 = {"minor_units": 2000, "currency": "EUR"}
# Everything compressed: an answer of the provider counts as lost after half a second.
QUICK: dict[str, Any] = {
    "lease": timedelta(seconds=2),
    "renew_every": timedelta(milliseconds=500),
    "longest_lease": timedelta(seconds=20),
    "grace": timedelta(milliseconds=100),
    "complete_every": timedelta(milliseconds=100),
    "retry_first": timedelta(milliseconds=100),
    "retry_longest": timedelta(seconds=1),
    "call_timeout": timedelta(seconds=5),
}


def settings(**changes: Any) -> IdempotencySettings:
    return IdempotencySettings(secrets=(SecretStr(Fernet.generate_key().decode()),), **{**QUICK, **changes})


@dataclass(slots=True)
class Api:
    """The API, served at a port of this process; asked as a client would."""

    url: str
    connection: asyncpg.Connection
    provider: ProviderProcess
    client: httpx.AsyncClient

    async def post(
        self, path: str, body: Any, *, key: str | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """As acme, under a new key unless one is given."""
        return await self.client.post(
            path, json=body, headers={"Idempotency-Key": key or new_key(), **authorised(), **(headers or {})}
        )

    async def get(self, path: str, api_key: str = ACME_KEY) -> httpx.Response:
        return await self.client.get(path, headers=authorised(api_key))

    async def charge(self, units: int = 2000, *, key: str | None = None, **more: Any) -> httpx.Response:
        body = {"amount": {"minor_units": units, "currency": "EUR"}, **more}
        return await self.post("/v1/charges", body, key=key)

    async def captured(self, units: int = 2000) -> str:
        """The id of a new charge that was captured."""
        answer = await self.charge(units)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def refund(self, charge_id: str, units: int, *, key: str | None = None) -> httpx.Response:
        body = {"charge_id": charge_id, "amount": {"minor_units": units, "currency": "EUR"}}
        return await self.post("/v1/refunds", body, key=key)

    async def balance(self, name: str = "main-EUR") -> int:
        answer = await self.get(f"/v1/accounts/{name}")
        assert answer.status_code == 200, answer.text
        return int(answer.json()["balance"]["minor_units"])

    async def open(self, name: str, currency: str = "EUR", cap: int | None = None) -> httpx.Response:
        body: dict[str, Any] = {"currency": currency}
        if cap is not None:
            body["cap"] = {"minor_units": cap, "currency": currency}
        return await self.client.put(f"/v1/accounts/{name}", json=body, headers=authorised())

    async def transfer(self, source: str, target: str, units: int, *, key: str | None = None) -> httpx.Response:
        body = {"source": source, "target": target, "amount": {"minor_units": units, "currency": "EUR"}}
        return await self.post("/v1/transfers", body, key=key)

    async def freeze(self) -> None:
        """Acme's main account."""
        await self.connection.execute("UPDATE ledger.accounts SET frozen = true WHERE account_id = 'acme/main-EUR'")

    async def release(self) -> None:
        await self.connection.execute("UPDATE ledger.accounts SET frozen = false WHERE account_id = 'acme/main-EUR'")

    async def told(self) -> list[str]:
        """The types of the events of charges that were published, in order."""
        rows = await self.connection.fetch(
            "SELECT event_type FROM surefoot.outbox_events WHERE topic = 'charge.events' ORDER BY position"
        )
        return [row[0] for row in rows]

    async def assert_sound(self) -> None:
        """The books of the API, the provider and the ledger agree, and nothing is unfinished."""
        everywhere = ServiceSettings(database=self.url)
        assert await charges.check(everywhere) == []
        assert await ledger.check(self.url) == []


def new_key() -> str:
    return str(uuid4())


def authorised(api_key: str = ACME_KEY) -> dict[str, str]:
    return {"Authorization": f"Bearer {api_key}"}


def assert_problem(answer: httpx.Response, status: int, reason: str, words: str = "") -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body["reason"] == reason, answer.text
    assert words in body["detail"]
    return body


@asynccontextmanager
async def api_ground(url: str, directory: Path, *provider_options: str, **changes: Any) -> AsyncIterator[Api]:
    await create_tables(url, "payment")
    await create_tables(url, "ledger")
    connection = await asyncpg.connect(url)
    layer = settings(**changes)
    async with provider_running(url, directory, *provider_options) as provider, Store(url, layer) as store:
        gateway = HttpGateway(PaymentSettings(provider_url=provider.url, answer_within=timedelta(milliseconds=500)))
        parts = Parts(url, store, layer, ACCESS, gateway)
        try:
            async with _served(parts) as client:
                yield Api(url, connection, provider, client)
        finally:
            await gateway.close()
            await connection.close()


@asynccontextmanager
async def _served(parts: Parts) -> AsyncIterator[httpx.AsyncClient]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        service = HttpService(api(parts), listener)
        running = asyncio.create_task(service.run())
        try:
            at = f"http://127.0.0.1:{listener.getsockname()[1]}"
            async with httpx.AsyncClient(base_url=at, timeout=30, trust_env=False) as client:
                yield client
        finally:
            service.stop()
            await running
