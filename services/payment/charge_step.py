"""One step of one charge: a single conditional update, and the news of it by whoever's update it was.

However many say the same at once, the row is changed by one of them, and that one publishes, in the same transaction.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncSession

from schemas.charge import ChargeNews
from services.payment.charge_news import FROM, Contradicted, Known, Late, Moved, News, told, unmoved
from surefoot import outbox
from surefoot.events import Money

Publish = Callable[[ChargeNews], object]
After = Callable[[AsyncSession, Moved], Awaitable[None]]
"""What else belongs to a step, in the same transaction: entries in a ledger, say. Called by whoever made the step."""

_THIS_TRANSACTION = """
    (CAST(:txn AS text) IS NULL OR (coalesce(charge.gateway_txn_id, :txn) = :txn AND NOT EXISTS (
        SELECT FROM payments.charges AS other WHERE other.gateway_txn_id = :txn AND other.charge_id <> :charge_id
    )))
"""
_MOVE = f"""
    UPDATE payments.charges AS charge
    SET status = :to,
        gateway_txn_id = coalesce(charge.gateway_txn_id, :txn),
        reason = coalesce(CAST(:reason AS text), charge.reason),
        updated_at = now()
    WHERE charge.charge_id = :charge_id
      AND charge.status = ANY(:from)
      AND charge.amount = coalesce(CAST(:amount AS bigint), charge.amount)
      AND charge.currency = coalesce(CAST(:currency AS text), charge.currency)
      AND {_THIS_TRANSACTION}
    RETURNING charge.*
"""
# A refund may come in parts. What is said is always the total so far, so that it can be said twice, and in any order.
_GIVE_BACK = f"""
    UPDATE payments.charges AS charge
    SET status = CASE WHEN coalesce(:amount, charge.amount) = charge.amount THEN :to ELSE charge.status END,
        refunded = coalesce(:amount, charge.amount),
        gateway_txn_id = coalesce(charge.gateway_txn_id, :txn),
        reason = coalesce(CAST(:reason AS text), charge.reason),
        updated_at = now()
    WHERE charge.charge_id = :charge_id
      AND charge.status = ANY(:from)
      AND coalesce(CAST(:amount AS bigint), charge.amount) BETWEEN charge.refunded + 1 AND charge.amount
      AND charge.currency = coalesce(CAST(:currency AS text), charge.currency)
      AND {_THIS_TRANSACTION}
    RETURNING charge.*
"""
_LEARN = f"""
    UPDATE payments.charges AS charge SET gateway_txn_id = :txn, updated_at = now()
    WHERE charge.charge_id = :charge_id AND charge.gateway_txn_id IS NULL AND {_THIS_TRANSACTION}
"""
_FIND = text("SELECT * FROM payments.charges WHERE charge_id = :charge_id")


async def step(
    session: AsyncSession, charge_id: str, news: News, *, publish: Publish | None = None, after: After | None = None
) -> Moved | Late | Contradicted:
    """If the news names the gateway's transaction, the caller holds the lock of it."""
    given = {
        "charge_id": charge_id,
        "to": news.to,
        "from": list(FROM[news.to]),
        "txn": news.gateway_txn_id,
        "reason": news.reason,
        "amount": None if news.amount is None else news.amount.minor_units,
        "currency": None if news.amount is None else news.amount.currency,
    }
    row = (await session.execute(text(_GIVE_BACK if news.to == "REFUNDED" else _MOVE), given)).one_or_none()
    if row is None:
        return await _unmoved(session, charge_id, news)
    moved = Moved(known(row), news)
    event = told(moved)
    if publish is None:
        outbox.add(session, event)
    else:
        publish(event)
    if after is not None:
        await after(session, moved)
    return moved


async def _unmoved(session: AsyncSession, charge_id: str, news: News) -> Late | Contradicted:
    row = (await session.execute(_FIND, {"charge_id": charge_id})).one_or_none()
    if row is None:
        return Contradicted(f"There is no charge {charge_id}.")
    found = unmoved(known(row), news)
    if isinstance(found, Late) and row.gateway_txn_id is None and news.gateway_txn_id is not None:
        # Late as it is, it is the first to say which of the gateway's transactions this is.
        await session.execute(text(_LEARN), {"charge_id": charge_id, "txn": news.gateway_txn_id})
    return found


def known(row: Row[Any]) -> Known:
    return Known(
        charge_id=row.charge_id,
        tenant=row.tenant,
        amount=Money.minor(row.amount, row.currency),
        refunded=Money.minor(row.refunded, row.currency),
        status=row.status,
        gateway=row.gateway,
        gateway_txn_id=row.gateway_txn_id,
        reason=row.reason,
    )
