"""The order's part where no orchestrator drives: placement, money and goods each move it one state on, or cancel it.

What payment and warehouse tell does not say who drives the order. The order's own row does, and every statement asks it
(`mode = 'choreographed'`): what belongs to a saga is passed by.
"""

from schemas.order import (
    CancelReason,
    OrderCancelled,
    OrderConfirmed,
    OrderPaid,
    OrderPendingPayment,
    OrderRejected,
    PlacementRequested,
)
from schemas.payment import PaymentCaptured, PaymentFailed
from schemas.warehouse import StockRejected, StockReserved
from services.order import orders
from services.order.orders import Created, SessionUsed
from surefoot.consumer import Consumer, Transaction
from surefoot.events import Event

order_choreography = Consumer("order-choreography")


@order_choreography.on(PlacementRequested)
async def write_down(event: Event[PlacementRequested], tx: Transaction) -> None:
    wish = event.data
    if wish.mode != "choreographed":
        return
    match await orders.create(tx.session, wish, wish.mode):
        case Created():
            tx.publish(
                OrderPendingPayment(
                    order_id=wish.order_id,
                    customer_id=wish.customer_id,
                    checkout_session_id=wish.checkout_session_id,
                    mode=wish.mode,
                    lines=wish.lines,
                    total=wish.total,
                )
            )
        case SessionUsed(instead):
            tx.publish(
                OrderRejected(
                    order_id=wish.order_id,
                    checkout_session_id=wish.checkout_session_id,
                    reason="session_already_used",
                    instead=instead,
                )
            )


@order_choreography.on(PaymentCaptured)
async def take_note_of_money(event: Event[PaymentCaptured], tx: Transaction) -> None:
    captured = event.data
    paid = await orders.pay(tx.session, captured.order_id, captured.payment_id)
    if paid is not None:
        tx.publish(
            OrderPaid(
                order_id=captured.order_id,
                checkout_session_id=paid.checkout_session_id,
                mode="choreographed",
                payment_id=captured.payment_id,
                total=paid.total,
            )
        )


@order_choreography.on(PaymentFailed)
async def cancel_unpaid(event: Event[PaymentFailed], tx: Transaction) -> None:
    await _cancel(event.data.order_id, "payment_failed", tx)


@order_choreography.on(StockReserved)
async def begin_processing(event: Event[StockReserved], tx: Transaction) -> None:
    if await orders.process(tx.session, event.data.order_id):
        tx.publish(OrderConfirmed(order_id=event.data.order_id, mode="choreographed"))


@order_choreography.on(StockRejected)
async def cancel_sold_out(event: Event[StockRejected], tx: Transaction) -> None:
    """The money was taken by then: payment gives it back when it reads that the order is cancelled."""
    await _cancel(
        event.data.order_id, "checkout_expired" if event.data.reason == "hold_expired" else "out_of_stock", tx
    )


async def _cancel(order_id: str, reason: CancelReason, tx: Transaction) -> None:
    session_id = await orders.cancel(tx.session, order_id, reason, "choreographed")
    if session_id is not None:
        tx.publish(
            OrderCancelled(order_id=order_id, checkout_session_id=session_id, mode="choreographed", reason=reason)
        )
