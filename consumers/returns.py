"""The returns service follows its returns to their end, and learns from the order's events what can come back."""

from collections.abc import Sequence

import orjson
from sqlalchemy import text

from schemas.order import OrderConfirmed, OrderPendingPayment
from schemas.returns import ReturnAborted, ReturnEscalated, ReturnFinished
from services.returns import requests
from surefoot.consumer import Consumer, Transaction
from surefoot.events import Event

returns = Consumer("returns")

_REMEMBER = text("""
INSERT INTO returns.bought (order_id, customer_id, lines)
SELECT id, customer, CAST(lines AS jsonb)
FROM unnest(CAST(:orders AS text[]), CAST(:customers AS text[]), CAST(:lines AS text[])) AS made (id, customer, lines)
ON CONFLICT DO NOTHING
""")
_CONFIRM = text("UPDATE returns.bought SET confirmed = true WHERE order_id = ANY(CAST(:orders AS text[]))")


@returns.on_batch(OrderPendingPayment)
async def remember_orders(events: Sequence[Event[OrderPendingPayment]], tx: Transaction) -> None:
    made = {event.data.order_id: event.data for event in events}
    values = {
        "orders": list(made),
        "customers": [order.customer_id for order in made.values()],
        "lines": [
            orjson.dumps([line.model_dump(mode="json") for line in order.lines]).decode() for order in made.values()
        ],
    }
    await tx.session.execute(_REMEMBER, values)


@returns.on_batch(OrderConfirmed)
async def open_for_returns(events: Sequence[Event[OrderConfirmed]], tx: Transaction) -> None:
    """A choreographed order is confirmed and never shipped: what has not left the house cannot come back to it."""
    shipped = {event.data.order_id for event in events if event.data.mode == "orchestrated"}
    await tx.session.execute(_CONFIRM, {"orders": sorted(shipped)})


@returns.on(ReturnEscalated)
async def is_escalated(event: Event[ReturnEscalated], tx: Transaction) -> None:
    await requests.become(tx.session, event.data.return_id, "ESCALATED", "REQUESTED")


@returns.on(ReturnFinished)
async def is_finished(event: Event[ReturnFinished], tx: Transaction) -> None:
    await requests.become(tx.session, event.data.return_id, "FINISHED", "REQUESTED", "ESCALATED")


@returns.on(ReturnAborted)
async def is_aborted(event: Event[ReturnAborted], tx: Transaction) -> None:
    await requests.become(tx.session, event.data.return_id, "ABORTED", "REQUESTED", "ESCALATED")
