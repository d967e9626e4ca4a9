"""A consumer whose handler takes its time: `number` seconds, with the event loop or without it."""

import asyncio
import time

from surefoot.consumer import Consumer, Transaction
from surefoot.events import Event
from tests.support.event_types import ThingHappened

BLOCKS = "blocks"
slow = Consumer("slow")


@slow.on(ThingHappened)
async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
    if event.data.note == BLOCKS:
        time.sleep(event.data.number)  # noqa: ASYNC251  # what a handler must not do
    else:
        await asyncio.sleep(event.data.number)
