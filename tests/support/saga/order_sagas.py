"""A small shop for the tests of sagas: its events, and an order that is reserved, paid, confirmed and shipped."""

from datetime import timedelta

from surefoot.events import Catalogue, EventData
from surefoot.saga import Retry, Saga

shop = Catalogue(source="/shop")
orders = shop.topic("shop.orders")
commands = shop.topic("warehouse.commands")


@shop.event("order.wanted", topic=orders, key="order_id")
class OrderWanted(EventData):
    order_id: str
    total: int = 0
    gift: bool = False


@shop.event("stock.reserve", topic=commands, key="order_id")
class ReserveStock(EventData):
    order_id: str


@shop.event("stock.reserved", topic=orders, key="order_id")
class StockReserved(EventData):
    order_id: str
    shelf: str = "A1"


@shop.event("stock.rejected", topic=orders, key="order_id")
class StockRejected(EventData):
    order_id: str
    reason: str = "sold out"


@shop.event("stock.release", topic=commands, key="order_id")
class ReleaseStock(EventData):
    order_id: str
    shelf: str | None = None


@shop.event("stock.released", topic=orders, key="order_id")
class StockReleased(EventData):
    order_id: str


@shop.event("payment.capture", topic=commands, key="order_id")
class CapturePayment(EventData):
    order_id: str
    total: int


@shop.event("payment.captured", topic=orders, key="order_id")
class PaymentCaptured(EventData):
    order_id: str
    payment_id: str = "p-1"


@shop.event("payment.postponed", topic=orders, key="order_id")
class PaymentPostponed(EventData):
    order_id: str


@shop.event("payment.declined", topic=orders, key="order_id")
class PaymentDeclined(EventData):
    order_id: str


@shop.event("payment.refund", topic=commands, key="order_id")
class RefundPayment(EventData):
    order_id: str
    payment_id: str | None


@shop.event("payment.refunded", topic=orders, key="order_id")
class PaymentRefunded(EventData):
    order_id: str


@shop.event("order.confirm", topic=commands, key="order_id")
class ConfirmOrder(EventData):
    order_id: str
    payment_id: str


@shop.event("order.confirmed", topic=orders, key="order_id")
class OrderConfirmed(EventData):
    order_id: str


@shop.event("order.refused", topic=orders, key="order_id")
class OrderRefused(EventData):
    order_id: str


@shop.event("parcel.send", topic=commands, key="order_id")
class SendParcel(EventData):
    order_id: str


@shop.event("parcel.sent", topic=orders, key="order_id")
class ParcelSent(EventData):
    order_id: str


@shop.event("carrier.collected", topic=orders, key="order_id")
class Collected(EventData):
    order_id: str
    driver: str = "Ann"


@shop.event("order.finished", topic=orders, key="order_id")
class OrderFinished(EventData):
    order_id: str


@shop.event("order.needs_help", topic=orders, key="order_id")
class OrderNeedsHelp(EventData):
    order_id: str
    because: str = ""


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
