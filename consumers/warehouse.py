"""The warehouse. `warehouse` carries out what sagas and checkout ask of it, and lets go of what is shipped.

`warehouse_choreography` is for orders that no orchestrator drives: a paid order takes what its session holds, a
cancelled one gives it back. It is a consumer of its own, so that what it waits for never holds up a saga's command.
"""

import hashlib
from dataclasses import dataclass

from schemas.order import OrderCancelled, OrderPaid
from schemas.shipping import ShipmentRequested
from schemas.warehouse import (
    HoldStock,
    InspectReturn,
    NothingToRelease,
    Quarantine,
    ReleaseStock,
    ReserveStock,
    Restock,
    ReturnInspected,
    StockHeld,
    StockHoldRejected,
    StockQuarantined,
    StockRejected,
    StockReleased,
    StockReserved,
    StockRestocked,
    Verdict,
)
from services.warehouse import statements, stock
from services.warehouse.stock import Held, Refused, Reserved
from surefoot.consumer import Consumer, Transaction
from surefoot.events import Event

warehouse = Consumer("warehouse")
warehouse_choreography = Consumer("warehouse-choreography")
REMARKS: dict[Verdict, str] = {
    "APPROVED": "As new.",
    "DAMAGED": "The packing is torn and the article scratched.",
    "REJECTED": "This is not the article that was sold.",
}


@warehouse.command(HoldStock)
async def hold_stock(event: Event[HoldStock], tx: Transaction) -> StockHeld | StockHoldRejected:
    """Asked by checkout, outside of any saga: a repeat is known by the session's own hold."""
    wish = event.data
    answer = await stock.hold(tx.session, wish.checkout_session_id, wish.lines, wish.hold_s)
    match answer:
        case Held(session_id, lines, expires_at):
            return StockHeld(checkout_session_id=session_id, lines=lines, expires_at=expires_at)
        case Refused(reason, missing):
            return StockHoldRejected(checkout_session_id=wish.checkout_session_id, reason=reason, missing=missing)


@warehouse.command(ReserveStock)
async def reserve_stock(event: Event[ReserveStock], tx: Transaction) -> StockReserved | StockRejected:
    wish = event.data
    return _told_of(wish.order_id, await stock.reserve(tx.session, wish.order_id, wish.checkout_session_id, wish.lines))


@warehouse.command(ReleaseStock)
async def release_stock(event: Event[ReleaseStock], tx: Transaction) -> StockReleased | NothingToRelease:
    """Where the do was not carried out (`tx.done` is false) it is barred from now on, and nothing was set aside. The
    reservations are asked all the same: they know better than a barrier that has been forgotten with the inbox."""
    gone = await stock.release(tx.session, event.data.order_id)
    if gone is None:
        return NothingToRelease(order_id=event.data.order_id)
    return StockReleased(
        order_id=event.data.order_id, reservation_id=gone.name, lines=gone.lines, reason=event.data.reason
    )


@warehouse.on(ShipmentRequested)
async def hand_to_carrier(event: Event[ShipmentRequested], tx: Transaction) -> None:
    await stock.ship(tx.session, event.data.order_id)


@warehouse.command(InspectReturn)
async def inspect_return(event: Event[InspectReturn], tx: Transaction) -> ReturnInspected:
    wish = event.data
    found = verdict_of(wish.return_id, SHARES)
    values = {"return_id": wish.return_id, "verdict": found, "remark": REMARKS[found]}
    row = (await tx.session.execute(statements.INSPECT, values)).one()
    return ReturnInspected(order_id=wish.order_id, return_id=wish.return_id, verdict=row.verdict, remark=row.remark)


@warehouse.command(Restock)
async def restock(event: Event[Restock], tx: Transaction) -> StockRestocked:
    wish = event.data
    await stock.put_away(tx.session, wish.return_id, "SHELF", wish.lines)
    return StockRestocked(order_id=wish.order_id, return_id=wish.return_id, lines=wish.lines)


@warehouse.command(Quarantine)
async def quarantine(event: Event[Quarantine], tx: Transaction) -> StockQuarantined:
    wish = event.data
    await stock.put_away(tx.session, wish.return_id, "QUARANTINE", wish.lines)
    return StockQuarantined(order_id=wish.order_id, return_id=wish.return_id, lines=wish.lines)


@warehouse_choreography.on(OrderPaid)
async def confirm_hold(event: Event[OrderPaid], tx: Transaction) -> None:
    order = event.data
    if order.mode != "choreographed":
        return
    lines = await stock.lines_held_for(tx.session, order.checkout_session_id)
    if lines is None:  # nobody but the hold knows what is in the order
        tx.publish(StockRejected(order_id=order.order_id, reason="hold_expired"))
        return
    answer = await stock.reserve(tx.session, order.order_id, order.checkout_session_id, lines)
    tx.publish(_told_of(order.order_id, answer))


@warehouse_choreography.on(OrderCancelled)
async def give_back(event: Event[OrderCancelled], tx: Transaction) -> None:
    order = event.data
    if order.mode != "choreographed":
        return
    gone = await stock.release_hold(tx.session, order.checkout_session_id, order.order_id)
    if gone is None:
        gone = await stock.release(tx.session, order.order_id)
    if gone is None:
        tx.publish(NothingToRelease(order_id=order.order_id))
        return
    tx.publish(
        StockReleased(order_id=order.order_id, reservation_id=gone.name, lines=gone.lines, reason="order_cancelled")
    )


def _told_of(order_id: str, answer: Reserved | Refused) -> StockReserved | StockRejected:
    match answer:
        case Reserved(_, reservation_id, lines):
            return StockReserved(order_id=order_id, reservation_id=reservation_id, lines=lines)
        case Refused(reason, missing):
            return StockRejected(order_id=order_id, reason=reason, missing=missing)


@dataclass(frozen=True, slots=True)
class Shares:
    """How many of a hundred returns are found damaged, and how many are not accepted. The rest is approved."""

    damaged: int
    rejected: int


SHARES = Shares(damaged=20, rejected=10)


def verdict_of(return_id: str, shares: Shares) -> Verdict:
    """By the hash of its id, so that a demo sees all three, and a repeat finds what the first look found."""
    drawn = int.from_bytes(hashlib.sha256(return_id.encode()).digest()[:4]) % 100
    if drawn < shares.damaged:
        return "DAMAGED"
    if drawn < shares.damaged + shares.rejected:
        return "REJECTED"
    return "APPROVED"
