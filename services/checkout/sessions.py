"""Checkout sessions: opened with a wish, held by the warehouse, placed once.

HOLDING (the warehouse is asked) → HELD → PLACED; or REJECTED (not to be had), or EXPIRED (took too long). All events of
a session carry its id as their correlation, from the first question to the last parcel. The order's id is minted with
the session, so two clicks on "buy" ask for the same order.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import orjson
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Integer,
    MetaData,
    RowMapping,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from uuid_utils import uuid7

from schemas.order import Mode, PlacementRequested
from schemas.parts import MOST_OF_ONE_ARTICLE, Address, Line, StockLine
from schemas.warehouse import HoldStock
from surefoot import outbox
from surefoot.errors import SurefootError
from surefoot.events import Money
from surefoot.events.text import has_forbidden

metadata = MetaData(schema="checkout")

sessions = Table(
    "sessions",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("order_id", Text, nullable=False, unique=True),
    Column("customer_id", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("lines", JSONB, nullable=False),
    Column("total_minor", BigInteger, nullable=False, comment="in the currency's smallest unit"),
    Column("currency", Text, nullable=False),
    Column("ship_to", JSONB, nullable=False),
    Column("hold_s", Integer, nullable=False),
    Column("expires_at", DateTime(timezone=True), comment="until when the warehouse holds the goods"),
    Column("rejected_because", Text),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("placed_at", DateTime(timezone=True)),
    CheckConstraint("mode IN ('orchestrated', 'choreographed')", name="known_mode"),
    CheckConstraint("state IN ('HOLDING', 'HELD', 'PLACED', 'REJECTED', 'EXPIRED')", name="known_state"),
    postgresql_with={"fillfactor": 70},
)


class WishRefused(SurefootError):
    """These lines cannot be bought together."""


@dataclass(frozen=True, slots=True)
class Opened:
    session_id: str
    order_id: str
    total: Money


@dataclass(frozen=True, slots=True)
class Placed:
    """The order is asked for: by this click, or by the one before."""

    order_id: str


@dataclass(frozen=True, slots=True)
class NotPlaced:
    reason: Literal["unknown", "not_held_yet", "rejected", "expired"]
    sentence: str


_OPEN = text("""
INSERT INTO checkout.sessions (session_id, order_id, customer_id, mode, state, lines, total_minor, currency, ship_to,
                               hold_s)
VALUES (:session_id, :order_id, :customer_id, :mode, 'HOLDING', CAST(:lines AS jsonb), :total_minor, :currency,
        CAST(:ship_to AS jsonb), :hold_s)
""")
_PLACE = text("""
UPDATE checkout.sessions SET state = 'PLACED', placed_at = now()
WHERE session_id = :session_id AND state = 'HELD' AND expires_at > now()
RETURNING order_id, customer_id, mode, lines, total_minor, currency, ship_to
""").columns(lines=JSONB, ship_to=JSONB)
_LOOK = text("""
SELECT state, order_id, rejected_because, expires_at > now() AS in_time
FROM checkout.sessions WHERE session_id = :session_id
""")
_SHOWN = text("""
SELECT session_id, order_id, customer_id, mode, state, lines, total_minor, currency, expires_at, rejected_because,
       created_at, placed_at
FROM checkout.sessions WHERE session_id = :session_id
""").columns(lines=JSONB)
_BECOMES = text("""
UPDATE checkout.sessions SET state = :state, expires_at = coalesce(:expires_at, expires_at),
    rejected_because = coalesce(:reason, rejected_because)
WHERE session_id = :session_id AND state = ANY(CAST(:before AS text[]))
""")


async def open_session(
    session: AsyncSession,
    *,
    customer_id: str,
    lines: Sequence[Line],
    ship_to: Address,
    mode: Mode,
    hold: timedelta,
) -> Opened:
    """Write a session down and ask the warehouse to keep its goods, in the transaction of `session`. A wish that could
    not be carried out later is refused now: `WishRefused`."""
    check_wish(customer_id, lines)
    total = total_of(lines)
    session_id, order_id = str(uuid7()), str(uuid7())
    values = {
        "session_id": session_id,
        "order_id": order_id,
        "customer_id": customer_id,
        "mode": mode,
        "lines": orjson.dumps([line.model_dump(mode="json") for line in lines]).decode(),
        "total_minor": total.minor_units,
        "currency": total.currency,
        "ship_to": orjson.dumps(ship_to.model_dump(mode="json")).decode(),
        "hold_s": int(hold.total_seconds()),
    }
    await session.execute(_OPEN, values)
    goods = tuple(StockLine(sku=line.sku, quantity=line.quantity) for line in lines)
    wish = HoldStock(checkout_session_id=session_id, lines=goods, hold_s=int(hold.total_seconds()))
    outbox.add(session, wish, correlation_id=session_id)
    return Opened(session_id, order_id, total)


async def place(session: AsyncSession, session_id: str) -> Placed | NotPlaced:
    """Ask for the session's order, once: a second click finds it placed and gets the same order."""
    row = (await session.execute(_PLACE, {"session_id": session_id})).one_or_none()
    if row is None:
        return _why_not((await session.execute(_LOOK, {"session_id": session_id})).one_or_none(), session_id)
    wish = PlacementRequested(
        order_id=row.order_id,
        customer_id=row.customer_id,
        checkout_session_id=session_id,
        mode=row.mode,
        lines=row.lines,
        total=Money.minor(row.total_minor, row.currency),
        ship_to=row.ship_to,
    )
    outbox.add(session, wish, correlation_id=session_id)
    return Placed(row.order_id)


