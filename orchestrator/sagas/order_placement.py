"""Order placement: the order is written down, its goods set aside, its money taken; then it is confirmed, and from
there on finished. Refused before that, what was done is undone in reverse: money, goods, order.
"""

from datetime import timedelta

from schemas.notification import NotificationSent, SendNotification
from schemas.order import (
    CancelOrder,
    ConfirmOrder,
    CreateOrder,
    OrderCancelled,
    OrderConfirmed,
    OrderPendingPayment,
    OrderRejected,
    PlacementRequested,
)
from schemas.parts import Line, StockLine
from schemas.payment import (
    CapturePayment,
    PaymentCaptured,
    PaymentFailed,
    PaymentRefunded,
    PaymentVoided,
    ReversePayment,
)
from schemas.shipping import RequestShipment, ShipmentRequested
from schemas.warehouse import NothingToRelease, ReleaseStock, ReserveStock, StockRejected, StockReleased, StockReserved
from surefoot.saga import Retry, Saga


def is_orchestrated(order: PlacementRequested) -> bool:
    return order.mode == "orchestrated"


def create(order: PlacementRequested) -> CreateOrder:
    return CreateOrder(
        order_id=order.order_id,
        customer_id=order.customer_id,
        checkout_session_id=order.checkout_session_id,
        lines=order.lines,
        total=order.total,
        ship_to=order.ship_to,
    )


def cancel(order: PlacementRequested, reserved: StockReserved | None) -> CancelOrder:
    return CancelOrder(
        order_id=order.order_id,
        checkout_session_id=order.checkout_session_id,
        reason="out_of_stock" if reserved is None else "payment_failed",
    )


def reserve(order: PlacementRequested) -> ReserveStock:
    return ReserveStock(
        order_id=order.order_id, checkout_session_id=order.checkout_session_id, lines=goods_of(order.lines)
    )


def release(order: PlacementRequested) -> ReleaseStock:
    return ReleaseStock(order_id=order.order_id, reason="compensation")


def capture(order: PlacementRequested) -> CapturePayment:
    return CapturePayment(order_id=order.order_id, customer_id=order.customer_id, amount=order.total)


def reverse(order: PlacementRequested) -> ReversePayment:
    return ReversePayment(order_id=order.order_id, amount=order.total)


def confirm(order: PlacementRequested, captured: PaymentCaptured) -> ConfirmOrder:
    return ConfirmOrder(order_id=order.order_id, payment_id=captured.payment_id)


def ship(order: PlacementRequested) -> RequestShipment:
    return RequestShipment(order_id=order.order_id, lines=goods_of(order.lines), ship_to=order.ship_to)


def tell_buyer(order: PlacementRequested) -> SendNotification:
    return SendNotification(customer_id=order.customer_id, message="order_confirmed", about=order.order_id)


def goods_of(lines: tuple[Line, ...]) -> tuple[StockLine, ...]:
    return tuple(StockLine(sku=line.sku, quantity=line.quantity) for line in lines)


order_placement = Saga("order_placement", version=1, starts_on=PlacementRequested, starts_when=is_orchestrated)

order_placement.step(
    "create_order",
    do=create,
    done_on=OrderPendingPayment,
    refused_on=OrderRejected,
    undo=cancel,
    undone_on=OrderCancelled,
)
order_placement.step(
    "reserve_stock",
    do=reserve,
    done_on=StockReserved,
    refused_on=StockRejected,
    undo=release,
    undone_on=(StockReleased, NothingToRelease),
)
order_placement.step(
    "capture_payment",
    do=capture,
    done_on=PaymentCaptured,
    refused_on=PaymentFailed,
    undo=reverse,
    undone_on=(PaymentRefunded, PaymentVoided),
    undo_retry=Retry(attempts=10, longest=timedelta(minutes=30)),
)
order_placement.pivot("confirm_order", do=confirm, done_on=OrderConfirmed)
order_placement.step("request_shipment", do=ship, done_on=ShipmentRequested)
order_placement.step("notify_buyer", do=tell_buyer, done_on=NotificationSent)
