"""Shipping: parcels to the buyer, and labels and pickups for what comes back."""

from pydantic import AwareDatetime, Field

from schemas.parts import Address, OrderId, StockLine
from surefoot.events import Catalogue, EventData

shipping = Catalogue(source="/shipping")
shipping_events = shipping.topic("shipping.events", partitions=8)


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
