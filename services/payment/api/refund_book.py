"""Refunds of charges in the books: written down before the provider is asked, whoever asks it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from services.payment.api.models import Refund, RefundStatus
from surefoot.events import Money

Reader = AsyncSession | AsyncConnection

_WRITE = text("""
    INSERT INTO payments.charge_refunds
        (refund_id, charge_id, tenant, amount, currency, status, created_at, updated_at)
    VALUES (:refund_id, :charge_id, :tenant, :amount, :currency, :status, coalesce(:created_at, now()), now())
    ON CONFLICT (refund_id) DO NOTHING
""")
_SETTLE = text("""
    UPDATE payments.charge_refunds
    SET status = :status, gateway_refund_id = :gateway_refund_id, reason = :reason, updated_at = now()
    WHERE refund_id = :refund_id AND status = 'PENDING'
""")
_FIND = text("SELECT * FROM payments.charge_refunds WHERE refund_id = :refund_id AND tenant = :tenant")
_SUMS = text("""
    SELECT coalesce(sum(amount) FILTER (WHERE status = 'REFUNDED'), 0)::bigint AS done,
           coalesce(sum(amount) FILTER (WHERE status <> 'REFUSED'), 0)::bigint AS begun
    FROM payments.charge_refunds WHERE charge_id = :charge_id
""")


@dataclass(frozen=True, slots=True)
class NewRefund:
    refund_id: str
    charge_id: str
    tenant: str
    amount: Money
    created_at: datetime | None = None
    """None: now."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Of one charge, in minor units."""

    done: int
    begun: int
    """Those that are done included."""


async def write(session: AsyncSession, refund: NewRefund, status: RefundStatus) -> None:
    given = {
        "refund_id": refund.refund_id,
        "charge_id": refund.charge_id,
        "tenant": refund.tenant,
        "amount": refund.amount.minor_units,
        "currency": refund.amount.currency,
        "status": status,
        "created_at": refund.created_at,
    }
    await session.execute(_WRITE, given)


async def settle(
    session: AsyncSession,
    refund_id: str,
    status: RefundStatus,
    *,
    gateway_refund_id: str | None = None,
    reason: str | None = None,
) -> None:
    """What became of it; once."""
    given = {"refund_id": refund_id, "status": status, "gateway_refund_id": gateway_refund_id, "reason": reason}
    await session.execute(_SETTLE, given)


async def sums(session: AsyncSession, charge_id: str) -> Sums:
    """Lock the charge first: else others come in between."""
    row = (await session.execute(_SUMS, {"charge_id": charge_id})).one()
    return Sums(row.done, row.begun)


async def find(reader: Reader, tenant: str, refund_id: str) -> Refund | None:
    """As it is told."""
    row = (await reader.execute(_FIND, {"refund_id": refund_id, "tenant": tenant})).one_or_none()
    return None if row is None else _told(row)


def _told(row: Row[Any]) -> Refund:
    return Refund(
        id=row.refund_id,
        charge_id=row.charge_id,
        amount=Money.minor(row.amount, row.currency),
        status=row.status,
        reason=row.reason,
        created_at=row.created_at,
    )
