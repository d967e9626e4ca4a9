"""The payment service without an orchestrator: an order that waits for its money is charged, and one that is cancelled
gets back what was taken.

    surefoot consume consumers.payment_choreography:payment_choreography

Both events of an order are on one topic under one key, so a cancellation waits until the charge before it is answered.
Here the provider's key comes from the event, and is kept with the payment for the cancellation to void by.
"""

from typing import Any

from consumers.payment import RETRY
from schemas.order import OrderCancelled, OrderPendingPayment
from services.payment import book
from services.payment.answers import ChargeAnswer, after_charge, after_void
from services.payment.gateway import Gateway, Voided
from services.payment.http_gateway import HttpGateway
from surefoot.consumer import Consumer, OutsideCall, Retry, Transaction
from surefoot.consumer.handlers import call_keys
from surefoot.events import Event, Money

NAME = "payment-choreography"
MAY_HAVE_TAKEN = ("PENDING", "CAPTURED")


def choreography_consumer(gateway: Gateway, *, retry: Retry = RETRY) -> Consumer:
    consumer = Consumer(NAME, retry=retry)
    _add_charge(consumer, gateway)
    _add_cancellation(consumer, gateway)
    return consumer


def _add_charge(consumer: Consumer, gateway: Gateway) -> None:
    async def write_down(event: Event[OrderPendingPayment], tx: Transaction) -> str | None:
        """The key to charge under: that of the order's payment, should it have one. None: not ours to act on."""
        order = event.data
        if order.mode != "choreographed":
            return None
        key, _ = call_keys(NAME, event, None)
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


payment_choreography = choreography_consumer(HttpGateway())
