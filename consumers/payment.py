"""The payment service. Each of its handlers calls the provider, so each is an outside call: written down first, called
with no transaction open, answered in another.

    surefoot consume consumers.payment:payment
    surefoot consume consumers.payment:payment_choreography

`payment` carries out a saga's commands: capture, the undo of a capture, and refunds. The charge is asked for under a
key that depends on saga and step alone. Its undo voids by that same key, so that it does not matter what became of the
charge: taken and answered, taken and the answer lost, or not made yet.

`payment_choreography` is for orders that no orchestrator drives: an order that waits for its money is charged, and one
that is cancelled gets back what was taken. Both events of an order are on one topic under one key, so a cancellation
waits until the charge before it is answered. Here the provider's key comes from the event, and is kept with the payment
for the cancellation to void by.
"""

from datetime import timedelta
from typing import Any

from schemas.order import OrderCancelled, OrderPendingPayment
from schemas.payment import (
    CapturePayment,
    PaymentCaptured,
    PaymentFailed,
    PaymentRefunded,
    PaymentVoided,
    RefundPayment,
    ReversePayment,
)
from services.payment import book
from services.payment.book import ChargeAnswer, after_charge, after_void
from services.payment.gateway import Gateway, Refunded, Voided
from services.payment.http_gateway import HttpGateway
from surefoot.consumer import Consumer, OutsideCall, Permanent, Retry, Transaction
from surefoot.consumer.handlers import call_keys
from surefoot.events import Event, Money

NAME, CHOREOGRAPHY = "payment", "payment-choreography"
RETRY = Retry(attempts=8, first=timedelta(milliseconds=250), longest=timedelta(seconds=30))
"""A provider that does not answer is asked again soon, and for about a minute; then the saga decides."""
NOTHING_GIVEN_BACK = "none"
MAY_HAVE_TAKEN = ("PENDING", "CAPTURED")


def payment_consumer(gateway: Gateway, *, retry: Retry = RETRY) -> Consumer:
    consumer = Consumer(NAME, retry=retry)
    _add_capture(consumer, gateway)
    _add_reverse(consumer, gateway)
    _add_refund(consumer, gateway)
    return consumer


def _add_capture(consumer: Consumer, gateway: Gateway) -> None:
    async def write_down(event: Event[CapturePayment], tx: Transaction) -> None:
        asked = event.data
        key, _ = call_keys(NAME, event, tx.command)
        payment = await book.begin(tx.session, asked.order_id, asked.amount, gateway.name, key)
        if payment.provider_key != key:
            raise Permanent(f"Order {asked.order_id} has a payment already, {payment.payment_id}: it pays once.")

    async def charge(event: Event[CapturePayment], call: OutsideCall) -> ChargeAnswer:
        return await gateway.charge(call.key, event.data.order_id, event.data.amount)

    @consumer.command(CapturePayment, outside=charge, prepare=write_down)
    async def capture(
        event: Event[CapturePayment], tx: Transaction, answer: ChargeAnswer
    ) -> PaymentCaptured | PaymentFailed:
        return await after_charge(tx.session, event.data.order_id, event.data.amount, gateway.name, answer)


def _add_reverse(consumer: Consumer, gateway: Gateway) -> None:
    async def void(event: Event[ReversePayment], call: OutsideCall) -> Voided:
        return await gateway.void(call.do_key)

    @consumer.command(ReversePayment, outside=void)
    async def reverse(event: Event[ReversePayment], tx: Transaction, answer: Voided) -> PaymentRefunded | PaymentVoided:
        _, key = call_keys(NAME, event, tx.command)
        return await after_void(tx.session, event.data.order_id, event.data.amount, gateway.name, key, answer)


