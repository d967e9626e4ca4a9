"""Returns: a buyer wants to give goods back; how that ended."""

from typing import Literal

from pydantic import Field

from schemas.parts import Address, OrderId, ReturnId, StockLine
from surefoot.events import Catalogue, EventData, Money

returns = Catalogue(source="/returns")
return_events = returns.topic("return.events", partitions=8)

DamagePolicy = Literal["refund_half", "no_refund"]
RejectPolicy = Literal["ship_back", "keep"]


@returns.event("return.requested", topic=return_events, key="return_id")
class ReturnRequested(EventData):
    """A buyer wants to give these goods back. The policies are those of the shop at the time of the request."""

    return_id: ReturnId
    order_id: OrderId
    customer_id: str
    lines: tuple[StockLine, ...] = Field(min_length=1)
    amount: Money = Field(description="What an approved return gives back.")
    ship_from: Address
    when_damaged: DamagePolicy = "refund_half"
    when_rejected: RejectPolicy = "ship_back"


@returns.event("return.aborted", topic=return_events, key="return_id")
class ReturnAborted(EventData):
    """The return ended before the parcel was on its way: no label, or it was closed."""

    return_id: ReturnId
    order_id: OrderId
    customer_id: str


@returns.event("return.escalated", topic=return_events, key="return_id")
class ReturnEscalated(EventData):
    """The parcel was not picked up in time. Customer service resumes the return, or closes it."""

    return_id: ReturnId
    order_id: OrderId
    customer_id: str
    tracking_code: str


@returns.event("return.finished", topic=return_events, key="return_id")
class ReturnFinished(EventData):
    """Everything that the return asked for has been done."""

    return_id: ReturnId
    order_id: OrderId
