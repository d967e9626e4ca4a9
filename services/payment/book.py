"""The payment service's writing in its own tables: each verb is one statement, or two, in the caller's transaction.

`after_charge` and `after_void` are what the service says when the gateway has answered: the row is brought up to date,
and an event comes of it. A saga's command replies with it, the choreography publishes it.
"""

from dataclasses import dataclass
from typing import Any, assert_never
from uuid import uuid4

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncSession

from schemas.payment import FailureReason, PaymentCaptured, PaymentFailed, PaymentRefunded, PaymentVoided, RefundReason
from services.payment.gateway import Barred, Charged, Declined, Refunded, Voided
from surefoot.consumer import Permanent
from surefoot.events import Money

_BEGIN = text("""
    INSERT INTO payments.payments AS known (payment_id, order_id, amount, currency, status, gateway, provider_key)
    VALUES (:payment_id, :order_id, :amount, :currency, 'PENDING', :gateway, :key)
    ON CONFLICT (order_id) DO UPDATE SET updated_at = now()
    RETURNING known.*
""")
_FIND = text("SELECT * FROM payments.payments WHERE order_id = :order_id")
_ANSWERED = text("""
    UPDATE payments.payments SET status = :status, charge_id = :charge_id, reason = :reason, updated_at = now()
    WHERE order_id = :order_id RETURNING payment_id
""")
# The row may be missing, because the capture never came; and it may be that of another charge, which is none of ours.
_REVERSED = text("""
    INSERT INTO payments.payments AS known
        (payment_id, order_id, amount, currency, status, refunded, gateway, provider_key, charge_id)
    VALUES (:payment_id, :order_id, :amount, :currency, :status, :refunded, :gateway, :key, :charge_id)
    ON CONFLICT (order_id) DO UPDATE
        SET status = CASE WHEN excluded.refunded = 0 AND known.status IN ('DECLINED', 'REFUNDED') THEN known.status
                          ELSE excluded.status END,
            refunded = known.refunded + CASE WHEN known.status = 'REFUNDED' THEN 0 ELSE excluded.refunded END,
            charge_id = coalesce(known.charge_id, excluded.charge_id),
            updated_at = now()
        WHERE known.provider_key = excluded.provider_key
    RETURNING payment_id
""")
_GAVE_BACK = text("""
    INSERT INTO payments.refunds (refund_request_id, payment_id, amount, currency, reason, status, refund_id)
    VALUES (:request_id, :payment_id, :amount, :currency, 'order_cancelled', 'REFUNDED', :request_id)
    ON CONFLICT (refund_request_id) DO NOTHING
""")
_BEGIN_REFUND = text("""
    INSERT INTO payments.refunds AS known
        (refund_request_id, payment_id, return_id, amount, currency, reason, status)
    VALUES (:request_id, :payment_id, :return_id, :amount, :currency, :reason, 'PENDING')
    ON CONFLICT (refund_request_id) DO UPDATE SET updated_at = now()
    RETURNING known.payment_id, known.amount, known.currency
""")
_REFUNDED = text("""
    WITH done AS (
        UPDATE payments.refunds SET status = 'REFUNDED', refund_id = :refund_id, updated_at = now()
        WHERE refund_request_id = :request_id AND status = 'PENDING' RETURNING payment_id, amount
    )
    UPDATE payments.payments AS paid
    SET refunded = paid.refunded + done.amount,
        status = CASE WHEN paid.refunded + done.amount = paid.amount THEN 'REFUNDED' ELSE paid.status END,
        updated_at = now()
    FROM done WHERE paid.payment_id = done.payment_id
""")
ChargeAnswer = Charged | Declined | Barred


@dataclass(frozen=True, slots=True)
class Payment:
    payment_id: str
    order_id: str
    amount: Money
    status: str
    provider_key: str
    charge_id: str | None


async def begin(session: AsyncSession, order_id: str, amount: Money, gateway: str, key: str) -> Payment:
    """The payment of this order, PENDING; or the one that it has already."""
    if amount.minor_units <= 0:
        raise Permanent(f"Order {order_id} is to pay {amount}: only more than nothing can be taken.")
    given = {"payment_id": _new_id(), "order_id": order_id, "gateway": gateway, "key": key, **_columns(amount)}
    payment = _payment((await session.execute(_BEGIN, given)).one())
    if payment.amount != amount:
        raise Permanent(f"Order {order_id} has a payment of {payment.amount} already; {amount} is asked for now.")
    return payment


async def find(session: AsyncSession, order_id: str) -> Payment | None:
    row = (await session.execute(_FIND, {"order_id": order_id})).one_or_none()
    return None if row is None else _payment(row)


