"""The order flow by events alone: each service reacts to the others, on the Postgres log, with a stand-in for payment.

The real payment service has tests of its own; here a consumer says what it would say.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from consumers.checkout import checkout
from consumers.flow import flow
from consumers.notification import notification
from consumers.order import order_choreography
from consumers.warehouse import warehouse, warehouse_choreography
from schemas.order import OrderCancelled, OrderPendingPayment
from schemas.payment import PaymentCaptured, PaymentFailed, PaymentRefunded
from services.checkout import sessions
from services.checkout.sessions import Placed
from services.checks.stock import check
from services.warehouse import stock
from services.warehouse.expiry import expire_holds
from surefoot.consumer import Consumer, Transaction
from surefoot.events import Event, Money
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.processes import consumer_running
from tests.support.relay.processes import relay_running
from tests.support.services.goods import HOME, goods, lines, on_the_shelf, received
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

OF_SHOP = (checkout, warehouse, order_choreography, warehouse_choreography, notification, flow)
BROKE = "buyer-without-money"
SLOW = "buyer-whose-bank-is-slow"


def payment_stand_in(engine: AsyncEngine) -> Consumer:
    """Takes the money of all but one buyer; of another only when the hold is over and somebody else has the goods."""
    payment = Consumer("payment-stand-in")

    @payment.on(OrderPendingPayment)
    async def charge(event: Event[OrderPendingPayment], tx: Transaction) -> None:
        order = event.data
        payment_id = f"payment-{order.order_id}"
        if order.customer_id == BROKE:
            failed = PaymentFailed(
                order_id=order.order_id, payment_id=payment_id, amount=order.total, reason="declined"
            )
            tx.publish(failed)
            return
        if order.customer_id == SLOW:
            await sold_to_somebody_else(engine, order.checkout_session_id)
        captured = PaymentCaptured(
            order_id=order.order_id, payment_id=payment_id, gateway="test", gateway_txn_id="t", amount=order.total
        )
        tx.publish(captured)

    @payment.on(OrderCancelled)
    async def refund(event: Event[OrderCancelled], tx: Transaction) -> None:
        if event.data.reason != "payment_failed":
            refunded = PaymentRefunded(
                order_id=event.data.order_id,
                payment_id=f"payment-{event.data.order_id}",
                refund_id="refund-1",
                amount=Money.minor(2000, "EUR"),
                reason="order_cancelled",
            )
            tx.publish(refunded)

    return payment


async def sold_to_somebody_else(engine: AsyncEngine, session_id: str) -> None:
    async with AsyncSession(engine) as session, session.begin():
        over = text("UPDATE warehouse.holds SET expires_at = now() WHERE checkout_session_id = :session_id")
        await session.execute(over, {"session_id": session_id})
    await expire_holds(engine)
    async with AsyncSession(engine) as session, session.begin():
        await stock.reserve(session, "somebody-elses", "", goods(table=5))


@pytest.fixture
async def shop(shop_url: str, engine: AsyncEngine, log: PostgresLog) -> AsyncIterator[AsyncEngine]:
    """Relay and consumers running, five tables on the shelf."""
    await received(engine, table=5)
    async with AsyncExitStack() as running:
        await running.enter_async_context(relay_running(shop_url, log))
        for consumer in (*OF_SHOP, payment_stand_in(engine)):
            await running.enter_async_context(consumer_running(consumer, shop_url, log, concurrency=1))
        yield engine


async def placed(engine: AsyncEngine, connection: asyncpg.Connection, customer_id: str) -> str:
    """Open a session for two tables, wait until they are held, and click twice; the order."""
    async with AsyncSession(engine) as session, session.begin():
        opened = await sessions.open_session(
            session,
            customer_id=customer_id,
            lines=lines(table=2),
            ship_to=HOME,
            mode="choreographed",
            hold=timedelta(minutes=5),
        )

    async def is_held() -> bool:
        state = await connection.fetchval(
            "SELECT state FROM checkout.sessions WHERE session_id = $1", opened.session_id
        )
        return bool(state == "HELD")

    await eventually(is_held, what="the goods are held")
    for _ in range(2):
        async with AsyncSession(engine) as session, session.begin():
            assert await sessions.place(session, opened.session_id) == Placed(opened.order_id)
    return opened.order_id


async def ended(connection: asyncpg.Connection, order_id: str, state: str) -> asyncpg.Record:
    """The flow's progress, when it has got there."""

    async def is_there() -> asyncpg.Record | None:
        row = await connection.fetchrow("SELECT * FROM flow.progress WHERE order_id = $1", order_id)
        return row if row is not None and row["state"] == state else None

    found = await eventually(is_there, what=f"the flow is {state}")
    assert found is not None
    return found


