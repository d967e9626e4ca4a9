"""The event types of a small shop: what becomes of an order, the commands to stock and bank, and their replies.

Use these where a test wants several types or topics, or commands. Where one event is like another, use those of
`event_types`.
"""

from contextlib import AbstractContextManager

from pydantic import Field

from surefoot.events import Catalogue, EventData
from tests.support.topic_settings import topic_with

shop = Catalogue(source="/shop")
orders = shop.topic("shop.orders")
parcels = shop.topic("shop.parcels")
commands = shop.topic("shop.commands")
replies = shop.topic("shop.replies")


def commands_on(topic_name: str) -> AbstractContextManager[None]:
    """Put the commands on another topic for a while."""
    return topic_with(commands, name=topic_name)


# What becomes of an order


@shop.event("order.wanted", topic=orders, key="order_id")
class OrderWanted(EventData):
    order_id: str
    total: int = 0
    gift: bool = False


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


@shop.event("order.finished", topic=orders, key="order_id")
class OrderFinished(EventData):
    order_id: str


@shop.event("order.needs_help", topic=orders, key="order_id")
class OrderNeedsHelp(EventData):
    order_id: str
    because: str = ""


@shop.event("parcel.weighed", topic=parcels, key="order_id")
class ParcelWeighed(EventData):
    order_id: str
    grams: int = 1


@shop.event("carrier.collected", topic=parcels, key="order_id")
class Collected(EventData):
    order_id: str
    driver: str = "Ann"


# Commands


@shop.event("stock.reserve", topic=commands, key="order_id")
class ReserveStock(EventData):
    order_id: str
    number: int = Field(default=0, repr=False)


@shop.event("stock.release", topic=commands, key="order_id")
class ReleaseStock(EventData):
    order_id: str
    shelf: str | None = None
    number: int = Field(default=0, repr=False)


@shop.event("payment.capture", topic=commands, key="order_id")
class CapturePayment(EventData):
    order_id: str
    total: int = 0


@shop.event("payment.refund", topic=commands, key="order_id")
class RefundPayment(EventData):
    order_id: str
    payment_id: str | None = None


@shop.event("order.confirm", topic=commands, key="order_id")
class ConfirmOrder(EventData):
    order_id: str
    payment_id: str


@shop.event("parcel.send", topic=commands, key="order_id")
class SendParcel(EventData):
    order_id: str


# Replies


@shop.event("stock.reserved", topic=replies, key="order_id")
class StockReserved(EventData):
    order_id: str
    shelf: str = "A1"


@shop.event("stock.rejected", topic=replies, key="order_id")
class StockRejected(EventData):
    order_id: str
    reason: str = "sold out"


@shop.event("stock.released", topic=replies, key="order_id")
class StockReleased(EventData):
    order_id: str
    was_done: bool = Field(default=False, repr=False)


@shop.event("payment.captured", topic=replies, key="order_id")
class PaymentCaptured(EventData):
    order_id: str
    payment_id: str = "p-1"


@shop.event("payment.postponed", topic=replies, key="order_id")
class PaymentPostponed(EventData):
    order_id: str


@shop.event("payment.declined", topic=replies, key="order_id")
class PaymentDeclined(EventData):
    order_id: str


@shop.event("payment.failed", topic=replies, key=None)
class PaymentFailed(EventData):
    """A reply without a key of its own."""

    reason: str


@shop.event("payment.refunded", topic=replies, key="order_id")
class PaymentRefunded(EventData):
    order_id: str
    was_done: bool = Field(default=False, repr=False)


@shop.event("order.confirmed", topic=replies, key="order_id")
class OrderConfirmed(EventData):
    order_id: str


@shop.event("order.refused", topic=replies, key="order_id")
class OrderRefused(EventData):
    order_id: str


@shop.event("parcel.sent", topic=replies, key="order_id")
class ParcelSent(EventData):
    order_id: str
