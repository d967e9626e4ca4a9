"""Consumers for tests of the command line, where a process of its own loads them by name."""

from surefoot.consumer import Consumer, Permanent, Transaction
from surefoot.events import Event
from tests.support.consumer.effects import have_effect
from tests.support.event_types import ThingHappened

UNLUCKY = 13
warehouse = Consumer("warehouse")
idle = Consumer("idle")
three = 3


@warehouse.on(ThingHappened)
async def put_away(event: Event[ThingHappened], tx: Transaction) -> None:
    if event.data.number == UNLUCKY:
        raise Permanent("Thirteen is not put away.")
    await have_effect(event, tx)
