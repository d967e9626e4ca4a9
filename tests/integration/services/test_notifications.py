"""Notification: what a saga asks to be told, what no saga tells, each once."""

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.notification import notification
from schemas.notification import NotificationSent, SendNotification
from schemas.order import Mode, OrderCancelled, OrderConfirmed, PlacementRequested
from schemas.returns import ReturnAborted
from surefoot.events import Money
from surefoot.testing.consumer_kit import ConsumerKit
from tests.support.services.goods import HOME, lines

pytestmark = pytest.mark.slow  # many of them, each with a database of its own


@pytest.fixture
def kit(session: AsyncSession) -> ConsumerKit:
    return ConsumerKit(notification, session=session)


def placement(mode: Mode) -> PlacementRequested:
    return PlacementRequested(
        order_id="o-1",
        customer_id="c-1",
        checkout_session_id="s-1",
        mode=mode,
        lines=lines(table=1),
        total=Money.minor(1000, "EUR"),
        ship_to=HOME,
    )


async def messages(session: AsyncSession, connection: asyncpg.Connection) -> list[tuple[str, str, str]]:
    await session.commit()
    return [
        tuple(row) for row in await connection.fetch("SELECT customer_id, message, about FROM notification.messages")
    ]


async def test_the_same_message_about_the_same_thing_is_sent_once(
    kit: ConsumerKit, session: AsyncSession, connection: asyncpg.Connection
) -> None:
    wish = SendNotification(customer_id="c-1", message="order_confirmed", about="o-1")
    for saga in ("g-1", "g-2"):
        await kit.command(wish, saga=saga, step="notify_buyer")
    first, second = kit.published
    assert isinstance(first, NotificationSent)
    assert first == second
    assert await messages(session, connection) == [("c-1", "order_confirmed", "o-1")]


@pytest.mark.parametrize("mode", ["orchestrated", "choreographed"])
async def test_a_buyer_is_told_that_his_order_is_cancelled_whoever_drove_it(
    mode: Mode, kit: ConsumerKit, session: AsyncSession, connection: asyncpg.Connection
) -> None:
    cancelled = OrderCancelled(order_id="o-1", checkout_session_id="s-1", mode=mode, reason="payment_failed")
    await kit.deliver(placement(mode), cancelled)
    assert await messages(session, connection) == [("c-1", "order_cancelled", "o-1")]
    assert [type(told) for told in kit.published] == [NotificationSent]


async def test_a_confirmation_is_told_here_only_if_no_saga_tells_it(
    kit: ConsumerKit, session: AsyncSession, connection: asyncpg.Connection
) -> None:
    await kit.deliver(placement("choreographed"), OrderConfirmed(order_id="o-1", mode="orchestrated"))
    assert await messages(session, connection) == []
    await kit.deliver(OrderConfirmed(order_id="o-1", mode="choreographed"))
    assert await messages(session, connection) == [("c-1", "order_confirmed", "o-1")]


async def test_a_buyer_is_told_that_his_return_is_aborted(
    kit: ConsumerKit, session: AsyncSession, connection: asyncpg.Connection
) -> None:
    await kit.deliver(ReturnAborted(return_id="r-1", order_id="o-1", customer_id="c-1"))
    assert await messages(session, connection) == [("c-1", "return_aborted", "r-1")]
