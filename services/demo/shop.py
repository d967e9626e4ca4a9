"""The services of the demo's first act. Order and payment commit their own rows with an event in the same transaction;
some transactions change their mind and roll back, and their events must never be seen.

The warehouse is a consumer that sets goods aside for paid orders, and fails on one of them. It writes its row, and the
event that tells of it, in the transaction that takes the event off the inbox.
"""

import asyncio
import random
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID, uuid4

from sqlalchemy import Column, Integer, MetaData, Table, Text, Uuid, insert, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from schemas.order import OrderCancelled, OrderPaid, OrderPendingPayment, PlacementRequested
from schemas.parts import Address, Line, StockLine
from schemas.payment import PaymentCaptured
from schemas.warehouse import StockReserved
from surefoot import outbox
from surefoot.consumer import Consumer, Retry, Transaction, Transient
from surefoot.events import Event, EventData, Money, event_type_of
from surefoot.testing.checkers import Committed

metadata = MetaData(schema="shop")
journal = Table(
    "journal",
    metadata,
    Column("event_id", Uuid, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("order_id", Text, nullable=False),
    Column("step", Integer, nullable=False),
)
reservations = Table(
    "reservations",
    metadata,
    Column("order_id", Text, nullable=False, comment="no key: if an order were set aside twice, it would show"),
)
JAMMED_ORDER = "order-jammed"
"""The one order that the warehouse cannot set aside."""
warehouse = Consumer("demo-warehouse", retry=Retry(attempts=3, first=timedelta(seconds=1.5)))


@dataclass(slots=True)
class Counts:
    committed: int = 0
    rolled_back: int = 0
    orders: int = 0


@dataclass(slots=True)
class Shop:
    engine: AsyncEngine
    counts: Counts = field(default_factory=Counts)

    async def open(self) -> None:
        async with self.engine.begin() as connection:
            await connection.execute(text("CREATE SCHEMA IF NOT EXISTS shop"))
            await connection.run_sync(metadata.create_all)

    async def trade(self, orders: int, *, clerks: int, pause_s: float) -> None:
        """Take orders with several clerks at once; each order is four events, and a fifth of the warehouse's."""
        numbers = iter(range(orders))

        async def clerk() -> None:
            for _ in numbers:
                await self._order()
                await asyncio.sleep(pause_s * random.random() * 2)

        await asyncio.gather(*(clerk() for _ in range(clerks)))

    async def trade_in_trouble(self) -> None:
        """An order that the warehouse will fail on, and its cancellation, which has to wait behind it."""
        await self._order(JAMMED_ORDER)
        session_id = f"session-{JAMMED_ORDER}"
        cancelled = OrderCancelled(
            order_id=JAMMED_ORDER, checkout_session_id=session_id, mode="choreographed", reason="customer_request"
        )
        await self._commit(JAMMED_ORDER, 5, cancelled, None)

    async def _order(self, order_id: str | None = None) -> None:
        order_id = order_id or f"order-{uuid4().hex[:8]}"
        cause: Event[EventData] | None = None
        for number, data in enumerate(_story(order_id)):
            cause = await self._commit(order_id, number, data, cause)
        self.counts.orders += 1

    async def _commit(
        self, order_id: str, number: int, data: EventData, cause: Event[EventData] | None
    ) -> Event[EventData]:
        while True:
            async with AsyncSession(self.engine) as session:
                event = outbox.add(session, data, caused_by=cause)
                topic = event_type_of(data).topic.name
                row = {"event_id": UUID(event.id), "topic": topic, "order_id": order_id, "step": number}
                await session.execute(insert(journal).values(row))
                if random.random() < 0.05:  # the customer hesitates: nothing of this may be seen
                    await session.rollback()
                    self.counts.rolled_back += 1
                    continue
                await session.commit()
                self.counts.committed += 1
                return event

    async def set_aside(self) -> tuple[int, int]:
        """How many orders the warehouse has set aside, and how many of them more than once."""
        query = text("SELECT count(DISTINCT order_id), count(*) - count(DISTINCT order_id) FROM shop.reservations")
        async with self.engine.connect() as connection:
            row = (await connection.execute(query)).one()
            return row[0], row[1]

    async def committed(self) -> list[Committed]:
        """What was committed, in the order Postgres committed it."""
        query = text("SELECT event_id, topic, order_id, pg_xact_commit_timestamp(xmin) AS at, step FROM shop.journal")
        async with self.engine.connect() as connection:
            rows = await connection.execute(query)
            return [Committed(str(row.event_id), f"{row.topic}/{row.order_id}", (row.at, row.step)) for row in rows]


def _story(order_id: str) -> list[EventData]:
    """What the services tell of one order."""
    price = Money.minor(random.randint(500, 20_000), "EUR")
    requested, pending, paid = order_events(order_id, price, sku=f"sku-{random.randint(1, 50)}", country="US")
    captured = PaymentCaptured(
        order_id=order_id,
        payment_id=f"payment-{order_id}",
        gateway="demo",
        gateway_txn_id=f"txn-{order_id}",
        amount=price,
    )
    return [requested, pending, captured, paid]


def order_events(
    order_id: str, price: Money, *, sku: str, country: str
) -> tuple[PlacementRequested, OrderPendingPayment, OrderPaid]:
    """An order of one article, from its request until it is paid."""
    common = {"order_id": order_id, "checkout_session_id": f"session-{order_id}", "mode": "choreographed"}
    lines = (Line(sku=sku, quantity=1, unit_price=price),)
    home = Address(name="A. Buyer", street="1 Main Street", city="Springfield", postal_code="12345", country=country)
    order = {**common, "customer_id": "customer-1", "lines": lines, "total": price}
    return (
        PlacementRequested.model_validate({**order, "ship_to": home}),
        OrderPendingPayment.model_validate(order),
        OrderPaid.model_validate({**common, "payment_id": f"payment-{order_id}", "total": price}),
    )


@warehouse.on(OrderPaid)
async def set_aside(event: Event[OrderPaid], tx: Transaction) -> None:
    order_id = event.data.order_id
    if order_id == JAMMED_ORDER:
        raise Transient("the shelf is jammed")
    await tx.session.execute(insert(reservations).values(order_id=order_id))
    told = tx.publish(
        StockReserved(
            order_id=order_id, reservation_id=f"reservation-{order_id}", lines=(StockLine(sku="sku-1", quantity=1),)
        )
    )
    topic = event_type_of(told.data).topic.name
    row = {"event_id": UUID(told.id), "topic": topic, "order_id": order_id, "step": 4}
    await tx.session.execute(insert(journal).values(row))


@warehouse.on(OrderCancelled)
async def put_back(event: Event[OrderCancelled], tx: Transaction) -> None:
    await tx.session.execute(reservations.delete().where(reservations.c.order_id == event.data.order_id))
