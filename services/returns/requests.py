"""Returns as rows: requested by a buyer, followed to their end.

REQUESTED → FINISHED or ABORTED; ESCALATED on the way when the parcel was not picked up in time.

Two clicks, one return. A buyer who says a `return_request_id` may ask as often as they like: the return's own id is
made of it, so the second click finds the row of the first. Without one nobody can tell a second click from a second
wish for the same goods: it is refused while the first is open.

What can come back, and what that is worth, is decided here (`judged`, which is pure), by a copy of the order that is
made of the order's own events.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple
from uuid import UUID, uuid5

import orjson
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Index,
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

from schemas.parts import Address, Line, StockLine
from schemas.returns import DamagePolicy, RejectPolicy, ReturnRequested
from surefoot import outbox
from surefoot.events import Money

metadata = MetaData(schema="returns")

bought = Table(
    "bought",
    metadata,
    Column("order_id", Text, primary_key=True),
    Column("customer_id", Text, nullable=False),
    Column("lines", JSONB, nullable=False, comment="with prices, as ordered"),
    Column(
        "confirmed", Boolean, nullable=False, server_default="false", comment="and shipped: only then can it come back"
    ),
)
returns = Table(
    "returns",
    metadata,
    Column("return_id", Text, primary_key=True),
    Column("order_id", Text, nullable=False),
    Column("customer_id", Text, nullable=False),
    Column("state", Text, nullable=False, server_default="REQUESTED"),
    Column("lines", JSONB, nullable=False, comment="[{sku, quantity}], one for each article"),
    Column("pieces", JSONB, nullable=False, comment="[{sku, price, quantity}]: which of them, by what they have cost"),
    Column("amount_minor", BigInteger, nullable=False, comment="what an approved return gives back"),
    Column("currency", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint("state IN ('REQUESTED', 'ESCALATED', 'FINISHED', 'ABORTED')", name="known_state"),
)
Index("returns_of_order", returns.c.order_id)


_OF_BUYERS = UUID("0199d1c2-5b0e-7c44-9a67-3f2f6f0c8f51")
"""Ids that are made of a buyer's own word lie in a space of their own."""

# The row of the order is locked: two returns of one order take turns, and together get back what was bought at most;
# and the second of two clicks looks when the first has been written down.
_BOUGHT = text(
    "SELECT customer_id, lines, confirmed FROM returns.bought WHERE order_id = :order_id FOR UPDATE"
).columns(lines=JSONB)
_IN_USE = text("""
SELECT piece.sku, piece.price, CAST(sum(piece.quantity) AS bigint) AS quantity
FROM returns.returns, jsonb_to_recordset(pieces) AS piece (sku text, price bigint, quantity bigint)
WHERE order_id = :order_id AND state <> 'ABORTED' GROUP BY piece.sku, piece.price
""")
_INSERT = text("""
INSERT INTO returns.returns (return_id, order_id, customer_id, lines, pieces, amount_minor, currency)
VALUES (:return_id, :order_id, :customer_id, CAST(:lines AS jsonb), CAST(:pieces AS jsonb), :amount_minor, :currency)
""")
_BY_ID = text("SELECT state, lines, amount_minor, currency FROM returns.returns WHERE return_id = :return_id").columns(
    lines=JSONB
)
_OPEN_FOR = text("""
SELECT return_id FROM returns.returns
WHERE order_id = :order_id AND state IN ('REQUESTED', 'ESCALATED') AND lines = CAST(:lines AS jsonb)
ORDER BY created_at LIMIT 1
""")
_BECOMES = text("""
UPDATE returns.returns SET state = :state, updated_at = clock_timestamp()
WHERE return_id = :return_id AND state = ANY(CAST(:before AS text[]))
""")
_SHOWN = text("""
SELECT return_id, order_id, customer_id, state, lines, amount_minor, currency, created_at, updated_at
FROM returns.returns WHERE return_id = :return_id
""").columns(lines=JSONB)


class Pieces(NamedTuple):
    """So many of an article that have cost the same."""

    sku: str
    price: int
    """Of one, in the currency's smallest unit."""
    quantity: int


@dataclass(frozen=True, slots=True)
class Granted:
    lines: tuple[StockLine, ...]
    amount: Money
    pieces: tuple[Pieces, ...]
    """Which of what was bought: kept with the return, so that none is paid for twice, and all are free if it aborts."""


@dataclass(frozen=True, slots=True)
class NotGranted:
    reason: Literal["unknown_order", "not_confirmed", "too_many", "already_requested", "request_reused"]
    sentence: str


@dataclass(frozen=True, slots=True)
class Return:
    """It is there: made now, or by the click before."""

    return_id: str
    order_id: str
    state: str
    amount: Money


