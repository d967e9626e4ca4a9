"""A small catalogue whose types, topics and schemas the tests of `surefoot.events` name one by one: add none to it."""

from decimal import Decimal
from typing import Any
from uuid import UUID

from pydantic import Field

from surefoot.events import Catalogue, EventData, Money

orders = Catalogue(source="/orders")
order_events = orders.topic("order.events", partitions=8)


@orders.event("order.placed", topic=order_events, key="order_id")
class OrderPlaced(EventData):
    order_id: str
    total: Money
    note: str | None = None
    tags: list[str] = Field(default_factory=list)


@orders.event("order.placed", version=2, topic=order_events, key="order_id")
class OrderPlacedV2(EventData):
    order_id: UUID
    lines: int


@orders.event("order.noted", topic=order_events, key=None)
class OrderNoted(EventData):
    anything: Any = None
    weight: float | None = None
    rate: Decimal | None = None


def placed(order_id: str = "o-1", minor_units: int = 1999, **more: Any) -> OrderPlaced:
    return OrderPlaced(order_id=order_id, total=Money.minor(minor_units, "EUR"), **more)


def unchecked(cls: type[EventData], **values: Any) -> EventData:
    """Data that went around validation."""
    return cls.model_construct(**values)
