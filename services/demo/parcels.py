"""The orders of the third act: to three countries, and two that no deploy can mend."""

import asyncio

from rich.console import Console
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from schemas.order import OrderPaid, OrderPendingPayment, PlacementRequested
from schemas.parts import Address, Line
from surefoot import outbox
from surefoot.database.connection import sqlalchemy_url
from surefoot.events import EventData, Money

ORDERS = 300
COUNTRIES = ("DE", "FR", "CH")
MISTYPED, TEST = "order-mistyped", "order-test"
"""Two orders that no deploy can mend: to a country that does not exist, and of somebody who tried out the shop."""


async def take_orders(url: str, console: Console) -> None:
    """Orders come in, in all countries; the wrong ones last."""
    engine = create_async_engine(sqlalchemy_url(url), pool_size=8)
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
    price = Money.minor(1999, "EUR")
    lines = (Line(sku="sku-1", quantity=1, unit_price=price),)
    home = Address(name="A. Buyer", street="1 Main Street", city="Springfield", postal_code="12345", country=country)
    session = f"session-{order_id}"
    return [
        PlacementRequested(
            order_id=order_id,
            customer_id="customer-1",
            checkout_session_id=session,
            mode="choreographed",
            lines=lines,
            total=price,
            ship_to=home,
        ),
        OrderPendingPayment(
            order_id=order_id,
            customer_id="customer-1",
            checkout_session_id=session,
            mode="choreographed",
            lines=lines,
            total=price,
        ),
        OrderPaid(
            order_id=order_id,
            checkout_session_id=session,
            mode="choreographed",
            payment_id=f"payment-{order_id}",
            total=price,
        ),
    ]