async def request_return(
    session: AsyncSession,
    *,
    order_id: str,
    lines: Sequence[StockLine],
    ship_from: Address,
    return_request_id: str | None = None,
    when_damaged: DamagePolicy = "refund_half",
    when_rejected: RejectPolicy = "ship_back",
) -> Return | NotGranted:
    """Write the wish down and tell it, in the transaction of `session`. The amount is what the pieces have cost.

    `return_request_id` is the buyer's own word for this wish, among those for the order: said again, it is answered
    with the same return."""
    order = (await session.execute(_BOUGHT, {"order_id": order_id})).one_or_none()
    if order is None:
        return NotGranted("unknown_order", f"There is no order {order_id} that could be given back.")
    if not order.confirmed:
        return NotGranted("not_confirmed", f"The order {order_id} is not on its way: nothing of it can come back.")
    known: Return | NotGranted | None
    if return_request_id is None:
        return_id = str(uuid7())
        known = await _open_already(session, order_id, lines)
    else:
        return_id = _id_of(order_id, return_request_id)
        known = await _asked_before(session, order_id, return_id, lines)
    if known is not None:
        return known
    in_use = {(row.sku, row.price): row.quantity for row in await session.execute(_IN_USE, {"order_id": order_id})}
    verdict = judged([Line.model_validate(line) for line in order.lines], in_use, lines)
    if isinstance(verdict, NotGranted):
        return verdict
    wish = ReturnRequested(
        return_id=return_id,
        order_id=order_id,
        customer_id=order.customer_id,
        lines=verdict.lines,
        amount=verdict.amount,
        ship_from=ship_from,
        when_damaged=when_damaged,
        when_rejected=when_rejected,
    )
    await session.execute(_INSERT, _row(wish, verdict))
    outbox.add(session, wish, correlation_id=wish.return_id)
    return Return(return_id, order_id, "REQUESTED", wish.amount)


async def become(session: AsyncSession, return_id: str, state: str, *before: str) -> None:
    """Move the return on, if it is in one of these states."""
    await session.execute(_BECOMES, {"return_id": return_id, "state": state, "before": list(before)})


async def shown(connection: AsyncConnection, return_id: str) -> RowMapping | None:
    return (await connection.execute(_SHOWN, {"return_id": return_id})).mappings().one_or_none()


async def _asked_before(
    session: AsyncSession, order_id: str, return_id: str, lines: Sequence[StockLine]
) -> Return | NotGranted | None:
    """What the click before has led to; None if this is the first."""
    row = (await session.execute(_BY_ID, {"return_id": return_id})).one_or_none()
    if row is None:
        return None
    if row.lines != _kept(lines):
        return NotGranted(
            "request_reused",
            f"With this return_request_id other goods of {order_id} were asked for, and the return {return_id} came of "
            "it. Give another wish an id of its own.",
        )
    return Return(return_id, order_id, row.state, Money.minor(row.amount_minor, row.currency))


async def _open_already(session: AsyncSession, order_id: str, lines: Sequence[StockLine]) -> NotGranted | None:
    asked = {"order_id": order_id, "lines": orjson.dumps(_kept(lines)).decode()}
    return_id = await session.scalar(_OPEN_FOR, asked)
    if return_id is None:
        return None
    return NotGranted(
        "already_requested",
        f"The return {return_id} of just these goods of {order_id} is under way. If more of them are to come back, ask "
        "with a return_request_id of its own.",
    )


def _id_of(order_id: str, return_request_id: str) -> str:
    return str(uuid5(uuid5(_OF_BUYERS, order_id), return_request_id))


def _kept(lines: Sequence[StockLine]) -> list[dict[str, object]]:
    """The goods as their row has them."""
    return [{"sku": sku, "quantity": quantity} for sku, quantity in added_up(lines).items()]


def _row(wish: ReturnRequested, granted: Granted) -> dict[str, object]:
    return {
        "return_id": wish.return_id,
        "order_id": wish.order_id,
        "customer_id": wish.customer_id,
        "lines": orjson.dumps(_kept(granted.lines)).decode(),
        "pieces": orjson.dumps([pieces._asdict() for pieces in granted.pieces]).decode(),
        "amount_minor": granted.amount.minor_units,
        "currency": granted.amount.currency,
    }


def judged(
    bought: Sequence[Line], in_use: Mapping[tuple[str, int], int], wish: Sequence[StockLine]
) -> Granted | NotGranted:
    """`in_use` counts, by article and price, the pieces that other returns of the order have: nothing comes back twice.

    Of an article that was bought at two prices, the dearest pieces that are left come back first."""
    wanted = added_up(wish)
    given: list[Pieces] = []
    for sku, quantity in wanted.items():
        of_it = _by_price(bought, sku)
        left = {price: count - in_use.get((sku, price), 0) for price, count in of_it.items()}
        if quantity > sum(left.values()):
            total = of_it.total()
            return NotGranted(
                "too_many",
                f"{quantity} of {sku} cannot be given back: {total} were bought, and {total - sum(left.values())} of "
                "them are part of another return.",
            )
        given += _dearest(sku, left, quantity)
    amount = Money.minor(sum(pieces.price * pieces.quantity for pieces in given), bought[0].unit_price.currency)
    lines = tuple(StockLine(sku=sku, quantity=quantity) for sku, quantity in wanted.items())
    return Granted(lines, amount, tuple(given))


def added_up(wish: Sequence[StockLine]) -> dict[str, int]:
    """How many of each article, sorted: two wishes for the same goods look the same."""
    wanted: Counter[str] = Counter()
    for line in wish:
        wanted[line.sku] += line.quantity
    return dict(sorted(wanted.items()))


def _by_price(bought: Sequence[Line], sku: str) -> Counter[int]:
    """How many pieces of the article were bought at each price."""
    pieces: Counter[int] = Counter()
    for line in bought:
        if line.sku == sku:
            pieces[line.unit_price.minor_units] += line.quantity
    return pieces


def _dearest(sku: str, left: Mapping[int, int], quantity: int) -> Iterator[Pieces]:
    for price in sorted(left, reverse=True):
        taken = min(quantity, left[price])
        if taken > 0:
            yield Pieces(sku, price, taken)
            quantity -= taken
