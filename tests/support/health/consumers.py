"""A consumer whose handler takes its time: `number` seconds, with the event loop or without it."""

import asyncio
import time

from surefoot.consumer import Consumer, Transaction
from surefoot.events import Event
from tests.support.event_types import ThingHappened

BLOCKS = "blocks"
STEPS_PER_SECOND = 100
slow = Consumer("slow")


@slow.on(ThingHappened)
async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
    if event.data.note == BLOCKS:
        # In steps: frozen in the middle, it goes on with those that are left, and a long sleep would be over.
        for _ in range(event.data.number * STEPS_PER_SECOND):
            time.sleep(1 / STEPS_PER_SECOND)  # noqa: ASYNC251  # what a handler must not do
    else:
        await asyncio.sleep(event.data.number)
