"""The order service: carries out what the saga asks of it."""

from schemas.order import (
    CancelOrder,
    ConfirmOrder,
    CreateOrder,
    OrderCancelled,
    OrderConfirmed,
    OrderPendingPayment,
    OrderRejected,
)
from services.order import orders
from services.order.orders import Created, SessionUsed
from surefoot.consumer import Consumer, Permanent, Transaction
from surefoot.events import Event

order = Consumer("order")


@order.command(CreateOrder)
async def create_order(event: Event[CreateOrder], tx: Transaction) -> OrderPendingPayment | OrderRejected:
    wish = event.data
    match await orders.create(tx.session, wish, "orchestrated"):
        case Created():
            return OrderPendingPayment(
                order_id=wish.order_id,
                customer_id=wish.customer_id,
                checkout_session_id=wish.checkout_session_id,
                mode="orchestrated",
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
