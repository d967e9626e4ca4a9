"""From a handler that fails for good to its row in the API, on the embedded default and with everybody's own settings:
consumer, outbox, relay, log, intake, HTTP."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Protocol

import httpx

from surefoot.admin import PREFIX, api
from surefoot.audit.access import Access, Tokens
from surefoot.audit.settings import AccessSettings
from surefoot.cli.topics import declared
from surefoot.consumer import Consumer, Permanent, Transaction
from surefoot.consumer_runtime.runtime import ConsumerRuntime
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.database.connection import connect
from surefoot.dlq.runtime import DlqRuntime
from surefoot.dlq.settings import DlqSettings
from surefoot.errors import SurefootError
from surefoot.events import Catalogue, Event, EventData, new_event
from surefoot.log.postgres.log import PostgresLog
from surefoot.outbox import transaction
from surefoot.relay.runtime import Relay
from surefoot.relay.settings import RelaySettings

TRIES = 10
PATIENCE_S = 30.0
catalogue = Catalogue(source="/bench/first")
events = catalogue.topic("first.events", partitions=8)
consumer = Consumer("first")
failed_at: dict[str, float] = {}


@catalogue.event("first.tried", topic=events, key="number")
class Tried(EventData):
    number: str


@consumer.on(Tried)
async def try_it(event: Event[Tried], tx: Transaction) -> None:
    failed_at.setdefault(event.id, time.perf_counter())
    raise Permanent("This one can never be handled.")


class _Runs(Protocol):
    async def run(self) -> None: ...

    def stop(self) -> None: ...


async def first_failure(url: str) -> float:
    """Milliseconds, the longest of some."""
    log = PostgresLog(url)
    connection = await connect(url, name="bench")
    try:
        await log.create(declared(catalogue))
        async with connection.transaction():
            made = await Tokens(connection, "surefoot").create("b", "VIEWER", lifetime=timedelta(days=1), by="b")
        async with AsyncExitStack() as running:
            for service in (
                Relay(url, log, RelaySettings()),
                ConsumerRuntime(consumer, url, log, ConsumerSettings()),
                DlqRuntime(url, log, DlqSettings()),
            ):
                await running.enter_async_context(_running(service))
            client = await running.enter_async_context(_client(url, made.token))
            return max([await _one(url, client, str(number)) for number in range(TRIES)])
    finally:
        await connection.close()
        await log.close()


async def _one(url: str, client: httpx.AsyncClient, number: str) -> float:
    event = new_event(Tried(number=number))
    connection = await connect(url, name="bench")
    try:
        async with transaction(connection) as tx:
            tx.add(event)
    finally:
        await connection.close()
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        answer = await client.get(f"{PREFIX}/events", params={"key": number})
        if answer.json()["events"]:
            return (time.perf_counter() - failed_at[event.id]) * 1000
        await asyncio.sleep(0.005)
    raise SurefootError(f"A dead letter was not in the API within {PATIENCE_S:g} s: the bench says nothing without it.")


@asynccontextmanager
async def _running(service: _Runs) -> AsyncIterator[None]:
    task = asyncio.create_task(service.run())
    try:
        yield
    finally:
        service.stop()
        await task


@asynccontextmanager
async def _client(url: str, token: str) -> AsyncIterator[httpx.AsyncClient]:
    generous = AccessSettings(requests_per_second=100_000, requests_at_once=100_000)
    app = api(url, "surefoot", DlqSettings(), Access(generous), catalogue)
    async with app.router.lifespan_context(app):
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://bench", headers=headers
        ) as client:
            yield client