async def after_charge(
    session: AsyncSession, order_id: str, amount: Money, gateway: str, answer: ChargeAnswer
) -> PaymentCaptured | PaymentFailed:
    match answer:
        case Charged(charge_id):
            return PaymentCaptured(
                order_id=order_id,
                payment_id=await captured(session, order_id, charge_id),
                gateway=gateway,
                gateway_txn_id=charge_id,
                amount=amount,
            )
        case Declined(reason):
            payment_id = await declined(session, order_id, reason)
            return PaymentFailed(order_id=order_id, payment_id=payment_id, amount=amount, reason=reason)
        case Barred():
            payment_id = await barred(session, order_id)
            return PaymentFailed(order_id=order_id, payment_id=payment_id, amount=amount, reason="provider_error")
        case _:
            assert_never(answer)


async def after_void(
    session: AsyncSession, order_id: str, amount: Money, gateway: str, key: str, answer: Voided
) -> PaymentRefunded | PaymentVoided:
    payment_id = await reversed_(session, order_id, amount, gateway, key, answer)
    if answer.given_back is None:
        return PaymentVoided(order_id=order_id, payment_id=payment_id)
    return PaymentRefunded(
        order_id=order_id,
        payment_id=payment_id,
        refund_id=void_request(key),
        amount=answer.given_back,
        reason="order_cancelled",
    )


async def captured(session: AsyncSession, order_id: str, charge_id: str) -> str:
    return await _answered(session, order_id, "CAPTURED", charge_id, None)


async def declined(session: AsyncSession, order_id: str, reason: FailureReason) -> str:
    return await _answered(session, order_id, "DECLINED", None, reason)


async def barred(session: AsyncSession, order_id: str) -> str:
    """The provider had been told to take nothing."""
    return await _answered(session, order_id, "VOIDED", None, "provider_error")


async def reversed_(session: AsyncSession, order_id: str, amount: Money, gateway: str, key: str, voided: Voided) -> str:
    """The charge of this key is undone: REFUNDED if money had been taken, VOIDED if not. The payment's id."""
    given_back = voided.given_back
    given = {
        "payment_id": _new_id(),
        "order_id": order_id,
        "status": "VOIDED" if given_back is None else "REFUNDED",
        "refunded": 0 if given_back is None else given_back.minor_units,
        "gateway": gateway,
        "key": key,
        "charge_id": None if given_back is None else voided.charge_id,  # a declined charge has a name, too
        **_columns(amount),
    }
    found = (await session.execute(_REVERSED, given)).scalar_one_or_none()
    if found is None:
        return str(given["payment_id"])  # the order's payment is another one; this one never came to be
    if given_back is not None:
        refund = {"request_id": void_request(key), "payment_id": found, **_columns(given_back)}
        await session.execute(_GAVE_BACK, refund)
    return str(found)


async def begin_refund(
    session: AsyncSession, order_id: str, request_id: str, return_id: str, amount: Money, reason: RefundReason
) -> Payment:
    """The payment that this is to be given back from; the wish is written down, once for each request."""
    payment = await find(session, order_id)
    if payment is None or payment.charge_id is None:
        raise Permanent(f"Nothing was captured for order {order_id}, so nothing of it can be given back.")
    given = {"request_id": request_id, "payment_id": payment.payment_id, "return_id": return_id, "reason": reason}
    known = (await session.execute(_BEGIN_REFUND, {**given, **_columns(amount)})).one()
    if (known.payment_id, known.amount, known.currency) != (payment.payment_id, amount.minor_units, amount.currency):
        raise Permanent(
            f"The refund request {request_id} was for {Money.minor(known.amount, known.currency)} of payment "
            f"{known.payment_id}: one request, one refund."
        )
    return payment


async def refunded(session: AsyncSession, request_id: str, done: Refunded) -> None:
    """The refund was made; counted once, however often this is said."""
    await session.execute(_REFUNDED, {"request_id": request_id, "refund_id": done.refund_id})


def void_request(key: str) -> str:
    """Under which the money that a void gives back is written down, at the provider as well."""
    return f"void:{key}"


async def _answered(
    session: AsyncSession, order_id: str, status: str, charge_id: str | None, reason: str | None
) -> str:
    given = {"order_id": order_id, "status": status, "charge_id": charge_id, "reason": reason}
    return str((await session.execute(_ANSWERED, given)).scalar_one())


def _payment(row: Row[Any]) -> Payment:
    amount = Money.minor(row.amount, row.currency)
    return Payment(row.payment_id, row.order_id, amount, row.status, row.provider_key, row.charge_id)


def _columns(amount: Money) -> dict[str, Any]:
    return {"amount": amount.minor_units, "currency": amount.currency}


def _new_id() -> str:
    return f"pay_{uuid4().hex}"
