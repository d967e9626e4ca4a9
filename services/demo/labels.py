"""The demo's labels: a consumer that quotes the postage of an order, and prints its label when it is paid.

The deploy that `SUREFOOT_DEMO_DEPLOY=bad` names has lost a country from its tariffs, as a deploy may.
"""

import os
from datetime import timedelta

from sqlalchemy import Column, Integer, MetaData, Table, Text, insert, select

from schemas.order import OrderPaid, PlacementRequested
from schemas.parts import Address, StockLine
from schemas.shipping import ShipmentRequested
from surefoot.consumer import Consumer, Retry, Transaction
from surefoot.events import Event

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
