"""Payments: money captured for an order, refused, or given back."""

from typing import Literal

from schemas.parts import OrderId
from surefoot.events import Catalogue, EventData, Money

payments = Catalogue(source="/payments")
payment_events = payments.topic("payment.events", partitions=8)

FailureReason = Literal["declined", "insufficient_funds", "expired_card", "suspected_fraud", "provider_error"]
RefundReason = Literal["order_cancelled", "return_approved", "return_damaged", "goodwill"]


@payments.event("payment.captured", topic=payment_events, key="order_id")
class PaymentCaptured(EventData):
    """The provider has taken the money; `gateway_txn_id` is its own name for that."""

    order_id: OrderId
    payment_id: str
    gateway: str
    gateway_txn_id: str
    amount: Money


@payments.event("payment.failed", topic=payment_events, key="order_id")
class PaymentFailed(EventData):
    """The provider refused, for good: no money was taken."""

    order_id: OrderId
    payment_id: str
    amount: Money
    reason: FailureReason


@payments.event("payment.refunded", topic=payment_events, key="order_id")
class PaymentRefunded(EventData):
    """Money was given back, all of it or, for a damaged return, a part."""

    order_id: OrderId
    payment_id: str
    refund_id: str
    return_id: str | None = None
    amount: Money
    reason: RefundReason