async def become_held(session: AsyncSession, session_id: str, expires_at: object) -> None:
    await _become(session, session_id, "HELD", ["HOLDING"], expires_at=expires_at)


async def become_rejected(session: AsyncSession, session_id: str, reason: str) -> None:
    await _become(session, session_id, "REJECTED", ["HOLDING"], reason=reason)


async def become_expired(session: AsyncSession, session_id: str) -> None:
    """A session that has been placed stays placed: its order sees to the goods."""
    await _become(session, session_id, "EXPIRED", ["HOLDING", "HELD"])


async def shown(connection: AsyncConnection, session_id: str) -> RowMapping | None:
    return (await connection.execute(_SHOWN, {"session_id": session_id})).mappings().one_or_none()


def check_wish(customer_id: str, lines: Sequence[Line]) -> None:
    """What the other services could not handle is refused here, where somebody is there to read why: the customer is
    the key of what notification is told, and the warehouse handles so many pieces of an article at once."""
    if has_forbidden(customer_id):
        raise WishRefused("The customer_id has a NUL or another control character: remove it.")
    pieces: Counter[str] = Counter()
    for line in lines:
        if has_forbidden(line.sku):
            raise WishRefused(f"The article {line.sku!r} has a NUL or another control character in its sku: remove it.")
        pieces[line.sku] += line.quantity
    for sku, quantity in pieces.items():
        if quantity > MOST_OF_ONE_ARTICLE:
            raise WishRefused(
                f"{quantity} of {sku} are too many: a session has at most {MOST_OF_ONE_ARTICLE} of one article. Open "
                "several sessions."
            )


def total_of(lines: Sequence[Line]) -> Money:
    """What the lines cost together. They must share a currency, and cost more than nothing."""
    currencies = {line.unit_price.currency for line in lines}
    if len(currencies) != 1:
        raise WishRefused(
            "A session is paid in one currency, and these lines have "
            + (f"{len(currencies)}: {', '.join(sorted(currencies))}. Open a session for each." if lines else "none.")
        )
    if any(line.unit_price.minor_units < 0 for line in lines):
        raise WishRefused("A price below zero is no price: take the reduction off the article's own price.")
    total = sum(line.unit_price.minor_units * line.quantity for line in lines)
    if total == 0:
        raise WishRefused("These lines cost nothing together, and nobody can be charged nothing: sell one at a price.")
    return Money.minor(total, currencies.pop())


async def _become(
    session: AsyncSession,
    session_id: str,
    state: str,
    before: list[str],
    *,
    expires_at: object = None,
    reason: str | None = None,
) -> None:
    values = {"session_id": session_id, "state": state, "before": before, "expires_at": expires_at, "reason": reason}
    await session.execute(_BECOMES, values)


def _why_not(row: Any, session_id: str) -> Placed | NotPlaced:
    if row is None:
        return NotPlaced("unknown", f"There is no checkout session {session_id}. Open one first.")
    match row.state:
        case "PLACED":
            return Placed(row.order_id)
        case "HOLDING":
            return NotPlaced("not_held_yet", "The warehouse has not answered yet whether it has the goods. Try again.")
        case "REJECTED":
            return NotPlaced(
                "rejected",
                f"The warehouse cannot keep these goods ({row.rejected_because}). Open a session with other lines.",
            )
        case "HELD" if row.in_time:  # since we tried to place it, a moment ago
            return NotPlaced("not_held_yet", "The warehouse has only just answered that it has the goods. Try again.")
        case _:  # EXPIRED, or HELD with its time over and the warehouse not having said so yet
            return NotPlaced("expired", "The session took too long, and its goods are on sale again. Open a new one.")
