"""`--once` and outside calls: it ends when they have ended, also those that had to wait for a slot."""

import asyncio
from datetime import timedelta

import asyncpg

from surefoot.consumer import Consumer, OutsideCall, Transaction
from surefoot.consumer_runtime.runtime import ConsumerRuntime
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.events import Event
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.effects import effects, have_effect
from tests.support.consumer.failures import keys_together
from tests.support.consumer.processes import QUICK, publish
from tests.support.event_types import ThingHappened


async def test_a_run_of_once_waits_for_calls_that_wait_for_a_slot(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    called = []
    consumer = Consumer("payments")

    async def take_longer_than_the_handover(event: Event[ThingHappened], call: OutsideCall) -> None:
        called.append(event.data.number)
        await asyncio.sleep(0.6)

    @consumer.on(ThingHappened, outside=take_longer_than_the_handover)
    async def finish(event: Event[ThingHappened], tx: Transaction, result: None) -> None:
        await have_effect(event, tx)

    keys = [key for partition in range(4) for key in keys_together(1, partition)]
    await publish(log, *(ThingHappened(thing_id=key, number=n) for n, key in enumerate(keys)))
    settings = {**QUICK, "outside_calls": 1, "handover": timedelta(milliseconds=200)}
    runtime = ConsumerRuntime(consumer, database_url, log, ConsumerSettings(**settings), once=True)  # type: ignore[arg-type]
    await asyncio.wait_for(runtime.run(), 60)
    assert sorted(called) == [0, 1, 2, 3]
    assert sorted(await effects(connection)) == [0, 1, 2, 3]
