"""Charges in the books: written down before the provider is asked, and read by their tenant alone."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from services.payment.api.models import Charge
from services.payment.charge_states import Known
from services.payment.charge_step import known
from surefoot.events import Money

Reader = AsyncSession | AsyncConnection

_BEGIN = text("""
    INSERT INTO payments.charges
        (charge_id, tenant, amount, currency, gateway, provider_key, description, created_at, updated_at)
    VALUES (:charge_id, :tenant, :amount, :currency, :gateway, :provider_key, :description, :created_at, :created_at)
""")
_FIND = text("SELECT * FROM payments.charges WHERE charge_id = :charge_id AND tenant = :tenant")
_LOCK = text("SELECT * FROM payments.charges WHERE charge_id = :charge_id AND tenant = :tenant FOR UPDATE")


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


async def begin(session: AsyncSession, charge: NewCharge) -> None:
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
    await session.execute(_BEGIN, given)


async def find(reader: Reader, tenant: str, charge_id: str) -> Charge | None:
    """As it is told."""
    row = (await reader.execute(_FIND, {"charge_id": charge_id, "tenant": tenant})).one_or_none()
    return None if row is None else _told(row)


async def lock(session: AsyncSession, tenant: str, charge_id: str) -> Known | None:
    """Nobody else changes it until the transaction ends."""
    row = (await session.execute(_LOCK, {"charge_id": charge_id, "tenant": tenant})).one_or_none()
    return None if row is None else known(row)


def _told(row: Row[Any]) -> Charge:
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
