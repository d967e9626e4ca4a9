"""The warehouse's part in orders that no orchestrator drives: a paid order takes what its session holds, a cancelled
one gives it back.

A consumer of its own, so that what it waits for never holds up the commands of sagas.
"""

from consumers.warehouse import told_of
from schemas.order import OrderCancelled, OrderPaid
from schemas.warehouse import NothingToRelease, StockRejected, StockReleased
from services.warehouse import stock
from surefoot.consumer import Consumer, Transaction
from surefoot.events import Event

warehouse_choreography = Consumer("warehouse-choreography")


@warehouse_choreography.on(OrderPaid)
async def confirm_hold(event: Event[OrderPaid], tx: Transaction) -> None:
    order = event.data
    if order.mode != "choreographed":
        return
    lines = await stock.lines_held_for(tx.session, order.checkout_session_id)
    if lines is None:  # nobody but the hold knows what is in the order
        tx.publish(StockRejected(order_id=order.order_id, reason="hold_expired"))
        return
    answer = await stock.reserve(tx.session, order.order_id, order.checkout_session_id, lines)
    tx.publish(told_of(order.order_id, answer))


@warehouse_choreography.on(OrderCancelled)
async def give_back(event: Event[OrderCancelled], tx: Transaction) -> None:
    order = event.data
    if order.mode != "choreographed":
        return
    gone = await stock.release_hold(tx.session, order.checkout_session_id, order.order_id)
    if gone is None:
        gone = await stock.release(tx.session, order.order_id)
    if gone is None:
        tx.publish(NothingToRelease(order_id=order.order_id))
        return
    tx.publish(
        StockReleased(order_id=order.order_id, reservation_id=gone.name, lines=gone.lines, reason="order_cancelled")
    )
