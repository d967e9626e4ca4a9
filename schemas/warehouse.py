"""The warehouse: stock set aside for an order, refused, or put back."""

from typing import Literal

from pydantic import AwareDatetime, Field

from schemas.parts import OrderId, ReturnId, Sku, StockLine
from surefoot.events import Catalogue, EventData

warehouse = Catalogue(source="/warehouse")
warehouse_events = warehouse.topic("warehouse.events", partitions=8)
warehouse_commands = warehouse.topic("warehouse.commands", partitions=8)

RejectReason = Literal["out_of_stock", "unknown_article", "hold_expired"]
ReleaseReason = Literal["order_cancelled", "hold_expired", "compensation"]


@warehouse.event("stock.reserved", topic=warehouse_events, key="order_id")
class StockReserved(EventData):
    """All lines of the order are set aside for it."""

    order_id: OrderId
    reservation_id: str
    lines: tuple[StockLine, ...] = Field(min_length=1)


@warehouse.event("stock.rejected", topic=warehouse_events, key="order_id")
class StockRejected(EventData):
    """At least one line cannot be had, so nothing was set aside."""

    order_id: OrderId
    reason: RejectReason
    missing: tuple[Sku, ...] = ()


@warehouse.event("stock.released", topic=warehouse_events, key="order_id")
class StockReleased(EventData):
    """What was set aside for the order can be sold again."""

    order_id: OrderId
    reservation_id: str
    lines: tuple[StockLine, ...] = Field(min_length=1)
    reason: ReleaseReason


Verdict = Literal["APPROVED", "DAMAGED", "REJECTED"]


@warehouse.event("stock.held", topic=warehouse_events, key="checkout_session_id")
class StockHeld(EventData):
    """The goods are kept for a checkout session until `expires_at`, unless an order takes them before."""

    checkout_session_id: str
    lines: tuple[StockLine, ...] = Field(min_length=1)
    expires_at: AwareDatetime


@warehouse.event("stock.hold_rejected", topic=warehouse_events, key="checkout_session_id")
class StockHoldRejected(EventData):
    """At least one line cannot be had, so nothing is kept for the session."""

    checkout_session_id: str
    reason: RejectReason
    missing: tuple[Sku, ...] = ()


@warehouse.event("stock.hold_expired", topic=warehouse_events, key="checkout_session_id")
class StockHoldExpired(EventData):
    """The session took too long; its goods can be sold again."""

    checkout_session_id: str
    lines: tuple[StockLine, ...] = Field(min_length=1)


@warehouse.event("stock.nothing_to_release", topic=warehouse_events, key="order_id")
class NothingToRelease(EventData):
    """Nothing was set aside for the order, and nothing will be."""

    order_id: OrderId


@warehouse.event("return.inspected", topic=warehouse_events, key="order_id")
class ReturnInspected(EventData):
    """What came back has been looked at."""

    order_id: OrderId
    return_id: ReturnId
    verdict: Verdict
    remark: str = ""


@warehouse.event("stock.restocked", topic=warehouse_events, key="order_id")
class StockRestocked(EventData):
    """What came back is on the shelf and can be sold."""

    order_id: OrderId
    return_id: ReturnId
    lines: tuple[StockLine, ...] = Field(min_length=1)


@warehouse.event("stock.quarantined", topic=warehouse_events, key="order_id")
class StockQuarantined(EventData):
    """What came back is put away where nobody sells it."""

    order_id: OrderId
    return_id: ReturnId
    lines: tuple[StockLine, ...] = Field(min_length=1)


@warehouse.event("warehouse.hold_stock", topic=warehouse_commands, key="checkout_session_id")
class HoldStock(EventData):
    """Keep goods for a checkout session for a while. Answered by stock.held or stock.hold_rejected."""

    checkout_session_id: str
    lines: tuple[StockLine, ...] = Field(min_length=1)
    hold_s: int = Field(ge=1, le=86_400)


@warehouse.event("warehouse.reserve_stock", topic=warehouse_commands, key="order_id")
class ReserveStock(EventData):
    """Set all lines aside for the order, from the session's hold if it still stands. Answered by stock.reserved or
    stock.rejected."""

    order_id: OrderId
    checkout_session_id: str
    lines: tuple[StockLine, ...] = Field(min_length=1)


@warehouse.event("warehouse.release_stock", topic=warehouse_commands, key="order_id")
class ReleaseStock(EventData):
    """Put back what was set aside. Answered by stock.released or stock.nothing_to_release."""

    order_id: OrderId
    reason: ReleaseReason


@warehouse.event("warehouse.inspect_return", topic=warehouse_commands, key="order_id")
class InspectReturn(EventData):
    """Look at what came back. Answered by return.inspected."""

    order_id: OrderId
    return_id: ReturnId
    lines: tuple[StockLine, ...] = Field(min_length=1)


@warehouse.event("warehouse.restock", topic=warehouse_commands, key="order_id")
class Restock(EventData):
    """Put what came back on the shelf. Answered by stock.restocked."""

    order_id: OrderId
    return_id: ReturnId
    lines: tuple[StockLine, ...] = Field(min_length=1)


@warehouse.event("warehouse.quarantine", topic=warehouse_commands, key="order_id")
class Quarantine(EventData):
    """Put what came back where nobody sells it. Answered by stock.quarantined."""

    order_id: OrderId
    return_id: ReturnId
    lines: tuple[StockLine, ...] = Field(min_length=1)
