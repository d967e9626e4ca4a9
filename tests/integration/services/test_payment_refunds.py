"""Refunds: once for each request, never more than was taken."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.services.payment_harness import PaymentGround, capture, payment_ground, refund

pytestmark = pytest.mark.slow


@pytest.fixture
async def ground(database_url: str, tmp_path: Path) -> AsyncIterator[PaymentGround]:
    """With a payment of 20 EUR captured for order o-1."""
    async with payment_ground(database_url, tmp_path) as ground:
        do = capture()
        await ground.send(do)
        async with ground.commands_running():
            await ground.settled([do], "PROCESSED")
        yield ground


async def test_a_part_is_given_back_and_the_saga_is_told(ground: PaymentGround) -> None:
    part = refund("s-2", "return:1", 500)
    await ground.send(part)
    async with ground.commands_running():
        await ground.settled([part], "PROCESSED")
    _, told = await ground.told()
    assert (told["type"], told["cause"], told["return_id"]) == ("payment.refunded", part.id, "ret-1")
    assert (told["amount"], told["reason"]) == ({"minor_units": 500, "currency": "EUR"}, "return_approved")
    assert await ground.payment() == ("CAPTURED", 2000, 500)
    assert await ground.provider.sums() == (1, 2000, 500)


async def test_the_same_request_of_another_command_gives_back_nothing_more(ground: PaymentGround) -> None:
    first, second = refund("s-2", "return:1", 500), refund("s-3", "return:1", 500)
    await ground.send(first, second)
    async with ground.commands_running():
        await ground.settled([first, second], "PROCESSED")
    _, one, other = await ground.told()
    assert one["refund_id"] == other["refund_id"]
    assert await ground.payment() == ("CAPTURED", 2000, 500)
    assert await ground.provider.sums() == (1, 2000, 500)


async def test_the_same_request_for_another_amount_is_dead(ground: PaymentGround) -> None:
    first, second = refund("s-2", "return:1", 500), refund("s-3", "return:1", 600)
    await ground.send(first)
    async with ground.commands_running():
        await ground.settled([first], "PROCESSED")
        await ground.send(second)
        await ground.settled([second], "DEAD")
    (told,) = await ground.told("saga.replies")
    assert "one request, one refund" in told["error"]
    assert await ground.payment() == ("CAPTURED", 2000, 500)


async def test_all_of_it_in_parts_is_refunded(ground: PaymentGround) -> None:
    parts = [refund("s-2", "return:1", 500), refund("s-3", "return:2", 1500)]
    await ground.send(*parts)
    async with ground.commands_running():
        await ground.settled(parts, "PROCESSED")
    assert await ground.payment() == ("REFUNDED", 2000, 2000)
    assert await ground.provider.sums() == (1, 2000, 2000)


@pytest.mark.parametrize("behaviour", ["timeout_after", "error_after", "error_before"])
async def test_a_lost_answer_gives_nothing_back_twice(ground: PaymentGround, behaviour: str) -> None:
    await ground.provider.behave(behaviour, order_id="o-1", operation="refund")
    part = refund("s-2", "return:1", 500)
    await ground.send(part)
    async with ground.commands_running():
        await ground.settled([part], "PROCESSED")
    assert await ground.types() == ["payment.captured", "payment.refunded"]
    assert await ground.payment() == ("CAPTURED", 2000, 500)
    assert await ground.provider.sums() == (1, 2000, 500)


async def test_more_than_was_taken_is_dead_and_nothing_is_given_back(ground: PaymentGround) -> None:
    too_much = refund("s-2", "return:1", 2001)
    await ground.send(too_much)
    async with ground.commands_running():
        await ground.settled([too_much], "DEAD")
    (told,) = await ground.told("saga.replies")
    assert "exceeds_captured" in told["error"]
    assert await ground.payment() == ("CAPTURED", 2000, 0)
    assert await ground.provider.sums() == (1, 2000, 0)


async def test_a_refund_of_what_was_never_paid_is_dead(ground: PaymentGround) -> None:
    of_nothing = refund("s-2", "return:1", 500, order_id="o-2")
    await ground.send(of_nothing)
    async with ground.commands_running():
        await ground.settled([of_nothing], "DEAD")
    (told,) = await ground.told("saga.replies")
    assert "Nothing was captured for order o-2" in told["error"]


async def test_a_refund_of_nothing_is_answered_and_not_asked_for(ground: PaymentGround) -> None:
    """Half of one cent, rounded down."""
    nothing = refund("s-2", "return:1", 0)
    await ground.send(nothing)
    async with ground.commands_running():
        await ground.settled([nothing], "PROCESSED")
    told = (await ground.told())[-1]
    assert (told["type"], told["amount"]) == ("payment.refunded", {"minor_units": 0, "currency": "EUR"})
    assert await ground.provider.sums() == (1, 2000, 0)
