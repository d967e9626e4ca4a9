"""The demo's warehouse: a consumer that sets goods aside for paid orders, and fails on one of them.

It writes its row, and the event that tells of it, in the transaction that takes the event off the inbox.
"""

from datetime import timedelta
from uuid import UUID

from sqlalchemy import insert

from schemas.order import OrderCancelled, OrderPaid
from schemas.parts import StockLine
from schemas.warehouse import StockReserved
from services.demo.shop import JAMMED_ORDER, journal, reservations
from surefoot.consumer import Consumer, Retry, Transaction, Transient
from surefoot.events import Event, event_type_of

warehouse = Consumer("demo-warehouse", retry=Retry(attempts=3, first=timedelta(seconds=1.5)))


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
