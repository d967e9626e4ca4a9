"""Flow: writes down every event of an order's flow under its correlation, for all to see where it stands.

It only listens. An event without a correlation begins a flow of its own.
"""

from collections.abc import Sequence

from sqlalchemy import text

from schemas.order import (
    OrderCancelled,
    OrderConfirmed,
    OrderPaid,
    OrderPendingPayment,
    OrderRejected,
    PlacementRequested,
)
from schemas.payment import PaymentCaptured, PaymentFailed, PaymentRefunded, PaymentVoided
from schemas.shipping import ShipmentRequested
from schemas.warehouse import (
    NothingToRelease,
    StockHeld,
    StockHoldExpired,
    StockHoldRejected,
    StockRejected,
    StockReleased,
    StockReserved,
)
from surefoot.consumer import Consumer, Transaction
from surefoot.events import Event, EventData

flow = Consumer("flow")

FOLLOWED: tuple[type[EventData], ...] = (
    PlacementRequested,
    OrderPendingPayment,
    OrderPaid,
    OrderConfirmed,
    OrderRejected,
    OrderCancelled,
    PaymentCaptured,
    PaymentFailed,
    PaymentRefunded,
    PaymentVoided,
    StockHeld,
    StockHoldRejected,
    StockHoldExpired,
    StockReserved,
    StockRejected,
    StockReleased,
    NothingToRelease,
    ShipmentRequested,
)
COLUMNS = ("correlation_id", "event_id", "causation_id", "type", "key", "at", "order_id", "mode")
_WRITE = text(f"""
INSERT INTO flow.events ({", ".join(COLUMNS)})
SELECT * FROM unnest({", ".join(f"CAST(:{name} AS {'timestamptz' if name == 'at' else 'text'}[])" for name in COLUMNS)})
""")


async def write_down(events: Sequence[Event[EventData]], tx: Transaction) -> None:
    rows = [_row(event) for event in events]
    await tx.session.execute(
        _WRITE, {name: list(values) for name, values in zip(COLUMNS, zip(*rows, strict=True), strict=True)}
    )


for _followed in FOLLOWED:
    flow.on_batch(_followed)(write_down)


def _row(event: Event[EventData]) -> tuple[object, ...]:
    return (
        event.correlation_id or event.id,
        event.id,
        event.causation_id,
        event.type,
        event.key,
        event.time,
        getattr(event.data, "order_id", None),
        getattr(event.data, "mode", None),
    )
