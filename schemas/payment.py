"""Payments: money captured for an order, refused, or given back."""

from typing import Literal

from schemas.parts import OrderId, ReturnId
from surefoot.events import Catalogue, EventData, Money

payments = Catalogue(source="/payments")
payment_events = payments.topic("payment.events", partitions=8)
payment_commands = payments.topic("payment.commands", partitions=8)

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


@payments.event("payment.voided", topic=payment_events, key="order_id")
class PaymentVoided(EventData):
    """No money was taken, and none will be: the provider refuses the charge from now on."""

    order_id: OrderId
    payment_id: str


@payments.event("payment.capture", topic=payment_commands, key="order_id")
class CapturePayment(EventData):
    """Take the money. Answered by payment.captured or payment.failed."""

    order_id: OrderId
    customer_id: str
    amount: Money


@payments.event("payment.reverse", topic=payment_commands, key="order_id")
class ReversePayment(EventData):
    """Undo a capture, whatever became of it: give the money back, or see to it that it is never taken. Answered by
    payment.refunded or payment.voided."""

    order_id: OrderId
    amount: Money


@payments.event("payment.refund", topic=payment_commands, key="order_id")
class RefundPayment(EventData):
    """Give back all or a part of what was captured for the order, once for each `refund_request_id`. Answered by
    payment.refunded."""

    order_id: OrderId
    return_id: ReturnId
    refund_request_id: str
    amount: Money
    reason: RefundReason
