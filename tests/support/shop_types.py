"""A small shop for the tests of consumers: events, a command and its undo, replies."""

from pydantic import Field

from surefoot.events import Catalogue, EventData

shop = Catalogue(source="/shop")
orders = shop.topic("shop.orders")
parcels = shop.topic("shop.parcels")
commands = shop.topic("shop.commands")


@shop.event("order.paid", topic=orders, key="order_id")
class OrderPaid(EventData):
    order_id: str
    number: int = 0
    tags: list[str] = Field(default_factory=list)


@shop.event("order.paid", version=2, topic=orders, key="order_id")
class OrderPaidV2(EventData):
    order_id: str
    total: int


@shop.event("order.cancelled", topic=orders, key="order_id")
class OrderCancelled(EventData):
    order_id: str


@shop.event("parcel.weighed", topic=parcels, key="order_id")
class ParcelWeighed(EventData):
    order_id: str
    grams: int = 1


@shop.event("stock.reserved", topic=parcels, key="order_id")
class StockReserved(EventData):
    order_id: str


@shop.event("payment.capture", topic=commands, key="order_id")
class CapturePayment(EventData):
    order_id: str


@shop.event("payment.refund", topic=commands, key="order_id")
class RefundPayment(EventData):
    order_id: str


@shop.event("payment.captured", topic=parcels, key="order_id")
class PaymentCaptured(EventData):
    order_id: str
    receipt: str = ""


@shop.event("payment.refunded", topic=parcels, key="order_id")
class PaymentRefunded(EventData):
    order_id: str
    was_done: bool


@shop.event("payment.declined", topic=parcels, key=None)
class PaymentDeclined(EventData):
    reason: str
