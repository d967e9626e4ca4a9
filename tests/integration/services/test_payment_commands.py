"""Capturing a payment and undoing it, as a saga's commands, with a provider that has its moods."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.payment.gateway import Barred
from surefoot.events import Money
from tests.support.services.payment_harness import EUR_20, PaymentGround, capture, key_of, payment_ground, reverse
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.fixture
async def ground(database_url: str, tmp_path: Path) -> AsyncIterator[PaymentGround]:
    async with payment_ground(database_url, tmp_path) as ground:
        yield ground


async def test_money_is_taken_and_the_saga_is_told(ground: PaymentGround) -> None:
    do = capture()
    await ground.send(do)
    async with ground.commands_running():
        await ground.settled([do], "PROCESSED")
    (told,) = await ground.told()
    row = await ground.connection.fetchrow("SELECT payment_id, charge_id, provider_key FROM payments.payments")
    assert (told["type"], told["cause"]) == ("payment.captured", do.id)
    assert (told["payment_id"], told["gateway_txn_id"]) == (row["payment_id"], row["charge_id"])
    assert told["amount"] == {"minor_units": 2000, "currency": "EUR"}
    assert row["provider_key"] == key_of(do)
    assert await ground.payment() == ("CAPTURED", 2000, 0)
    assert await ground.provider.sums() == (1, 2000, 0)


async def test_a_decline_is_a_refusal_with_its_reason(ground: PaymentGround) -> None:
    await ground.provider.behave("decline", order_id="o-1", reason="suspected_fraud")
    do = capture()
    await ground.send(do)
    async with ground.commands_running():
        await ground.settled([do], "PROCESSED")
    (told,) = await ground.told()
    assert (told["type"], told["reason"]) == ("payment.failed", "suspected_fraud")
    assert await ground.payment() == ("DECLINED", 2000, 0)
    assert await ground.provider.sums() == (0, 0, 0)


async def test_a_repeated_capture_gets_the_same_reply_and_takes_nothing_twice(ground: PaymentGround) -> None:
    do, again = capture(), capture(attempt=2)
    await ground.send(do, again)
    async with ground.commands_running():
        await ground.settled([do, again], "PROCESSED")
    first, second = await ground.told()
    assert (first.pop("cause"), second.pop("cause")) == (do.id, again.id)
    assert first == second
    assert await ground.provider.sums() == (1, 2000, 0)


@pytest.mark.parametrize("behaviour", ["timeout_after", "error_after", "error_before"])
async def test_a_lost_answer_is_asked_for_again_and_takes_nothing_twice(ground: PaymentGround, behaviour: str) -> None:
    await ground.provider.behave(behaviour, order_id="o-1", times=2)
    do = capture()
    await ground.send(do)
    async with ground.commands_running():
        await ground.settled([do], "PROCESSED")
    assert await ground.types() == ["payment.captured"]
    assert await ground.provider.sums() == (1, 2000, 0)


async def test_while_the_provider_is_down_no_attempt_counts_and_nothing_dies(ground: PaymentGround) -> None:
    await ground.provider.kill()
    do = capture()
    await ground.send(do)
    async with ground.commands_running():
        waits = "SELECT count(*) FROM surefoot.parked_events WHERE state = 'CALLING' AND next_attempt_at > now()"

        async def put_off() -> bool:
            return bool(await ground.connection.fetchval(waits))

        await eventually(put_off, what="the call is put off")
        assert await ground.attempts() == [0]
        assert await ground.payment() == ("PENDING", 2000, 0)
        await ground.provider.start()
        await ground.settled([do], "PROCESSED")
    assert await ground.provider.sums() == (1, 2000, 0)


async def test_an_undo_gives_the_money_back(ground: PaymentGround) -> None:
    do, undo, again = capture(), reverse(), reverse(attempt=2)
    await ground.send(do, undo, again)
    async with ground.commands_running():
        await ground.settled([do, undo, again], "PROCESSED")
    told = await ground.told()
    assert [one["type"] for one in told] == ["payment.captured", "payment.refunded", "payment.refunded"]
    assert told[1]["amount"] == {"minor_units": 2000, "currency": "EUR"}
    assert (told[1]["reason"], told[1]["return_id"]) == ("order_cancelled", None)
    assert told[1]["payment_id"] == told[0]["payment_id"]
    assert await ground.payment() == ("REFUNDED", 2000, 2000)
    assert await ground.provider.sums() == (1, 2000, 2000)
    refunds = await ground.connection.fetch("SELECT refund_request_id, amount, status FROM payments.refunds")
    assert [tuple(row) for row in refunds] == [(f"void:{key_of(do)}", 2000, "REFUNDED")]


async def test_an_undo_whose_answer_is_lost_gives_back_once(ground: PaymentGround) -> None:
    await ground.provider.behave("timeout_after", order_id="o-1", operation="void")
    do, undo = capture(), reverse()
    await ground.send(do, undo)
    async with ground.commands_running():
        await ground.settled([undo], "PROCESSED")
    assert await ground.types() == ["payment.captured", "payment.refunded"]
    assert await ground.provider.sums() == (1, 2000, 2000)


async def test_a_capture_that_charged_and_then_died_is_undone_and_not_forgotten(ground: PaymentGround) -> None:
    await ground.provider.behave("error_after", order_id="o-1", times=100)
    do, undo = capture(), reverse()
    await ground.send(do)
    async with ground.commands_running():
        await ground.settled([do], "DEAD")
        assert await ground.types("saga.replies") == ["command.failed"]
        assert await ground.payment() == ("PENDING", 2000, 0)
        assert await ground.provider.sums() == (1, 2000, 0)
        await ground.send(undo)
        await ground.settled([undo], "PROCESSED")
    (told,) = await ground.told()
    assert (told["type"], told["amount"]) == ("payment.refunded", {"minor_units": 2000, "currency": "EUR"})
    assert await ground.payment() == ("REFUNDED", 2000, 2000)
    assert await ground.provider.sums() == (1, 2000, 2000)


async def test_a_capture_that_died_before_it_charged_is_voided(ground: PaymentGround) -> None:
    await ground.provider.behave("error_before", order_id="o-1", times=4)
    do, undo = capture(), reverse()
    await ground.send(do, undo)
    async with ground.commands_running():
        await ground.settled([do], "DEAD")
        await ground.settled([undo], "PROCESSED")
    assert await ground.types() == ["payment.voided"]
    assert await ground.payment() == ("VOIDED", 2000, 0)
    assert await ground.gateway.charge(key_of(do), "o-1", EUR_20) == Barred()


async def test_a_capture_that_comes_after_its_undo_is_barred_here_and_at_the_provider(ground: PaymentGround) -> None:
    do, undo = capture(), reverse()
    await ground.send(undo, do)
    async with ground.commands_running():
        await ground.settled([undo], "PROCESSED")
        await ground.settled([do], "BARRED")
    assert await ground.types() == ["payment.voided"]
    assert await ground.payment() == ("VOIDED", 2000, 0)
    assert (await ground.provider.get(f"/charges/{key_of(do)}"))["late"] == 0  # the barrier stopped it before the call
    # Had it got past the barrier, because it was frozen on the way to the provider:
    assert await ground.gateway.charge(key_of(do), "o-1", EUR_20) == Barred()
    assert (await ground.provider.get(f"/charges/{key_of(do)}"))["late"] == 1
    assert await ground.provider.sums() == (0, 0, 0)


async def test_a_second_saga_for_the_same_order_takes_nothing_and_its_undo_leaves_the_first_alone(
    ground: PaymentGround,
) -> None:
    first, second, undo = capture("s-1"), capture("s-2"), reverse("s-2")
    await ground.send(first)
    async with ground.commands_running():
        await ground.settled([first], "PROCESSED")
        await ground.send(second, undo)
        await ground.settled([second], "DEAD")
        await ground.settled([undo], "PROCESSED")
    assert await ground.types() == ["payment.captured", "payment.voided"]
    assert await ground.payment() == ("CAPTURED", 2000, 0)
    assert await ground.provider.sums() == (1, 2000, 0)


async def test_an_amount_of_nothing_is_dead_with_a_sentence(ground: PaymentGround) -> None:
    do = capture(amount=Money.minor(0, "EUR"))
    await ground.send(do)
    async with ground.commands_running():
        await ground.settled([do], "DEAD")
    (told,) = await ground.told("saga.replies")
    assert "only more than nothing can be taken" in told["error"]
