"""A consumer whose database has fallen silent stops all the same, and blames nobody for it."""

import asyncio
from datetime import timedelta

import asyncpg
from structlog.testing import capture_logs

from surefoot.consumer import Consumer, Transaction
from surefoot.consumer_runtime.runtime import ConsumerRuntime
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.events import Event
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.controls import settled_as
from tests.support.consumer.effects import have_effect
from tests.support.consumer.processes import QUICK, publish
from tests.support.event_types import ThingHappened
from tests.support.proxy import Proxy


async def test_a_consumer_whose_database_is_silent_stops_and_blames_no_handler(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    handled = asyncio.Event()
    consumer = Consumer("warehouse")

    async with Proxy(database_url) as proxy:

        @consumer.on(ThingHappened)
        async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
            await have_effect(event, tx)
            if event.data.number == 2:
                proxy.silence()  # in the middle of a transaction, and on the connections that are not in use
                handled.set()

        settings = ConsumerSettings(**{**QUICK, "handler_timeout": timedelta(minutes=1)})  # type: ignore[arg-type]
        runtime = ConsumerRuntime(consumer, proxy.url, log, settings)
        with capture_logs() as lines:
            running = asyncio.create_task(runtime.run())
            (first,) = await publish(log, ThingHappened(thing_id="a", number=1))
            await settled_as(connection, [first], "PROCESSED")
            await publish(log, ThingHappened(thing_id="a", number=2))
            await asyncio.wait_for(handled.wait(), 60)
            runtime.stop()
            await asyncio.wait_for(running, 15)
    assert [line for line in lines if line["log_level"] in ("warning", "error")] == []
