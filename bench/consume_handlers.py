"""The consumers that `make bench-consume` runs, each as a process: `surefoot consume bench.consume_handlers:per_event`.

The environment names the consumer and the topic, so that every run has its own.
"""

import os
from collections.abc import Sequence
from typing import cast

from sqlalchemy import Table, insert, update

from bench import ground
from bench.consume_tables import HOT_ROWS, PlacedRow, StockRow
from surefoot.consumer import Consumer, Transaction
from surefoot.events import Catalogue, Event

NAME = os.environ.get("BENCH_CONSUMER", "bench")
TOPIC = os.environ.get("BENCH_TOPIC", ground.topic.name)

catalogue = Catalogue(source=ground.catalogue.source)
topic = catalogue.topic(TOPIC, partitions=ground.PARTITIONS)


@catalogue.event("bench.order_placed", topic=topic, key="order_id")
class OrderPlaced(ground.OrderPlaced):
    """The same event, read from a topic of this run's own."""


placed = cast(Table, PlacedRow.__table__)
stock = cast(Table, StockRow.__table__)

per_event = Consumer(NAME)
per_event_core = Consumer(NAME)
whole_batch = Consumer(NAME)
hot_rows = Consumer(NAME)


@per_event.on(OrderPlaced)
async def add_row(event: Event[OrderPlaced], tx: Transaction) -> None:
    """As most people would write it."""
    data = event.data
    row = PlacedRow(
        event_id=event.id,
        order_id=data.order_id,
        customer_id=data.customer_id,
        minor_units=data.total.minor_units,
        note=data.note,
    )
    tx.session.add(row)


@per_event_core.on(OrderPlaced)
async def insert_row(event: Event[OrderPlaced], tx: Transaction) -> None:
    """A statement, so a round trip to the database, for every event."""
    await tx.session.execute(insert(placed).values(**_values(event)))


@whole_batch.on_batch(OrderPlaced)
async def insert_rows(events: Sequence[Event[OrderPlaced]], tx: Transaction) -> None:
    await tx.session.execute(insert(placed), [_values(event) for event in events])


@hot_rows.on(OrderPlaced)
async def take_from_stock(event: Event[OrderPlaced], tx: Transaction) -> None:
    """Every partition's batches take from the same few rows, in whatever order the events come."""
    sku = int(event.data.order_id.removeprefix("order-")) % HOT_ROWS
    take = update(stock).where(stock.c.sku == sku, stock.c.quantity >= 1).values(quantity=stock.c.quantity - 1)
    await tx.session.execute(take)


def _values(event: Event[OrderPlaced]) -> dict[str, object]:
    data = event.data
    return {
        "event_id": event.id,
        "order_id": data.order_id,
        "customer_id": data.customer_id,
        "minor_units": data.total.minor_units,
        "note": data.note,
    }
