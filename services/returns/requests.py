"""Returns as rows: requested by a buyer, followed to their end.

REQUESTED → FINISHED or ABORTED; ESCALATED on the way when the parcel was not picked up in time.
"""

from collections.abc import Sequence

import orjson
from sqlalchemy import RowMapping, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from uuid_utils import uuid7

from schemas.parts import Address, Line, StockLine
from schemas.returns import DamagePolicy, RejectPolicy, ReturnRequested
from services.returns.wishes import Granted, NotGranted, judged
from surefoot import outbox

# The row of the order is locked: two returns of one order take turns, and together get back what was bought at most.
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
_BECOMES = text("""
UPDATE returns.returns SET state = :state, updated_at = clock_timestamp()
WHERE return_id = :return_id AND state = ANY(CAST(:before AS text[]))
""")
_SHOWN = text("""
SELECT return_id, order_id, customer_id, state, lines, amount_minor, currency, created_at, updated_at
FROM returns.returns WHERE return_id = :return_id
""").columns(lines=JSONB)


async def request_return(
    session: AsyncSession,
    *,
    order_id: str,
    lines: Sequence[StockLine],
    ship_from: Address,
    when_damaged: DamagePolicy = "refund_half",
    when_rejected: RejectPolicy = "ship_back",
) -> ReturnRequested | NotGranted:
    """Write the wish down and tell it, in the transaction of `session`. The amount is what the pieces have cost."""
    order = (await session.execute(_BOUGHT, {"order_id": order_id})).one_or_none()
    if order is None:
        return NotGranted("unknown_order", f"There is no order {order_id} that could be given back.")
    if not order.confirmed:
        return NotGranted("not_confirmed", f"The order {order_id} is not on its way: nothing of it can come back.")
    in_use = {(row.sku, row.price): row.quantity for row in await session.execute(_IN_USE, {"order_id": order_id})}
    verdict = judged([Line.model_validate(line) for line in order.lines], in_use, lines)
    if isinstance(verdict, NotGranted):
        return verdict
    wish = ReturnRequested(
        return_id=str(uuid7()),
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
    return wish


async def become(session: AsyncSession, return_id: str, state: str, *before: str) -> None:
    """Move the return on, if it is in one of these states."""
    await session.execute(_BECOMES, {"return_id": return_id, "state": state, "before": list(before)})


async def shown(connection: AsyncConnection, return_id: str) -> RowMapping | None:
    return (await connection.execute(_SHOWN, {"return_id": return_id})).mappings().one_or_none()


def _row(wish: ReturnRequested, granted: Granted) -> dict[str, object]:
    return {
        "return_id": wish.return_id,
        "order_id": wish.order_id,
        "customer_id": wish.customer_id,
        "lines": orjson.dumps([line.model_dump() for line in granted.lines]).decode(),
        "pieces": orjson.dumps([pieces._asdict() for pieces in granted.pieces]).decode(),
        "amount_minor": granted.amount.minor_units,
        "currency": granted.amount.currency,
    }
