"""The shop of the third act: its orders go to three countries, and two of them no deploy can mend.

`labels` is a consumer that quotes the postage of an order, and prints its label when it is paid. The deploy that
`SUREFOOT_DEMO_DEPLOY=bad` names has lost a country from its tariffs, as a deploy may.
"""

import asyncio
import os
from datetime import timedelta

from rich.console import Console
from sqlalchemy import Column, Integer, MetaData, Table, Text, insert, select
from sqlalchemy.ext.asyncio import AsyncSession

from schemas.order import OrderPaid, PlacementRequested
from schemas.parts import Address, StockLine
from schemas.shipping import ShipmentRequested
from services.demo.shop import order_events
from surefoot import outbox
from surefoot.consumer import Consumer, Retry, Transaction
from surefoot.database.engine import create_engine
from surefoot.events import Event, EventData, Money

ORDERS = 300
COUNTRIES = ("DE", "FR", "CH")
MISTYPED, TEST = "order-mistyped", "order-test"
"""Two orders that no deploy can mend: to a country that does not exist, and of somebody who tried out the shop."""
DEPLOY = "SUREFOOT_DEMO_DEPLOY"
TARIFFS = {"DE": 490, "FR": 690, "CH": 990}
LOST = "CH"
metadata = MetaData(schema="labels")
quotes = Table("quotes", metadata, Column("order_id", Text, primary_key=True), Column("cents", Integer, nullable=False))
labels_printed = Table(
    "printed",
    metadata,
    Column("order_id", Text, nullable=False, comment="no key: if a label were printed twice, it would show"),
    Column("cents", Integer, nullable=False),
)
labels = Consumer("demo-labels", retry=Retry(attempts=2, first=timedelta(milliseconds=200)))


class NoTariff(Exception):
    """Nobody knows what a parcel to this country costs."""


@labels.on(PlacementRequested)
async def quote(event: Event[PlacementRequested], tx: Transaction) -> None:
    country = event.data.ship_to.country
    if country not in TARIFFS or (country == LOST and os.environ.get(DEPLOY) == "bad"):
        raise NoTariff(f"There is no tariff for parcels to {country}.")
    await tx.session.execute(insert(quotes).values(order_id=event.data.order_id, cents=TARIFFS[country]))


@labels.on(OrderPaid)
async def print_label(event: Event[OrderPaid], tx: Transaction) -> None:
    """It needs the quote: were it to overtake an order's first event, it would fail."""
    order_id = event.data.order_id
    cents = (await tx.session.execute(select(quotes.c.cents).where(quotes.c.order_id == order_id))).scalar_one()
    await tx.session.execute(insert(labels_printed).values(order_id=order_id, cents=cents))
    tx.publish(
        ShipmentRequested(
            order_id=order_id,
            shipment_id=f"shipment-{order_id}",
            carrier="demo",
            lines=(StockLine(sku="sku-1", quantity=1),),
            ship_to=Address(name="A. Buyer", street="1 Main Street", city="Bern", postal_code="3000", country="CH"),
        )
    )


async def take_orders(url: str, console: Console) -> None:
    """Orders come in, in all countries; the wrong ones last."""
    engine = create_engine(url, name="surefoot demo", pool_size=8)
    stories = [events_of(f"order-{n:04}", COUNTRIES[n % len(COUNTRIES)]) for n in range(ORDERS)]

    async def commit(events: list[EventData]) -> None:
        async with AsyncSession(engine) as session, session.begin():
            for data in events:
                outbox.add(session, data)

    for at in range(0, len(stories), 8):
        await asyncio.gather(*map(commit, stories[at : at + 8]))
    await commit(events_of(MISTYPED, "XX"))
    await commit(events_of(TEST, "XX")[:-1])  # it was never paid for
    await engine.dispose()
    console.print(f"{ORDERS + 2} orders taken")


def events_of(order_id: str, country: str) -> list[EventData]:
    return list(order_events(order_id, Money.minor(1999, "EUR"), sku="sku-1", country=country))
