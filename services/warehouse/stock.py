"""Stock: kept for a session, set aside for an order, shipped, put back. All lines of a wish, or none.

Each verb is one statement in the transaction of the session it is given. Two who want the last piece take turns at
its row, and the second sees what the first has left.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import orjson
from sqlalchemy.ext.asyncio import AsyncSession

from schemas.parts import MOST_OF_ONE_ARTICLE, StockLine
from schemas.warehouse import RejectReason
from services.warehouse import statements
from surefoot.consumer import Permanent, Transient

Lines = tuple[StockLine, ...]
Place = Literal["SHELF", "QUARANTINE"]


@dataclass(frozen=True, slots=True)
class Held:
    checkout_session_id: str
    lines: Lines
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Reserved:
    order_id: str
    reservation_id: str
    lines: Lines


@dataclass(frozen=True, slots=True)
class Refused:
    """Not all of it can be had, so nothing was touched."""

    reason: RejectReason
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PutBack:
    """What is free again, and the name it was kept under."""

    reference: str
    name: str
    lines: Lines


async def hold(
    session: AsyncSession, checkout_session_id: str, lines: Sequence[StockLine], hold_s: int
) -> Held | Refused:
    """Keep goods for a checkout session, for so many seconds of the database's clock. Asked again, the answer is what
    became of the first hold."""
    if (refused := beyond(lines)) is not None:
        return refused
    wanted = merged(lines)
    values = {**_parameters(wanted), "session_id": checkout_session_id, "hold_s": hold_s}
    row = (await session.execute(statements.HOLD, values)).one()
    if row.state in ("HELD", "TAKEN"):
        return Held(checkout_session_id, _lines(row.lines), row.expires_at)
    if row.state is not None:
        return Refused("hold_expired")
    if not row.yes:
        return _refused(row)
    _check_all_changed(row)
    return Held(checkout_session_id, wanted, row.expires_at)


async def reserve(
    session: AsyncSession, order_id: str, checkout_session_id: str, lines: Sequence[StockLine]
) -> Reserved | Refused:
    """Set goods aside for an order: those that its session holds if it still does, else what is free."""
    if (refused := beyond(lines)) is not None:
        return refused
    wanted = merged(lines)
    reservation_id = f"reservation-{order_id}"
    ids = {"order_id": order_id, "session_id": checkout_session_id, "reservation_id": reservation_id}
    row = (await session.execute(statements.RESERVE, {**_parameters(wanted), **ids})).one()
    if row.state == "RELEASED":
        raise Permanent(f"What was set aside for {order_id} has been put back; it is not set aside a second time.")
    if row.state is not None:
        return Reserved(order_id, row.reservation_id, _lines(row.lines))
    if not row.yes:
        refused = _refused(row)
        was_late = row.hold_state == "EXPIRED" and refused.reason == "out_of_stock"
        return Refused("hold_expired", refused.missing) if was_late else refused
    _check_all_changed(row)
    return Reserved(order_id, reservation_id, wanted)


async def lines_held_for(session: AsyncSession, checkout_session_id: str) -> Lines | None:
    """What was kept for the session, whether it still is or not; None if the warehouse never heard of it."""
    lines = await session.scalar(statements.LINES_OF_HOLD, {"session_id": checkout_session_id})
    return None if lines is None else _lines(lines)


async def release(session: AsyncSession, order_id: str) -> PutBack | None:
    """Put back what is set aside for an order; None if nothing is."""
    row = (await session.execute(statements.RELEASE, {"order_id": order_id})).one_or_none()
    return None if row is None else PutBack(row.reference, row.name, _lines(row.lines))


async def release_hold(session: AsyncSession, checkout_session_id: str, order_id: str) -> PutBack | None:
    """End a session's hold because its order will not be; None if it does not stand."""
    ids = {"session_id": checkout_session_id, "order_id": order_id}
    row = (await session.execute(statements.RELEASE_HOLD, ids)).one_or_none()
    return None if row is None else PutBack(row.reference, row.name, _lines(row.lines))


async def ship(session: AsyncSession, order_id: str) -> None:
    """What is set aside for an order leaves the house; a repeat finds nothing set aside any more."""
    await session.execute(statements.SHIP, {"order_id": order_id})


async def expire(session: AsyncSession, limit: int) -> list[PutBack]:
    """End so many holds, at most, whose time is over by the database's clock."""
    rows = await session.execute(statements.EXPIRE, {"limit": limit})
    return [PutBack(row.reference, row.name, _lines(row.lines)) for row in rows]


async def put_away(session: AsyncSession, return_id: str, place: Place, lines: Sequence[StockLine]) -> None:
    """What came back goes to its place: once for each return."""
    cause = "restocked" if place == "SHELF" else "quarantined"
    values = {**_parameters(merged(lines)), "reference": return_id, "place": place, "cause": cause}
    await session.execute(statements.PUT_AWAY, values)


async def receive(session: AsyncSession, delivery: str, pieces: Mapping[str, int]) -> None:
    """New goods arrive on the shelf: so many pieces of each article, as many as you like."""
    skus = sorted(pieces)
    arrived = {"skus": skus, "quantities": [pieces[sku] for sku in skus]}
    await session.execute(statements.RECEIVE, {**arrived, "reference": delivery, "cause": "received"})


def merged(lines: Sequence[StockLine]) -> Lines:
    """One line for each article, sorted: two lines of the same article must not each be given its last piece."""
    quantities = _quantities(lines)
    if any(quantity > MOST_OF_ONE_ARTICLE for quantity in quantities.values()):
        raise Permanent(f"More than {MOST_OF_ONE_ARTICLE} pieces of one article are not handled at once.")
    return tuple(StockLine(sku=sku, quantity=quantity) for sku, quantity in sorted(quantities.items()))


def beyond(lines: Sequence[StockLine]) -> Refused | None:
    """A refusal, if there are more of one article than are handled at once: whoever asked is told, and need not wait
    for an answer that never comes."""
    many = [sku for sku, quantity in _quantities(lines).items() if quantity > MOST_OF_ONE_ARTICLE]
    return Refused("out_of_stock", tuple(sorted(many))) if many else None


def _quantities(lines: Sequence[StockLine]) -> Counter[str]:
    quantities: Counter[str] = Counter()
    for line in lines:
        quantities[line.sku] += line.quantity
    return quantities


def _parameters(lines: Lines) -> dict[str, Any]:
    return {
        "skus": [line.sku for line in lines],
        "quantities": [line.quantity for line in lines],
        "lines": orjson.dumps([line.model_dump() for line in lines]).decode(),
    }


def _lines(kept: list[dict[str, Any]]) -> Lines:
    return tuple(StockLine.model_validate(line) for line in kept)


def _refused(row: Any) -> Refused:
    return Refused("unknown_article" if row.unknown else "out_of_stock", tuple(row.missing))


def _check_all_changed(row: Any) -> None:
    if row.changed != row.asked:  # the statement locked these rows before it looked: this cannot be
        raise Transient(f"{row.changed} of {row.asked} articles were changed, and it must be all of them or none.")
