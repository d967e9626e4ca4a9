"""What the payment service says when the gateway has answered: the row is brought up to date, and an event comes of it.

The same for a saga's command, which replies with it, and for the choreography, which publishes it.
"""

from typing import assert_never

from sqlalchemy.ext.asyncio import AsyncSession

from schemas.payment import PaymentCaptured, PaymentFailed, PaymentRefunded, PaymentVoided
from services.payment import book
from services.payment.gateway import Barred, Charged, Declined, Voided
from surefoot.events import Money

ChargeAnswer = Charged | Declined | Barred


async def after_charge(
    session: AsyncSession, order_id: str, amount: Money, gateway: str, answer: ChargeAnswer
) -> PaymentCaptured | PaymentFailed:
    match answer:
        case Charged(charge_id):
            return PaymentCaptured(
                order_id=order_id,
                payment_id=await book.captured(session, order_id, charge_id),
                gateway=gateway,
                gateway_txn_id=charge_id,
                amount=amount,
            )
        case Declined(reason):
            payment_id = await book.declined(session, order_id, reason)
            return PaymentFailed(order_id=order_id, payment_id=payment_id, amount=amount, reason=reason)
        case Barred():
            payment_id = await book.barred(session, order_id)
            return PaymentFailed(order_id=order_id, payment_id=payment_id, amount=amount, reason="provider_error")
        case _:
            assert_never(answer)


async def after_void(
    session: AsyncSession, order_id: str, amount: Money, gateway: str, key: str, answer: Voided
) -> PaymentRefunded | PaymentVoided:
    payment_id = await book.reversed_(session, order_id, amount, gateway, key, answer)
    if answer.given_back is None:
        return PaymentVoided(order_id=order_id, payment_id=payment_id)
    return PaymentRefunded(
        order_id=order_id,
        payment_id=payment_id,
        refund_id=book.void_request(key),
        amount=answer.given_back,
        reason="order_cancelled",
    )
