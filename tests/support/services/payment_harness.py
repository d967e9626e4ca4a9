"""What the payment service's tests stand on: its tables, the provider as a process, the Postgres log, commands."""

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg

from consumers.payment import choreography_consumer, payment_consumer
from schemas import catalogue
from schemas.payment import CapturePayment, RefundPayment, ReversePayment
from services.payment.http_gateway import HttpGateway
from services.payment.settings import PaymentSettings
from services.tables import create_tables
from surefoot.cli.topics import declared
from surefoot.consumer import Retry
from surefoot.consumer.handlers import call_keys
from surefoot.consumer_runtime.runtime import ConsumerRuntime
from surefoot.events import Event, EventData, Money, new_event
from surefoot.events.event import Command, Direction
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.controls import settled_as
from tests.support.consumer.processes import consumer_running, publish
from tests.support.services.provider_process import ProviderProcess, provider_running

QUICK_RETRY = Retry(attempts=4, first=timedelta(milliseconds=20), longest=timedelta(milliseconds=50))
EUR_20 = Money.minor(2000, "EUR")


@dataclass(slots=True)
class PaymentGround:
    url: str
    connection: asyncpg.Connection
    log: PostgresLog
    provider: ProviderProcess
    gateway: HttpGateway

    def commands_running(self, *, retry: Retry = QUICK_RETRY) -> AbstractAsyncContextManager[ConsumerRuntime]:
        return consumer_running(payment_consumer(self.gateway, retry=retry), self.url, self.log)

    def choreography_running(self) -> AbstractAsyncContextManager[ConsumerRuntime]:
        return consumer_running(choreography_consumer(self.gateway, retry=QUICK_RETRY), self.url, self.log)

    async def send(self, *events: Event[Any]) -> None:
        await publish(self.log, *events)

    async def settled(self, events: Iterable[Event[Any]], outcome: str, consumer: str = "payment") -> None:
        await settled_as(self.connection, events, outcome, consumer)

    async def told(self, topic: str = "payment.events") -> list[dict[str, Any]]:
        """What was published on the topic, in order: the data, with its type as `type` and the cause as `cause`."""
        rows = await self.connection.fetch(
            "SELECT payload::text, headers::text FROM surefoot.outbox WHERE topic = $1 ORDER BY position", topic
        )
        told = []
        for row in rows:
            headers = dict(json.loads(row["headers"]))
            about = {"type": headers["ce_type"], "cause": headers["ce_causationid"]}
            told.append({**json.loads(row["payload"]), **about})
        return told

    async def types(self, topic: str = "payment.events") -> list[str]:
        return [told["type"] for told in await self.told(topic)]

    async def payment(self, order_id: str = "o-1") -> tuple[str, int, int] | None:
        """Status, amount, refunded."""
        query = "SELECT status, amount, refunded FROM payments.payments WHERE order_id = $1"
        row = await self.connection.fetchrow(query, order_id)
        return None if row is None else tuple(row)

    async def attempts(self) -> list[int]:
        return [row[0] for row in await self.connection.fetch("SELECT attempts FROM surefoot.parked_events")]


@asynccontextmanager
async def payment_ground(url: str, directory: Path, *provider_options: str) -> AsyncIterator[PaymentGround]:
    await create_tables(url, "payment")
    connection, log = await asyncpg.connect(url), PostgresLog(url)
    await log.create(declared(catalogue))
    async with provider_running(url, directory, *provider_options) as provider:
        gateway = HttpGateway(PaymentSettings(provider_url=provider.url, answer_within=timedelta(seconds=1)))
        try:
            yield PaymentGround(url, connection, log, provider, gateway)
        finally:
            await gateway.close()
            await log.close()
            await connection.close()


def capture(saga: str = "s-1", order_id: str = "o-1", *, amount: Money = EUR_20, attempt: int = 1) -> Event[Any]:
    data = CapturePayment(order_id=order_id, customer_id="c-1", amount=amount)
    return command(data, saga, "capture_payment", "do", attempt)


def reverse(saga: str = "s-1", order_id: str = "o-1", *, attempt: int = 1) -> Event[Any]:
    return command(ReversePayment(order_id=order_id, amount=EUR_20), saga, "capture_payment", "undo", attempt)


def refund(saga: str, request: str, amount: int, order_id: str = "o-1") -> Event[Any]:
    data = RefundPayment(
        order_id=order_id,
        return_id="ret-1",
        refund_request_id=request,
        amount=Money.minor(amount, "EUR"),
        reason="return_approved",
    )
    return command(data, saga, "refund", "do", 1)


def command(data: EventData, saga: str, step: str, direction: Direction, attempt: int) -> Event[Any]:
    return new_event(data, key=saga, extensions=Command(saga, step, direction, attempt).extensions())


def key_of(do: Event[Any], saga: str = "s-1") -> str:
    """What the charge of this command is asked for with."""
    return call_keys("payment", do, Command(saga, "capture_payment", "do", 1))[0]
