"""Orders: PENDING_PAYMENT → PAID → PROCESSING, or CANCELLED before that. States only move forward.

Each verb is one conditional statement in the transaction of the session it is given, and says what it found. One
checkout session leads to one order, however often it is asked for: the database sees to it. The schema is `orders`,
because `order` alone is a word of SQL's own.
"""

from dataclasses import dataclass

import orjson
from sqlalchemy import BigInteger, CheckConstraint, Column, DateTime, MetaData, RowMapping, Table, Text, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from schemas.order import CancelReason, CreateOrder, Mode, PlacementRequested
from surefoot.consumer import Permanent
from surefoot.events import Money

metadata = MetaData(schema="orders")

orders = Table(
    "orders",
    metadata,
    Column("order_id", Text, primary_key=True),
    Column("checkout_session_id", Text, nullable=False, unique=True),
    Column("customer_id", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("total_minor", BigInteger, nullable=False, comment="in the currency's smallest unit"),
    Column("currency", Text, nullable=False),
    Column("lines", JSONB, nullable=False),
    Column("ship_to", JSONB, nullable=False),
    Column("payment_id", Text),
    Column("cancel_reason", Text),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("paid_at", DateTime(timezone=True)),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint("mode IN ('orchestrated', 'choreographed')", name="known_mode"),
    CheckConstraint("status IN ('PENDING_PAYMENT', 'PAID', 'PROCESSING', 'CANCELLED')", name="known_status"),
    # Every step of an order rewrites its row: room on the page lets Postgres do that without touching the indexes.
    postgresql_with={"fillfactor": 70},
)


@dataclass(frozen=True, slots=True)
class Created:
    """The order is there: made now, or by the click before."""


@dataclass(frozen=True, slots=True)
class SessionUsed:
    """The checkout session has led to another order."""

    instead: str


@dataclass(frozen=True, slots=True)
class Paid:
    checkout_session_id: str
    total: Money


_INSERT = text("""
INSERT INTO orders.orders (order_id, checkout_session_id, customer_id, mode, status, total_minor, currency, lines,
                           ship_to)
VALUES (:order_id, :session_id, :customer_id, :mode, 'PENDING_PAYMENT', :total_minor, :currency,
        CAST(:lines AS jsonb), CAST(:ship_to AS jsonb))
ON CONFLICT DO NOTHING RETURNING order_id
""")
_ORDER_OF_SESSION = text("SELECT order_id FROM orders.orders WHERE checkout_session_id = :session_id")
_CONFIRM = text("""
UPDATE orders.orders SET status = 'PROCESSING', payment_id = :payment_id, paid_at = clock_timestamp(),
    updated_at = clock_timestamp()
WHERE order_id = :order_id AND status = 'PENDING_PAYMENT' RETURNING order_id
""")
_PAY = text("""
UPDATE orders.orders SET status = 'PAID', payment_id = :payment_id, paid_at = clock_timestamp(),
    updated_at = clock_timestamp()
WHERE order_id = :order_id AND status = 'PENDING_PAYMENT' AND mode = 'choreographed'
RETURNING checkout_session_id, total_minor, currency
""")
_PROCESS = text("""
UPDATE orders.orders SET status = 'PROCESSING', updated_at = clock_timestamp()
WHERE order_id = :order_id AND status = 'PAID' AND mode = 'choreographed' RETURNING order_id
""")
_CANCEL = text("""
UPDATE orders.orders SET status = 'CANCELLED', cancel_reason = :reason, updated_at = clock_timestamp()
WHERE order_id = :order_id AND status IN ('PENDING_PAYMENT', 'PAID') AND mode = :mode
RETURNING checkout_session_id
""")
_STATUS = text("SELECT status FROM orders.orders WHERE order_id = :order_id")
_SHOWN = """
SELECT order_id, checkout_session_id, customer_id, mode, status, total_minor, currency, lines, ship_to, cancel_reason,
       created_at, updated_at
FROM orders.orders WHERE """
_BY_ID = text(_SHOWN + "order_id = :value").columns(lines=JSONB, ship_to=JSONB)
_BY_SESSION = text(_SHOWN + "checkout_session_id = :value").columns(lines=JSONB, ship_to=JSONB)


async def create(session: AsyncSession, wish: CreateOrder | PlacementRequested, mode: Mode) -> Created | SessionUsed:
    """Two clicks, one order: the second finds the first."""
    values = {
        "order_id": wish.order_id,
        "session_id": wish.checkout_session_id,
        "customer_id": wish.customer_id,
        "mode": mode,
        "total_minor": wish.total.minor_units,
        "currency": wish.total.currency,
        "lines": orjson.dumps([line.model_dump(mode="json") for line in wish.lines]).decode(),
        "ship_to": orjson.dumps(wish.ship_to.model_dump(mode="json")).decode(),
    }
    if await session.scalar(_INSERT, values) is not None:
        return Created()
    known = await session.scalar(_ORDER_OF_SESSION, values)
    if known is None:
        raise Permanent(
            f"The order {wish.order_id} exists already, and for another checkout session than "
            f"{wish.checkout_session_id}: an order's id belongs to one session."
        )
    return Created() if known == wish.order_id else SessionUsed(known)


async def confirm(session: AsyncSession, order_id: str, payment_id: str) -> None:
    """PENDING_PAYMENT → PAID → PROCESSING, in one go: the saga says both at once."""
    if await session.scalar(_CONFIRM, {"order_id": order_id, "payment_id": payment_id}) is None:
        await _must_be(session, order_id, "PROCESSING", "confirmed")


async def pay(session: AsyncSession, order_id: str, payment_id: str) -> Paid | None:
    """PENDING_PAYMENT → PAID, for an order that no saga drives; None if there is none that waits for its money."""
    row = (await session.execute(_PAY, {"order_id": order_id, "payment_id": payment_id})).one_or_none()
    return None if row is None else Paid(row.checkout_session_id, Money.minor(row.total_minor, row.currency))


async def process(session: AsyncSession, order_id: str) -> bool:
    """PAID → PROCESSING, for an order that no saga drives; whether there was one."""
    return await session.scalar(_PROCESS, {"order_id": order_id}) is not None


async def cancel(session: AsyncSession, order_id: str, reason: CancelReason, mode: Mode) -> str | None:
    """Cancel what is not yet being processed; its checkout session, or None if there was nothing to cancel."""
    found: str | None = await session.scalar(_CANCEL, {"order_id": order_id, "reason": reason, "mode": mode})
    return found


async def status_of(session: AsyncSession, order_id: str) -> str | None:
    found: str | None = await session.scalar(_STATUS, {"order_id": order_id})
    return found


async def order_by_id(connection: AsyncConnection, order_id: str) -> RowMapping | None:
    return (await connection.execute(_BY_ID, {"value": order_id})).mappings().one_or_none()


async def order_of_session(connection: AsyncConnection, checkout_session_id: str) -> RowMapping | None:
    return (await connection.execute(_BY_SESSION, {"value": checkout_session_id})).mappings().one_or_none()


async def _must_be(session: AsyncSession, order_id: str, wanted: str, verb: str) -> None:
    status = await status_of(session, order_id)
    if status != wanted:
        raise Permanent(
            f"The order {order_id} cannot be {verb}: "
            + ("there is no such order." if status is None else f"it is {status}.")
        )
