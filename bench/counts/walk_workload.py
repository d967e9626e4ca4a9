"""What the walks are about: an event that fails twice, a saga of two steps. Only public names of the library.

`walk_workload DATABASE_URL ORDER_ID` publishes one event, and has it recorded from `outbox.add` to the commit.
"""

import asyncio
import signal
import sys
from datetime import timedelta

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from surefoot import outbox
from surefoot.consumer import Consumer, Retry, Transaction
from surefoot.events import Catalogue, Event, EventData
from surefoot.saga import Saga

catalogue = Catalogue(source="/bench/walks")
orders = catalogue.topic("walk.orders", partitions=1)
sagas = catalogue.topic("walk.sagas", partitions=1)
commands = catalogue.topic("walk.commands", partitions=1)


@catalogue.event("walk.order_placed", topic=orders, key="order_id")
class OrderPlaced(EventData):
    order_id: str


consumer = Consumer("walk", retry=Retry(attempts=2, first=timedelta(milliseconds=50)))


@consumer.on(OrderPlaced)
async def handle(event: Event[OrderPlaced], tx: Transaction) -> None:
    """Fails until the bench has mended the cause."""
    broken = await tx.session.scalar(text("SELECT count(*) FROM walk_broken WHERE id = :id"), {"id": event.key})
    if broken:
        raise LookupError(f"There is no article for {event.key}.")
    await tx.session.execute(text("INSERT INTO walk_handled (id) VALUES (:id)"), {"id": event.key})


@catalogue.event("walk.order_requested", topic=sagas, key="order_id")
class OrderRequested(EventData):
    """A saga starts."""

    order_id: str


@catalogue.event("walk.act", topic=commands, key="order_id")
class Act(EventData):
    """Every step's command."""

    order_id: str


@catalogue.event("walk.acted", topic=sagas, key="order_id")
class Acted(EventData):
    """Every step's reply."""

    order_id: str


def act(order: OrderRequested) -> Act:
    return Act(order_id=order.order_id)


saga = Saga("walk", version=1, starts_on=OrderRequested)
saga.step("reserve", do=act, done_on=Acted, undo=act, undone_on=Acted, timeout=timedelta(minutes=5))
saga.step(
    "capture",
    do=act,
    done_on=Acted,
    undo=act,
    undone_on=Acted,
    timeout=timedelta(seconds=1),
    unread_counts=True,
    retry=Retry(attempts=3, first=timedelta(milliseconds=50)),
)


async def publish(url: str, order_id: str) -> None:
    engine = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://", 1))
    async with AsyncSession(engine) as session:
        signal.raise_signal(signal.SIGUSR1)
        async with session.begin():
            outbox.add(session, OrderPlaced(order_id=order_id))
        signal.raise_signal(signal.SIGUSR1)
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(publish(*sys.argv[1:]))
