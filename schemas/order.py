"""Orders: from the wish to buy, through payment, to being handed to the warehouse, or cancelled.

`mode` says who drives the order, the orchestrator or the services among themselves. Every event carries it, so that the
two never both act on one order.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.parts import Address, Line, OrderId
from surefoot.events import Catalogue, EventData, Money

orders = Catalogue(source="/orders")
order_events = orders.topic("order.events", partitions=8)

Mode = Annotated[Literal["orchestrated", "choreographed"], Field(description="Who drives the order.")]


@orders.event("order.placement_requested", topic=order_events, key="order_id")
class PlacementRequested(EventData):
    """A buyer finished checkout and wants these goods at this price."""

    order_id: OrderId
    customer_id: str
    checkout_session_id: str = Field(description="The session that holds the stock until it expires.")
    mode: Mode
    lines: tuple[Line, ...] = Field(min_length=1)
    total: Money
    ship_to: Address


@orders.event("order.pending_payment", topic=order_events, key="order_id")
class OrderPendingPayment(EventData):
    """The order exists and waits for its money."""

    order_id: OrderId
    customer_id: str
    checkout_session_id: str
    mode: Mode
    lines: tuple[Line, ...] = Field(min_length=1)
    total: Money


@orders.event("order.paid", topic=order_events, key="order_id")
class OrderPaid(EventData):
    """The order's money has been captured."""

    order_id: OrderId
    checkout_session_id: str
    mode: Mode
    payment_id: str
    total: Money


@orders.event("order.confirmed", topic=order_events, key="order_id")
class OrderConfirmed(EventData):
    """The order is paid, its stock is reserved, and it is being processed: from here on it is finished, not undone."""

    order_id: OrderId
    mode: Mode


CancelReason = Literal["payment_failed", "out_of_stock", "checkout_expired", "customer_request", "operator"]


@orders.event("order.cancelled", topic=order_events, key="order_id")
class OrderCancelled(EventData):
    """The order ended without a delivery. What was reserved or paid for it is given back."""

    order_id: OrderId
    checkout_session_id: str
    mode: Mode
    reason: CancelReason
