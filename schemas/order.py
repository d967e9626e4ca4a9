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
order_commands = orders.topic("order.commands", partitions=8)

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


OrderRefusal = Literal["session_already_used"]


@orders.event("order.rejected", topic=order_events, key="order_id")
class OrderRejected(EventData):
    """There is no such order: its checkout session has led to another one before."""

    order_id: OrderId
    checkout_session_id: str
    reason: OrderRefusal
    instead: OrderId = Field(description="The order that the session has led to.")


CancelReason = Literal["payment_failed", "out_of_stock", "checkout_expired", "customer_request", "operator"]


@orders.event("order.cancelled", topic=order_events, key="order_id")
class OrderCancelled(EventData):
    """The order ended without a delivery. What was reserved or paid for it is given back."""

    order_id: OrderId
    checkout_session_id: str
    mode: Mode
    reason: CancelReason


@orders.event("order.create", topic=order_commands, key="order_id")
class CreateOrder(EventData):
    """Write the order down; it waits for its money then. Answered by order.pending_payment or order.rejected."""

    order_id: OrderId
    customer_id: str
    checkout_session_id: str
    lines: tuple[Line, ...] = Field(min_length=1)
    total: Money
    ship_to: Address


@orders.event("order.confirm", topic=order_commands, key="order_id")
class ConfirmOrder(EventData):
    """The order is paid and its goods are set aside: process it. Answered by order.confirmed."""

    order_id: OrderId
    payment_id: str


@orders.event("order.cancel", topic=order_commands, key="order_id")
class CancelOrder(EventData):
    """The order is not to be delivered. Answered by order.cancelled."""

    order_id: OrderId
    checkout_session_id: str
    reason: CancelReason