async def types_of(connection: asyncpg.Connection, correlation_id: str, count: int) -> list[str]:
    """The types of a flow's events, in order of time, when there are so many. They come by several topics: the last one
    may be seen first."""

    async def all_seen() -> list[str] | None:
        rows = await connection.fetch(
            "SELECT type FROM flow.events WHERE correlation_id = $1 ORDER BY at, position", correlation_id
        )
        return [row["type"] for row in rows] if len(rows) >= count else None

    found = await eventually(all_seen, what=f"{count} events of the flow are seen")
    assert found is not None
    return found


async def told(connection: asyncpg.Connection, order_id: str) -> list[tuple[str, str]]:
    async def sent() -> list[asyncpg.Record]:
        found: list[asyncpg.Record] = await connection.fetch(
            "SELECT customer_id, message FROM notification.messages WHERE about = $1", order_id
        )
        return found

    return [tuple(row) for row in await eventually(sent, what="the buyer is told")]


async def test_a_paid_order_is_confirmed_and_its_flow_is_seen_from_end_to_end(
    shop: AsyncEngine, shop_url: str, connection: asyncpg.Connection
) -> None:
    order_id = await placed(shop, connection, "buyer-1")
    flow_of_it = await ended(connection, order_id, "CONFIRMED")
    assert await types_of(connection, flow_of_it["correlation_id"], 7) == [
        "stock.held",
        "order.placement_requested",
        "order.pending_payment",
        "payment.captured",
        "order.paid",
        "stock.reserved",
        "order.confirmed",
    ]
    flow_of_it = await ended(connection, order_id, "CONFIRMED")
    assert (flow_of_it["mode"], flow_of_it["last_type"]) == ("choreographed", "order.confirmed")
    assert flow_of_it["started"] < flow_of_it["updated"]
    row = await connection.fetchrow("SELECT status, payment_id FROM orders.orders")
    assert tuple(row) == ("PROCESSING", f"payment-{order_id}")
    assert await on_the_shelf(connection, "table") == (5, 0, 2, 0)
    assert await told(connection, order_id) == [("buyer-1", "order_confirmed")]
    assert await check(shop_url) == []


async def test_an_order_that_is_not_paid_is_cancelled_and_its_goods_are_free(
    shop: AsyncEngine, shop_url: str, connection: asyncpg.Connection
) -> None:
    order_id = await placed(shop, connection, BROKE)
    flow_of_it = await ended(connection, order_id, "CANCELLED")
    assert await types_of(connection, flow_of_it["correlation_id"], 6) == [
        "stock.held",
        "order.placement_requested",
        "order.pending_payment",
        "payment.failed",
        "order.cancelled",
        "stock.released",
    ]
    row = await connection.fetchrow("SELECT status, cancel_reason FROM orders.orders")
    assert tuple(row) == ("CANCELLED", "payment_failed")
    assert await on_the_shelf(connection, "table") == (5, 0, 0, 0)
    assert await told(connection, order_id) == [(BROKE, "order_cancelled")]
    assert await check(shop_url) == []


async def test_an_order_that_is_paid_when_the_goods_are_gone_is_cancelled_and_the_money_given_back(
    shop: AsyncEngine, shop_url: str, connection: asyncpg.Connection
) -> None:
    order_id = await placed(shop, connection, SLOW)
    flow_of_it = await ended(connection, order_id, "CANCELLED")
    seen = await types_of(connection, flow_of_it["correlation_id"], 10)
    assert seen[-4:-2] == ["stock.rejected", "order.cancelled"]
    assert set(seen[-2:]) == {"stock.nothing_to_release", "payment.refunded"}  # neither waits for the other
    row = await connection.fetchrow("SELECT status, cancel_reason FROM orders.orders")
    assert tuple(row) == ("CANCELLED", "checkout_expired")
    assert await told(connection, order_id) == [(SLOW, "order_cancelled")]
    assert await check(shop_url) == []
