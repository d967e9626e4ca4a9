"""Payments without an orchestrator: an order that waits is charged, one that is cancelled gets its money back."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from schemas.order import CancelReason, Mode, OrderCancelled, OrderPendingPayment
from schemas.parts import Line
from surefoot.events import Event, new_event
from tests.support.services.payment_harness import EUR_20, PaymentGround, payment_ground

pytestmark = pytest.mark.slow
CONSUMER = "payment-choreography"


@pytest.fixture
async def ground(database_url: str, tmp_path: Path) -> AsyncIterator[PaymentGround]:
    async with payment_ground(database_url, tmp_path) as ground:
        yield ground


def pending(order_id: str = "o-1", mode: Mode = "choreographed") -> Event[Any]:
    return new_event(
        OrderPendingPayment(
            order_id=order_id,
            customer_id="c-1",
            checkout_session_id=f"session-{order_id}",
            mode=mode,
            lines=(Line(sku="table", quantity=1, unit_price=EUR_20),),
            total=EUR_20,
        )
    )


def cancelled(order_id: str = "o-1", mode: Mode = "choreographed", reason: CancelReason = "out_of_stock") -> Event[Any]:
    return new_event(
        OrderCancelled(order_id=order_id, checkout_session_id=f"session-{order_id}", mode=mode, reason=reason)
    )


async def run(ground: PaymentGround, *events: Event[Any]) -> None:
    await ground.send(*events)
    async with ground.choreography_running():
        await ground.settled(events, "PROCESSED", CONSUMER)


async def test_an_order_that_waits_for_its_money_is_charged(ground: PaymentGround) -> None:
    order = pending()
    await run(ground, order)
    (told,) = await ground.told()
    assert (told["type"], told["cause"]) == ("payment.captured", order.id)
    assert told["amount"] == {"minor_units": 2000, "currency": "EUR"}
    assert await ground.payment() == ("CAPTURED", 2000, 0)
    assert await ground.provider.sums() == (1, 2000, 0)


async def test_a_decline_is_told(ground: PaymentGround) -> None:
    await ground.provider.behave("decline", order_id="o-1", reason="expired_card")
    await run(ground, pending(), cancelled(reason="payment_failed"))
    (told,) = await ground.told()
    assert (told["type"], told["reason"]) == ("payment.failed", "expired_card")
    assert await ground.payment() == ("DECLINED", 2000, 0)


async def test_a_cancelled_order_gets_its_money_back(ground: PaymentGround) -> None:
    order, cancellation = pending(), cancelled()
    await run(ground, order, cancellation)
    captured, refunded = await ground.told()
    assert (captured["type"], refunded["type"]) == ("payment.captured", "payment.refunded")
    assert refunded["payment_id"] == captured["payment_id"]
    assert (refunded["cause"], refunded["amount"]) == (cancellation.id, {"minor_units": 2000, "currency": "EUR"})
    assert await ground.payment() == ("REFUNDED", 2000, 2000)
    assert await ground.provider.sums() == (1, 2000, 2000)


async def test_a_second_cancellation_gives_nothing_back_twice(ground: PaymentGround) -> None:
    await run(ground, pending(), cancelled(), cancelled(reason="customer_request"))
    assert await ground.types() == ["payment.captured", "payment.refunded"]
    assert await ground.provider.sums() == (1, 2000, 2000)


async def test_lost_answers_of_charge_and_void_take_and_give_once(ground: PaymentGround) -> None:
    await ground.provider.behave("timeout_after", order_id="o-1")
    await ground.provider.behave("error_after", order_id="o-1", operation="void")
    await run(ground, pending(), cancelled())
    assert await ground.types() == ["payment.captured", "payment.refunded"]
    assert await ground.provider.sums() == (1, 2000, 2000)


async def test_an_order_of_the_orchestrator_is_none_of_its_business(ground: PaymentGround) -> None:
    await run(ground, pending(mode="orchestrated"))
    assert await ground.payment() is None
    await run(ground, pending(), cancelled(mode="orchestrated"))
    assert await ground.types() == ["payment.captured"]
    assert await ground.provider.sums() == (1, 2000, 0)


async def test_a_cancelled_order_that_was_never_charged_costs_nothing(ground: PaymentGround) -> None:
    await run(ground, cancelled())
    assert await ground.told() == []
    assert await ground.provider.sums() == (0, 0, 0)


async def test_the_same_order_told_twice_pays_once(ground: PaymentGround) -> None:
    await run(ground, pending(), pending())
    assert await ground.types() == ["payment.captured", "payment.captured"]
    assert await ground.provider.sums() == (1, 2000, 0)
