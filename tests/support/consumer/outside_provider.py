"""A consumer with an outside call that writes down who called, for a process of its own (see test_outside_calls)."""

import asyncio
import os

import asyncpg

from surefoot.consumer import Consumer, OutsideCall, Transaction
from surefoot.events import Event
from tests.support.consumer.effects import have_effect
from tests.support.event_types import ThingHappened

CALLS = "CREATE TABLE calls (n bigint GENERATED ALWAYS AS IDENTITY, key text, attempt int, prepared text)"
payments = Consumer("payments")


async def capture(event: Event[ThingHappened], call: OutsideCall) -> str:
    await asyncio.sleep(float(os.environ.get("SUREFOOT_TEST_PROVIDER_TAKES_S", "0")))
    provider = await asyncpg.connect(os.environ["SUREFOOT_TEST_PROVIDER"])
    try:
        await provider.execute(
            "INSERT INTO calls (key, attempt, prepared) VALUES ($1, $2, $3)", call.key, call.attempt, call.prepared
        )
    finally:
        await provider.close()
    return "captured"


async def prepare(event: Event[ThingHappened], tx: Transaction) -> str:
    return f"number {event.data.number}"


@payments.on(ThingHappened, outside=capture, prepare=prepare)
async def captured(event: Event[ThingHappened], tx: Transaction, result: str) -> None:
    await have_effect(event, tx)
