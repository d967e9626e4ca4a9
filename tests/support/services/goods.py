"""Goods, buyers and addresses for the services' tests, and the short words the tests are written in."""

import asyncpg
import orjson
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from schemas.parts import Address, Line, StockLine
from services.warehouse import stock
from surefoot.events import Money

HOME = Address(name="A. Buyer", street="1 Main Street", postal_code="12345", city="Springfield", country="US")


def goods(**quantities: int) -> tuple[StockLine, ...]:
    return tuple(StockLine(sku=sku, quantity=quantity) for sku, quantity in quantities.items())


def lines(price: int = 1000, **quantities: int) -> tuple[Line, ...]:
    """Order lines, each piece at so many cents."""
    cents = Money.minor(price, "EUR")
    return tuple(Line(sku=sku, quantity=quantity, unit_price=cents) for sku, quantity in quantities.items())


async def received(engine: AsyncEngine, **quantities: int) -> None:
    async with AsyncSession(engine) as session, session.begin():
        await stock.receive(session, "delivery-1", quantities)


async def on_the_shelf(connection: asyncpg.Connection, sku: str) -> tuple[int, int, int, int]:
    """on hand, held, reserved, quarantined"""
    row = await connection.fetchrow(
        "SELECT on_hand, held, reserved, quarantined FROM warehouse.stock WHERE sku = $1", sku
    )
    return tuple(row)


async def published(connection: asyncpg.Connection, event_type: str) -> list[dict[str, object]]:
    """The data of what was put into the outbox, in order."""
    rows = await connection.fetch(
        "SELECT body FROM surefoot.outbox_events WHERE event_type = $1 ORDER BY position", event_type
    )
    return [orjson.loads(row["body"]) for row in rows]


async def flows(connection: asyncpg.Connection) -> set[str]:
    """The correlation ids of all that is in the outbox."""
    rows = await connection.fetch("SELECT headers FROM surefoot.outbox_events")
    return {value for row in rows for name, value in orjson.loads(row["headers"]) if name == "ce_correlationid"}
