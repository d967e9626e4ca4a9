"""The warehouse: stock set aside for an order, refused, or put back."""

from typing import Literal

from pydantic import Field

from schemas.parts import OrderId, Sku, StockLine
from surefoot.events import Catalogue, EventData

warehouse = Catalogue(source="/warehouse")
warehouse_events = warehouse.topic("warehouse.events", partitions=8)

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
