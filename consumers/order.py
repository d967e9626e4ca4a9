"""The order service. `order` carries out what a saga asks of it.

`order_choreography` is for orders that no orchestrator drives: placement, money and goods each move the order one state
on, or cancel it. What payment and warehouse tell does not say who drives the order. The order's own row does, and every
statement asks it (`mode = 'choreographed'`), so events of a saga's order change nothing.
"""

from schemas.order import (
    CancelOrder,
    CancelReason,
    ConfirmOrder,
    CreateOrder,
    Mode,
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
from surefoot.consumer import Consumer, Permanent, Transaction
from surefoot.events import Event

order = Consumer("order")
order_choreography = Consumer("order-choreography")


@order.command(CreateOrder)
async def create_order(event: Event[CreateOrder], tx: Transaction) -> OrderPendingPayment | OrderRejected:
    return await _create(event.data, "orchestrated", tx)


@order.command(ConfirmOrder)
async def confirm_order(event: Event[ConfirmOrder], tx: Transaction) -> OrderConfirmed:
    await orders.confirm(tx.session, event.data.order_id, event.data.payment_id)
    return OrderConfirmed(order_id=event.data.order_id, mode="orchestrated")


@order.command(CancelOrder)
async def cancel_order(event: Event[CancelOrder], tx: Transaction) -> OrderCancelled:
    """An order that was never written down is cancelled as well: nothing is left of it, and its do is barred."""
    wish = event.data
    if await orders.cancel(tx.session, wish.order_id, wish.reason, "orchestrated") is None:
        status = await orders.status_of(tx.session, wish.order_id)
        if status == "PROCESSING":
            raise Permanent(f"The order {wish.order_id} is being processed and cannot be cancelled any more.")
    return OrderCancelled(
        order_id=wish.order_id,
        checkout_session_id=wish.checkout_session_id,
        mode="orchestrated",
        reason=wish.reason,
    )


@order_choreography.on(PlacementRequested)
async def write_down(event: Event[PlacementRequested], tx: Transaction) -> None:
    if event.data.mode == "choreographed":
        tx.publish(await _create(event.data, "choreographed", tx))


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


async def _create(
    wish: CreateOrder | PlacementRequested, mode: Mode, tx: Transaction
) -> OrderPendingPayment | OrderRejected:
    match await orders.create(tx.session, wish, mode):
        case Created():
            return OrderPendingPayment(
                order_id=wish.order_id,
                customer_id=wish.customer_id,
                checkout_session_id=wish.checkout_session_id,
                mode=mode,
                lines=wish.lines,
                total=wish.total,
            )
        case SessionUsed(instead):
            return OrderRejected(
                order_id=wish.order_id,
                checkout_session_id=wish.checkout_session_id,
                reason="session_already_used",
                instead=instead,
            )


async def _cancel(order_id: str, reason: CancelReason, tx: Transaction) -> None:
    session_id = await orders.cancel(tx.session, order_id, reason, "choreographed")
    if session_id is not None:
        tx.publish(
            OrderCancelled(order_id=order_id, checkout_session_id=session_id, mode="choreographed", reason=reason)
        )
