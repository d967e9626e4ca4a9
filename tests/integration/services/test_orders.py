"""Orders: two clicks, one order; states move forward only; a cancellation always has an answer."""

import asyncio

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from consumers.order import order, order_choreography
from schemas.order import (
    CancelOrder,
    ConfirmOrder,
    CreateOrder,
    OrderCancelled,
    OrderConfirmed,
    OrderPendingPayment,
    OrderRejected,
    PlacementRequested,
)
from schemas.payment import PaymentCaptured, PaymentFailed
from schemas.warehouse import StockRejected, StockReserved
from services.order import orders
from services.order.orders import Created, SessionUsed
from surefoot.consumer.contracts import CommandFailed
from surefoot.events import Money
from surefoot.testing.consumer_kit import ConsumerKit
from tests.support.services.goods import HOME, goods, lines

TOTAL = Money.minor(2000, "EUR")


def create(order_id: str = "o-1", session_id: str = "s-1") -> CreateOrder:
    return CreateOrder(
        order_id=order_id,
        customer_id="c-1",
        checkout_session_id=session_id,
        lines=lines(table=2),
        total=TOTAL,
        ship_to=HOME,
    )


CONFIRM = ConfirmOrder(order_id="o-1", payment_id="p-1")
CANCEL = CancelOrder(order_id="o-1", checkout_session_id="s-1", reason="out_of_stock")
CANCELLED = OrderCancelled(order_id="o-1", checkout_session_id="s-1", mode="orchestrated", reason="out_of_stock")
PENDING = OrderPendingPayment(
    order_id="o-1",
    customer_id="c-1",
    checkout_session_id="s-1",
    mode="orchestrated",
    lines=lines(table=2),
    total=TOTAL,
)


@pytest.fixture
def kit(session: AsyncSession) -> ConsumerKit:
    return ConsumerKit(order, session=session)


async def statuses(session: AsyncSession, connection: asyncpg.Connection) -> list[tuple[str, str]]:
    await session.commit()
    rows = await connection.fetch("SELECT order_id, status FROM orders.orders ORDER BY order_id")
    return [tuple(row) for row in rows]


async def test_an_order_is_written_down_and_confirmed(
    kit: ConsumerKit, session: AsyncSession, connection: asyncpg.Connection
) -> None:
    await kit.command(create(), saga="g-1", step="create_order")
    assert await statuses(session, connection) == [("o-1", "PENDING_PAYMENT")]
    await kit.command(CONFIRM, saga="g-1", step="confirm_order")
    assert kit.published == [PENDING, OrderConfirmed(order_id="o-1", mode="orchestrated")]
    assert await statuses(session, connection) == [("o-1", "PROCESSING")]
    row = await connection.fetchrow("SELECT payment_id, paid_at IS NOT NULL, total_minor, currency FROM orders.orders")
    assert tuple(row) == ("p-1", True, 2000, "EUR")


async def test_a_second_order_of_the_same_session_is_refused_and_shown_the_first(
    kit: ConsumerKit, session: AsyncSession, connection: asyncpg.Connection
) -> None:
    await kit.command(create("o-1"), saga="g-1", step="create_order")
    await kit.command(create("o-2"), saga="g-2", step="create_order")
    assert kit.published[1] == OrderRejected(
        order_id="o-2", checkout_session_id="s-1", reason="session_already_used", instead="o-1"
    )
    assert await statuses(session, connection) == [("o-1", "PENDING_PAYMENT")]


async def test_of_many_clicks_at_once_one_makes_the_order(engine: AsyncEngine, connection: asyncpg.Connection) -> None:
    async def click(number: int) -> Created | SessionUsed:
        async with AsyncSession(engine) as session, session.begin():
            return await orders.create(session, create(f"o-{number}"), "orchestrated")

    answers = await asyncio.gather(*(click(number) for number in range(8)))
    made = [row["order_id"] for row in await connection.fetch("SELECT order_id FROM orders.orders")]
    assert len(made) == 1
    assert answers.count(Created()) == 1
    assert answers.count(SessionUsed(made[0])) == 7


async def test_an_order_id_belongs_to_one_session(kit: ConsumerKit) -> None:
    await kit.command(create("o-1", "s-1"), saga="g-1", step="create_order")
    await kit.command(create("o-1", "s-2"), saga="g-2", step="create_order")
    (dead,) = kit.dead
    assert "belongs to one session" in str(dead.error)


async def test_an_order_is_cancelled_until_it_is_processed(
    kit: ConsumerKit, session: AsyncSession, connection: asyncpg.Connection
) -> None:
    await kit.command(create(), saga="g-1", step="create_order")
    await kit.command(CANCEL, saga="g-1", step="create_order", direction="undo")
    await kit.command(CONFIRM, saga="g-1", step="confirm_order")
    assert kit.published[:2] == [PENDING, CANCELLED]
    assert isinstance(kit.published[2], CommandFailed)
    assert "it is CANCELLED" in kit.published[2].error
    assert await statuses(session, connection) == [("o-1", "CANCELLED")]


async def test_an_order_that_is_processed_is_not_cancelled_any_more(
    kit: ConsumerKit, session: AsyncSession, connection: asyncpg.Connection
) -> None:
    await kit.command(create(), saga="g-1", step="create_order")
    await kit.command(CONFIRM, saga="g-1", step="confirm_order")
    await kit.command(CANCEL, saga="g-1", step="create_order", direction="undo")
    assert isinstance(kit.published[-1], CommandFailed)
    assert await statuses(session, connection) == [("o-1", "PROCESSING")]


async def test_an_order_that_was_never_written_down_is_cancelled_all_the_same_and_leaves_nothing(
    kit: ConsumerKit, session: AsyncSession, connection: asyncpg.Connection
) -> None:
    await kit.command(CANCEL, saga="g-1", step="create_order", direction="undo")
    late = await kit.command(create(), saga="g-1", step="create_order")
    assert kit.published == [CANCELLED]
    assert kit.outcome_of(late) == "BARRED"
    assert await statuses(session, connection) == []


async def test_what_payment_and_warehouse_tell_of_a_sagas_order_moves_nothing_here(
    kit: ConsumerKit, session: AsyncSession, connection: asyncpg.Connection
) -> None:
    await kit.command(create(), saga="g-1", step="create_order")
    bystander = ConsumerKit(order_choreography, session=session)
    captured = PaymentCaptured(order_id="o-1", payment_id="p", gateway="g", gateway_txn_id="t", amount=TOTAL)
    await bystander.deliver(captured)
    await bystander.deliver(PaymentFailed(order_id="o-1", payment_id="p", amount=TOTAL, reason="declined"))
    await bystander.deliver(StockReserved(order_id="o-1", reservation_id="r", lines=goods(table=2)))
    await bystander.deliver(StockRejected(order_id="o-1", reason="out_of_stock"))
    assert bystander.published == []
    assert await statuses(session, connection) == [("o-1", "PENDING_PAYMENT")]


async def test_without_a_saga_a_second_placement_of_a_session_is_refused(session: AsyncSession) -> None:
    kit = ConsumerKit(order_choreography, session=session)
    for order_id in ("o-1", "o-2"):
        wish = {**create(order_id).model_dump(), "mode": "choreographed"}
        await kit.deliver(PlacementRequested.model_validate(wish))
    assert [type(told) for told in kit.published] == [OrderPendingPayment, OrderRejected]
