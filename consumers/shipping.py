"""Shipping: asks carriers to take parcels, and makes labels for those that come back."""

from typing import Any

import orjson
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from schemas.parts import Address, StockLine
from schemas.shipping import (
    CancelReturnLabel,
    CreateReturnLabel,
    PickupConfirmed,
    RequestShipment,
    ReturnLabelCancelled,
    ReturnLabelCreated,
    ReturnLabelRefused,
    ReturnShippedBack,
    ShipBack,
    ShipmentRequested,
)
from services.shipping import carrier_to, refusal_of
from surefoot import outbox
from surefoot.consumer import Consumer, Permanent, Transaction
from surefoot.errors import SurefootError
from surefoot.events import Event

shipping = Consumer("shipping")

_SHIP = text("""
INSERT INTO shipping.shipments (order_id, shipment_id, carrier, lines, ship_to)
VALUES (:order_id, :shipment_id, :carrier, CAST(:lines AS jsonb), CAST(:ship_to AS jsonb)) ON CONFLICT DO NOTHING
""")
_SHIP_BACK = text("""
INSERT INTO shipping.parcels_back (return_id, order_id, shipment_id, lines, ship_to)
VALUES (:return_id, :order_id, :shipment_id, CAST(:lines AS jsonb), CAST(:ship_to AS jsonb)) ON CONFLICT DO NOTHING
""")
_MAKE_LABEL = text("""
INSERT INTO shipping.labels AS label (return_id, order_id, carrier, tracking_code, correlation_id)
VALUES (:return_id, :order_id, :carrier, :tracking_code, :correlation_id)
ON CONFLICT (return_id) DO UPDATE SET state = label.state RETURNING state, order_id
""")
_CANCEL_LABEL = text(
    "UPDATE shipping.labels SET state = 'CANCELLED' WHERE return_id = :return_id AND state = 'CREATED'"
)
_PICK_UP = text("""
UPDATE shipping.labels SET state = 'PICKED_UP', picked_up_at = clock_timestamp()
WHERE return_id = :return_id AND state = 'CREATED'
RETURNING order_id, carrier, tracking_code, correlation_id, picked_up_at
""")
_STATE = text("SELECT state FROM shipping.labels WHERE return_id = :return_id")


class NoParcel(SurefootError):
    """There is no label for this parcel, so no carrier can have it."""


@shipping.command(RequestShipment)
async def request_shipment(event: Event[RequestShipment], tx: Transaction) -> ShipmentRequested:
    wish = event.data
    shipment_id, carrier = f"shipment-{wish.order_id}", carrier_to(wish.ship_to)
    values = {"order_id": wish.order_id, "shipment_id": shipment_id, "carrier": carrier}
    await tx.session.execute(_SHIP, {**values, **_parcel(wish.lines, wish.ship_to)})
    return ShipmentRequested(
        order_id=wish.order_id, shipment_id=shipment_id, carrier=carrier, lines=wish.lines, ship_to=wish.ship_to
    )


@shipping.command(CreateReturnLabel)
async def create_label(event: Event[CreateReturnLabel], tx: Transaction) -> ReturnLabelCreated | ReturnLabelRefused:
    wish = event.data
    refusal = refusal_of(wish.ship_from)
    if refusal is not None:
        return ReturnLabelRefused(order_id=wish.order_id, return_id=wish.return_id, reason=refusal)
    carrier, tracking_code = carrier_to(wish.ship_from), f"track-{wish.return_id}"
    values = {
        "return_id": wish.return_id,
        "order_id": wish.order_id,
        "carrier": carrier,
        "tracking_code": tracking_code,
        "correlation_id": event.correlation_id or event.id,
    }
    label = (await tx.session.execute(_MAKE_LABEL, values)).one()
    if label.state == "CANCELLED" or label.order_id != wish.order_id:
        raise Permanent(f"The label of {wish.return_id} was cancelled, or is for another order: it is not made again.")
    return ReturnLabelCreated(
        order_id=wish.order_id, return_id=wish.return_id, carrier=carrier, tracking_code=tracking_code
    )


@shipping.command(CancelReturnLabel)
async def cancel_label(event: Event[CancelReturnLabel], tx: Transaction) -> ReturnLabelCancelled:
    """A parcel that is on its way cannot be called back. Were its label cancelled all the same, nobody would wait for
    it any more; so the undo dies here, and its saga is stuck in front of a person."""
    return_id = event.data.return_id
    await tx.session.execute(_CANCEL_LABEL, {"return_id": return_id})
    if await tx.session.scalar(_STATE, {"return_id": return_id}) == "PICKED_UP":
        raise Permanent(
            f"The parcel of {return_id} has been picked up and is on its way to us, so its label cannot be cancelled. "
            "See to the parcel when it comes, then skip this undo."
        )
    return ReturnLabelCancelled(order_id=event.data.order_id, return_id=return_id)


@shipping.command(ShipBack)
async def ship_back(event: Event[ShipBack], tx: Transaction) -> ReturnShippedBack:
    wish = event.data
    shipment_id = f"shipment-back-{wish.return_id}"
    values = {"return_id": wish.return_id, "order_id": wish.order_id, "shipment_id": shipment_id}
    await tx.session.execute(_SHIP_BACK, {**values, **_parcel(wish.lines, wish.ship_to)})
    return ReturnShippedBack(order_id=wish.order_id, return_id=wish.return_id, shipment_id=shipment_id)


async def confirm_pickup(session: AsyncSession, return_id: str) -> bool:
    """The carrier has the parcel: tell it, in the transaction of `session`. False if it was told before."""
    row = (await session.execute(_PICK_UP, {"return_id": return_id})).one_or_none()
    if row is None:
        state = await session.scalar(_STATE, {"return_id": return_id})
        if state == "PICKED_UP":
            return False
        words = "has no label" if state is None else "has a label that was cancelled"
        raise NoParcel(f"The return {return_id} {words}, so no carrier can have its parcel.")
    told = PickupConfirmed(
        order_id=row.order_id,
        return_id=return_id,
        carrier=row.carrier,
        tracking_code=row.tracking_code,
        picked_up_at=row.picked_up_at,
    )
    outbox.add(session, told, correlation_id=row.correlation_id)
    return True


def _parcel(lines: tuple[StockLine, ...], address: Address) -> dict[str, Any]:
    return {
        "lines": orjson.dumps([line.model_dump() for line in lines]).decode(),
        "ship_to": orjson.dumps(address.model_dump()).decode(),
    }
