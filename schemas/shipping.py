"""Shipping: parcels to the buyer, and labels and pickups for what comes back."""

from typing import Literal

from pydantic import AwareDatetime, Field

from schemas.parts import Address, OrderId, ReturnId, StockLine
from surefoot.events import Catalogue, EventData

shipping = Catalogue(source="/shipping")
shipping_events = shipping.topic("shipping.events", partitions=8)
shipping_commands = shipping.topic("shipping.commands", partitions=8)

LabelRefusal = Literal["address_not_served", "too_heavy", "return_window_closed"]


@shipping.event("shipment.requested", topic=shipping_events, key="order_id")
class ShipmentRequested(EventData):
    """A carrier has been asked to take the parcel to the buyer."""

    order_id: OrderId
    shipment_id: str
    carrier: str
    lines: tuple[StockLine, ...] = Field(min_length=1)
    ship_to: Address


@shipping.event("return.label_created", topic=shipping_events, key="order_id")
class ReturnLabelCreated(EventData):
    """The buyer has a label for the parcel that comes back."""

    order_id: OrderId
    return_id: str
    carrier: str
    tracking_code: str


@shipping.event("carrier.pickup_confirmed", topic=shipping_events, key="order_id")
class PickupConfirmed(EventData):
    """The carrier has the returned parcel in hand."""

    order_id: OrderId
    return_id: str
    carrier: str
    tracking_code: str
    picked_up_at: AwareDatetime


@shipping.event("return.label_refused", topic=shipping_events, key="order_id")
class ReturnLabelRefused(EventData):
    """No carrier takes this parcel back."""

    order_id: OrderId
    return_id: ReturnId
    reason: LabelRefusal


@shipping.event("return.label_cancelled", topic=shipping_events, key="order_id")
class ReturnLabelCancelled(EventData):
    """The label, if there was one, is worth nothing any more."""

    order_id: OrderId
    return_id: ReturnId


@shipping.event("return.shipped_back", topic=shipping_events, key="order_id")
class ReturnShippedBack(EventData):
    """What came back and was not accepted is on its way to the buyer again."""

    order_id: OrderId
    return_id: ReturnId
    shipment_id: str


@shipping.event("shipping.request_shipment", topic=shipping_commands, key="order_id")
class RequestShipment(EventData):
    """Ask a carrier to take the parcel to the buyer. Answered by shipment.requested."""

    order_id: OrderId
    lines: tuple[StockLine, ...] = Field(min_length=1)
    ship_to: Address


@shipping.event("shipping.create_return_label", topic=shipping_commands, key="order_id")
class CreateReturnLabel(EventData):
    """Make a label for a parcel that comes back. Answered by return.label_created or return.label_refused."""

    order_id: OrderId
    return_id: ReturnId
    ship_from: Address


@shipping.event("shipping.cancel_return_label", topic=shipping_commands, key="order_id")
class CancelReturnLabel(EventData):
    """The parcel will not come. Answered by return.label_cancelled."""

    order_id: OrderId
    return_id: ReturnId


@shipping.event("shipping.ship_back", topic=shipping_commands, key="order_id")
class ShipBack(EventData):
    """Send what was not accepted to the buyer again. Answered by return.shipped_back."""

    order_id: OrderId
    return_id: ReturnId
    lines: tuple[StockLine, ...] = Field(min_length=1)
    ship_to: Address
