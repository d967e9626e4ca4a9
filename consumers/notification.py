"""Notification: tells buyers what sagas ask it to, and what no saga says: an order was cancelled, a return aborted.

A message is a row here; the same message about the same thing is sent once.
"""

from collections.abc import Sequence

from sqlalchemy import text
from uuid_utils import uuid7

from schemas.notification import Message, NotificationSent, SendNotification
from schemas.order import OrderCancelled, OrderConfirmed, PlacementRequested
from schemas.returns import ReturnAborted
from surefoot.consumer import Consumer, Transaction
from surefoot.events import Event

notification = Consumer("notification")

_SEND = text("""
INSERT INTO notification.messages AS sent (notification_id, customer_id, message, about)
VALUES (:notification_id, :customer_id, :message, :about)
ON CONFLICT (about, message) DO UPDATE SET sent_at = sent.sent_at RETURNING notification_id
""")
_BUYERS = text("""
INSERT INTO notification.buyers (order_id, customer_id)
SELECT * FROM unnest(CAST(:orders AS text[]), CAST(:customers AS text[])) ON CONFLICT DO NOTHING
""")
_BUYER = text("SELECT customer_id FROM notification.buyers WHERE order_id = :order_id")


@notification.command(SendNotification)
async def send(event: Event[SendNotification], tx: Transaction) -> NotificationSent:
    wish = event.data
    return await _tell(tx, wish.customer_id, wish.message, wish.about)


@notification.on_batch(PlacementRequested)
async def remember_buyers(events: Sequence[Event[PlacementRequested]], tx: Transaction) -> None:
    """The end of an order does not say whose it is; its beginning, on the same topic and key, does."""
    buyers = {event.data.order_id: event.data.customer_id for event in events}
    await tx.session.execute(_BUYERS, {"orders": list(buyers), "customers": list(buyers.values())})


@notification.on(OrderCancelled)
async def tell_cancelled(event: Event[OrderCancelled], tx: Transaction) -> None:
    """Whoever drove it: the order's saga ends without telling the buyer that there will be no parcel."""
    await _tell_buyer_of(event.data.order_id, "order_cancelled", tx)


@notification.on(OrderConfirmed)
async def tell_confirmed(event: Event[OrderConfirmed], tx: Transaction) -> None:
    """A saga asks for this one itself."""
    if event.data.mode == "choreographed":
        await _tell_buyer_of(event.data.order_id, "order_confirmed", tx)


@notification.on(ReturnAborted)
async def tell_aborted(event: Event[ReturnAborted], tx: Transaction) -> None:
    tx.publish(await _tell(tx, event.data.customer_id, "return_aborted", event.data.return_id))


async def _tell_buyer_of(order_id: str, message: Message, tx: Transaction) -> None:
    customer_id = await tx.session.scalar(_BUYER, {"order_id": order_id})
    if customer_id is not None:  # an order that was cancelled without ever having been placed has nobody to tell
        tx.publish(await _tell(tx, customer_id, message, order_id))


async def _tell(tx: Transaction, customer_id: str, message: Message, about: str) -> NotificationSent:
    values = {"notification_id": str(uuid7()), "customer_id": customer_id, "message": message, "about": about}
    notification_id = await tx.session.scalar(_SEND, values)
    return NotificationSent(customer_id=customer_id, notification_id=str(notification_id), message=message, about=about)
