"""Charges and their refunds in the books: written down before the provider is asked, and read by their tenant alone."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from services.payment.api.models import Charge, Refund, RefundStatus
from services.payment.charge_news import Known
from services.payment.charge_step import known
from surefoot.events import Money

Reader = AsyncSession | AsyncConnection
_BEGIN_CHARGE = text("""
    INSERT INTO payments.charges
        (charge_id, tenant, amount, currency, gateway, provider_key, description, created_at, updated_at)
    VALUES (:charge_id, :tenant, :amount, :currency, :gateway, :provider_key, :description, :created_at, :created_at)
""")
_FIND_CHARGE = text("SELECT * FROM payments.charges WHERE charge_id = :charge_id AND tenant = :tenant")
_LOCK_CHARGE = text("SELECT * FROM payments.charges WHERE charge_id = :charge_id AND tenant = :tenant FOR UPDATE")
_WRITE_REFUND = text("""
    INSERT INTO payments.charge_refunds
        (refund_id, charge_id, tenant, amount, currency, status, created_at, updated_at)
    VALUES (:refund_id, :charge_id, :tenant, :amount, :currency, :status, coalesce(:created_at, now()), now())
    ON CONFLICT (refund_id) DO NOTHING
""")
_SETTLE_REFUND = text("""
    UPDATE payments.charge_refunds
    SET status = :status, gateway_refund_id = :gateway_refund_id, reason = :reason, updated_at = now()
    WHERE refund_id = :refund_id AND status = 'PENDING'
""")
_FIND_REFUND = text("SELECT * FROM payments.charge_refunds WHERE refund_id = :refund_id AND tenant = :tenant")
_SUMS = text("""
    SELECT coalesce(sum(amount) FILTER (WHERE status = 'REFUNDED'), 0)::bigint AS done,
           coalesce(sum(amount) FILTER (WHERE status <> 'REFUSED'), 0)::bigint AS begun
    FROM payments.charge_refunds WHERE charge_id = :charge_id
""")


@dataclass(frozen=True, slots=True)
class NewCharge:
    """To be written down, and then asked for."""

    charge_id: str
    tenant: str
    amount: Money
    description: str | None
    gateway: str
    provider_key: str
    created_at: datetime


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


async def begin_charge(session: AsyncSession, charge: NewCharge) -> None:
    given = {
        "charge_id": charge.charge_id,
        "tenant": charge.tenant,
        "amount": charge.amount.minor_units,
        "currency": charge.amount.currency,
        "gateway": charge.gateway,
        "provider_key": charge.provider_key,
        "description": charge.description,
        "created_at": charge.created_at,
    }
    await session.execute(_BEGIN_CHARGE, given)


async def find_charge(reader: Reader, tenant: str, charge_id: str) -> Charge | None:
    """As it is told."""
    row = (await reader.execute(_FIND_CHARGE, {"charge_id": charge_id, "tenant": tenant})).one_or_none()
    return None if row is None else _told_charge(row)


async def lock_charge(session: AsyncSession, tenant: str, charge_id: str) -> Known | None:
    """Nobody else changes it until the transaction ends."""
    row = (await session.execute(_LOCK_CHARGE, {"charge_id": charge_id, "tenant": tenant})).one_or_none()
    return None if row is None else known(row)


async def write_refund(session: AsyncSession, refund: NewRefund, status: RefundStatus) -> None:
    given = {
        "refund_id": refund.refund_id,
        "charge_id": refund.charge_id,
        "tenant": refund.tenant,
        "amount": refund.amount.minor_units,
        "currency": refund.amount.currency,
        "status": status,
        "created_at": refund.created_at,
    }
    await session.execute(_WRITE_REFUND, given)


async def settle_refund(
    session: AsyncSession,
    refund_id: str,
    status: RefundStatus,
    *,
    gateway_refund_id: str | None = None,
    reason: str | None = None,
) -> None:
    """What became of it; once."""
    given = {"refund_id": refund_id, "status": status, "gateway_refund_id": gateway_refund_id, "reason": reason}
    await session.execute(_SETTLE_REFUND, given)


async def sums(session: AsyncSession, charge_id: str) -> Sums:
    """Lock the charge first: else others come in between."""
    row = (await session.execute(_SUMS, {"charge_id": charge_id})).one()
    return Sums(row.done, row.begun)


async def find_refund(reader: Reader, tenant: str, refund_id: str) -> Refund | None:
    """As it is told."""
    row = (await reader.execute(_FIND_REFUND, {"refund_id": refund_id, "tenant": tenant})).one_or_none()
    return None if row is None else _told_refund(row)


def _told_charge(row: Row[Any]) -> Charge:
    return Charge(
        id=row.charge_id,
        amount=Money.minor(row.amount, row.currency),
        refunded=Money.minor(row.refunded, row.currency),
        status=row.status,
        reason=row.reason,
        description=row.description,
        gateway_txn_id=row.gateway_txn_id,
        created_at=row.created_at,
    )


def _told_refund(row: Row[Any]) -> Refund:
    return Refund(
        id=row.refund_id,
        charge_id=row.charge_id,
        amount=Money.minor(row.amount, row.currency),
        status=row.status,
        reason=row.reason,
        created_at=row.created_at,
    )