def _add_refund(consumer: Consumer, gateway: Gateway) -> None:
    async def write_down(event: Event[RefundPayment], tx: Transaction) -> dict[str, Any] | None:
        asked = event.data
        if asked.amount.minor_units == 0:  # half of a cent, rounded down
            payment = await book.find(tx.session, asked.order_id)
            return {"payment_id": NOTHING_GIVEN_BACK if payment is None else payment.payment_id, "charge_id": None}
        payment = await book.begin_refund(
            tx.session, asked.order_id, asked.refund_request_id, asked.return_id, asked.amount, asked.reason
        )
        return {"payment_id": payment.payment_id, "charge_id": payment.charge_id}

    async def give_back(event: Event[RefundPayment], call: OutsideCall) -> tuple[str, Refunded | None]:
        payment_id, charge_id = call.prepared["payment_id"], call.prepared["charge_id"]
        if charge_id is None:
            return payment_id, None
        return payment_id, await gateway.refund(event.data.refund_request_id, charge_id, event.data.amount)

    @consumer.command(RefundPayment, outside=give_back, prepare=write_down)
    async def refund(
        event: Event[RefundPayment], tx: Transaction, answer: tuple[str, Refunded | None]
    ) -> PaymentRefunded:
        payment_id, done = answer
        if done is not None:
            await book.refunded(tx.session, event.data.refund_request_id, done)
        return PaymentRefunded(
            order_id=event.data.order_id,
            payment_id=payment_id,
            refund_id=NOTHING_GIVEN_BACK if done is None else done.refund_id,
            return_id=event.data.return_id,
            amount=event.data.amount,
            reason=event.data.reason,
        )


def choreography_consumer(gateway: Gateway, *, retry: Retry = RETRY) -> Consumer:
    consumer = Consumer(CHOREOGRAPHY, retry=retry)
    _add_charge(consumer, gateway)
    _add_cancellation(consumer, gateway)
    return consumer


def _add_charge(consumer: Consumer, gateway: Gateway) -> None:
    async def write_down(event: Event[OrderPendingPayment], tx: Transaction) -> str | None:
        """The key to charge under: that of the order's payment, should it have one. None: not ours to act on."""
        order = event.data
        if order.mode != "choreographed":
            return None
        key, _ = call_keys(CHOREOGRAPHY, event, None)
        return (await book.begin(tx.session, order.order_id, order.total, gateway.name, key)).provider_key

    async def charge(event: Event[OrderPendingPayment], call: OutsideCall) -> ChargeAnswer | None:
        if call.prepared is None:
            return None
        return await gateway.charge(call.prepared, event.data.order_id, event.data.total)

    @consumer.on(OrderPendingPayment, outside=charge, prepare=write_down)
    async def charged(event: Event[OrderPendingPayment], tx: Transaction, answer: ChargeAnswer | None) -> None:
        if answer is not None:
            order = event.data
            tx.publish(await after_charge(tx.session, order.order_id, order.total, gateway.name, answer))


def _add_cancellation(consumer: Consumer, gateway: Gateway) -> None:
    async def look_up(event: Event[OrderCancelled], tx: Transaction) -> dict[str, Any] | None:
        """What to void; None: not ours to act on, or no money can have been taken."""
        if event.data.mode != "choreographed":
            return None
        payment = await book.find(tx.session, event.data.order_id)
        if payment is None or payment.status not in MAY_HAVE_TAKEN:
            return None
        amount = {"minor_units": payment.amount.minor_units, "currency": payment.amount.currency}
        return {"key": payment.provider_key, "amount": amount}

    async def void(event: Event[OrderCancelled], call: OutsideCall) -> tuple[str, Money, Voided] | None:
        if call.prepared is None:
            return None
        amount, key = call.prepared["amount"], call.prepared["key"]
        return key, Money.minor(amount["minor_units"], amount["currency"]), await gateway.void(key)

    @consumer.on(OrderCancelled, outside=void, prepare=look_up)
    async def reversed_(
        event: Event[OrderCancelled], tx: Transaction, answer: tuple[str, Money, Voided] | None
    ) -> None:
        if answer is not None:
            key, amount, voided = answer
            tx.publish(await after_void(tx.session, event.data.order_id, amount, gateway.name, key, voided))


payment = payment_consumer(HttpGateway())
payment_choreography = choreography_consumer(HttpGateway())
