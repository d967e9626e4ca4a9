"""Sagas about the orders of the shop: one that is reserved, paid, confirmed and shipped, one that is collected."""

from datetime import timedelta

from surefoot.saga import Retry, Saga
from tests.support.shop_types import (
    CapturePayment,
    Collected,
    ConfirmOrder,
    OrderConfirmed,
    OrderFinished,
    OrderNeedsHelp,
    OrderRefused,
    OrderWanted,
    ParcelSent,
    PaymentCaptured,
    PaymentDeclined,
    PaymentRefunded,
    RefundPayment,
    ReleaseStock,
    ReserveStock,
    SendParcel,
    StockRejected,
    StockReleased,
    StockReserved,
)


def reserve(order: OrderWanted) -> ReserveStock:
    return ReserveStock(order_id=order.order_id)


def release(order: OrderWanted, reserved: StockReserved | None) -> ReleaseStock:
    return ReleaseStock(order_id=order.order_id, shelf=reserved.shelf if reserved else None)


def capture(order: OrderWanted) -> CapturePayment:
    return CapturePayment(order_id=order.order_id, total=order.total)


def refund(order: OrderWanted, captured: PaymentCaptured | None) -> RefundPayment:
    return RefundPayment(order_id=order.order_id, payment_id=captured.payment_id if captured else None)


def confirm(order: OrderWanted, captured: PaymentCaptured) -> ConfirmOrder:
    return ConfirmOrder(order_id=order.order_id, payment_id=captured.payment_id)


def send(order: OrderWanted) -> SendParcel:
    return SendParcel(order_id=order.order_id)


def finished(order: OrderWanted) -> OrderFinished:
    return OrderFinished(order_id=order.order_id)


def needs_help(order: OrderWanted) -> OrderNeedsHelp:
    return OrderNeedsHelp(order_id=order.order_id)


def not_collected(order: OrderWanted) -> OrderNeedsHelp:
    return OrderNeedsHelp(order_id=order.order_id, because="nobody collected it")


TWICE = Retry(attempts=2, first=timedelta(seconds=4))


def order_saga() -> Saga:
    """Reserve, pay, confirm (the pivot), ship. Two attempts each."""
    saga = Saga("order", version=1, starts_on=OrderWanted)
    saga.step(
        "reserve",
        do=reserve,
        done_on=StockReserved,
        refused_on=StockRejected,
        undo=release,
        undone_on=StockReleased,
        retry=TWICE,
        undo_retry=TWICE,
    )
    saga.step(
        "pay",
        do=capture,
        done_on=PaymentCaptured,
        refused_on=PaymentDeclined,
        undo=refund,
        undone_on=PaymentRefunded,
        retry=TWICE,
        undo_retry=TWICE,
    )
    saga.pivot("confirm", do=confirm, done_on=OrderConfirmed, refused_on=OrderRefused, retry=TWICE)
    saga.step("ship", do=send, done_on=ParcelSent, retry=TWICE)
    saga.tell("COMPLETED", finished)
    saga.tell("STUCK", needs_help)
    return saga


def pickup_saga(when_late: str = "escalate") -> Saga:
    """Reserve; wait three days for somebody to collect it; ship (whatever that means then)."""
    saga = Saga("pickup", version=1, starts_on=OrderWanted)
    saga.step("reserve", do=reserve, done_on=StockReserved, undo=release, undone_on=StockReleased, retry=TWICE)
    saga.wait(
        "collected",
        until=Collected,
        deadline=timedelta(days=3),
        when_late="undo" if when_late == "undo" else "escalate",
        tell=not_collected,
    )
    saga.step("ship", do=send, done_on=ParcelSent, nothing_to_undo=True)
    return saga
