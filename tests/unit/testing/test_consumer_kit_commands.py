"""Commands in the kit: replies are kept, an undo that comes first bars its do, a dead command is told."""

from typing import Any

import pytest

from surefoot.consumer import Consumer, Permanent, Retry, Transaction, Transient
from surefoot.consumer.contracts import CommandFailed
from surefoot.errors import InvalidEvent
from surefoot.events import Event, new_event
from surefoot.events.event import Command
from surefoot.testing.consumer_kit import ConsumerKit
from tests.support.shop_types import CapturePayment, PaymentCaptured, PaymentFailed, PaymentRefunded, RefundPayment

CAPTURE, REFUND = CapturePayment(order_id="o-1"), RefundPayment(order_id="o-1")
STEP: dict[str, Any] = {"saga": "s-1", "step": "capture_payment"}
UNDO: dict[str, Any] = {**STEP, "direction": "undo"}
CAPTURED = PaymentCaptured(order_id="o-1", payment_id="1")


def bank(**settings: Any) -> tuple[Consumer, list[Command | None]]:
    """A consumer that captures and refunds, and the commands its handlers saw."""
    consumer = Consumer("bank", **settings)
    seen: list[Command | None] = []

    @consumer.command(CapturePayment)
    async def capture(event: Event[CapturePayment], tx: Transaction) -> PaymentCaptured:
        seen.append(tx.command)
        return PaymentCaptured(order_id=event.data.order_id, payment_id=str(len(seen)))

    @consumer.command(RefundPayment)
    async def refund(event: Event[RefundPayment], tx: Transaction) -> PaymentRefunded:
        seen.append(tx.command)
        return PaymentRefunded(order_id=event.data.order_id, was_done=tx.done)

    return consumer, seen


async def test_the_reply_to_a_command_is_published_and_names_it_as_its_cause() -> None:
    consumer, seen = bank()
    kit = ConsumerKit(consumer)
    event = await kit.command(CAPTURE, **STEP, attempt=2)
    assert kit.published == [CAPTURED]
    assert kit.published_events[0].causation_id == event.id
    assert seen == [Command("s-1", "capture_payment", "do", 2)]


async def test_a_repeated_command_gets_the_same_reply_and_does_not_run_twice() -> None:
    consumer, seen = bank()
    kit = ConsumerKit(consumer)
    first, second = await kit.command(CAPTURE, **STEP), await kit.command(CAPTURE, **STEP, attempt=2)
    assert (len(seen), kit.published) == (1, [CAPTURED, CAPTURED])
    assert [reply.causation_id for reply in kit.published_events] == [first.id, second.id]
    assert kit.published_events[0].id != kit.published_events[1].id
    assert kit.outcome_of(second) == "PROCESSED"


async def test_a_reply_given_again_goes_under_the_key_it_had() -> None:
    consumer = Consumer("bank")

    @consumer.command(CapturePayment)
    async def decline(event: Event[CapturePayment], tx: Transaction) -> PaymentFailed:
        return PaymentFailed(reason="no money")

    kit = ConsumerKit(consumer)
    await kit.command(CAPTURE, **STEP)
    await kit.command(CAPTURE, **STEP)
    first, again = kit.published_events
    assert first.key == first.id == again.key


async def test_a_redelivered_command_is_a_duplicate_like_any_other() -> None:
    kit = ConsumerKit(bank()[0])
    event = await kit.command(CAPTURE, **STEP)
    await kit.deliver(event)
    assert (kit.duplicates, kit.published) == (1, [CAPTURED])


async def test_each_saga_and_each_step_has_a_reply_of_its_own() -> None:
    consumer, seen = bank()
    kit = ConsumerKit(consumer)
    await kit.command(CAPTURE, saga="s-1", step="deposit")
    await kit.command(CAPTURE, saga="s-1", step="rest")
    await kit.command(CAPTURE, saga="s-2", step="rest")
    assert len(seen) == 3


async def test_an_undo_knows_that_its_do_was_carried_out() -> None:
    kit = ConsumerKit(bank()[0])
    await kit.command(CAPTURE, **STEP)
    await kit.command(REFUND, **UNDO)
    assert kit.published == [CAPTURED, PaymentRefunded(order_id="o-1", was_done=True)]


async def test_an_undo_that_comes_first_bars_the_late_do() -> None:
    consumer, seen = bank()
    kit = ConsumerKit(consumer)
    await kit.command(REFUND, **UNDO)
    late = await kit.command(CAPTURE, **STEP)
    assert kit.published == [PaymentRefunded(order_id="o-1", was_done=False)]
    assert (kit.outcome_of(late), len(seen)) == ("BARRED", 1)


async def test_an_undo_that_failed_bars_nothing_yet() -> None:
    kit = ConsumerKit(bank()[0])
    kit.fail("refund", error=Transient())
    undo = new_event(REFUND, key="another", extensions=Command("s-1", "capture_payment", "undo").extensions())
    await kit.deliver(undo)
    await kit.command(CAPTURE, **STEP)
    await kit.advance()
    assert kit.published == [CAPTURED, PaymentRefunded(order_id="o-1", was_done=True)]


async def test_a_command_without_a_reply_is_not_run_twice_either() -> None:
    consumer, runs = Consumer("bank"), []

    @consumer.command(CapturePayment)
    async def capture(event: Event[CapturePayment], tx: Transaction) -> None:
        runs.append(event.id)

    kit = ConsumerKit(consumer)
    await kit.command(CAPTURE, **STEP)
    await kit.command(CAPTURE, **STEP)
    assert (len(runs), kit.published) == (1, [])


async def test_a_dead_command_is_told_to_its_saga_and_releases_its_key() -> None:
    kit = ConsumerKit(bank(retry=Retry(attempts=2), when_dead="hold")[0])
    kit.fail("capture", error=Transient("the bank is closed"), times=2)
    command = await kit.command(CAPTURE, **STEP, attempt=3)
    await kit.command(REFUND, **UNDO)
    await kit.advance()
    assert kit.published == [
        CommandFailed(
            saga_id="s-1",
            step="capture_payment",
            direction="do",
            attempt=3,
            consumer="bank",
            reason="out_of_attempts",
            error="the bank is closed",
        ),
        PaymentRefunded(order_id="o-1", was_done=False),
    ]
    assert kit.published_events[0].causation_id == command.id
    assert (kit.outcome_of(command), kit.parked) == ("DEAD", [])


async def test_a_dead_command_may_be_sent_again_for_its_failure_is_no_reply() -> None:
    kit = ConsumerKit(bank()[0])
    kit.fail("capture", error=Permanent())
    await kit.command(CAPTURE, **STEP)
    await kit.command(CAPTURE, **STEP, attempt=2)
    assert [type(data) for data in kit.published] == [CommandFailed, PaymentCaptured]


async def test_half_a_command_is_dead_and_there_is_nobody_to_tell() -> None:
    consumer, seen = bank()
    kit = ConsumerKit(consumer)
    half = new_event(CAPTURE, extensions={"sagaid": "s-1"})
    await kit.deliver(half)
    await kit.command(CAPTURE, **STEP)
    assert [(dead.event.id, dead.reason, type(dead.error)) for dead in kit.dead] == [
        (half.id, "permanent", InvalidEvent)
    ]
    assert (len(seen), kit.published) == (1, [CAPTURED])  # it releases its key like any dead command


async def test_a_command_of_no_saga_is_carried_out_as_often_as_it_comes() -> None:
    consumer, seen = bank()
    kit = ConsumerKit(consumer)
    await kit.deliver(CAPTURE, CAPTURE)
    assert seen == [None, None]
    assert [reply.payment_id for reply in kit.published if isinstance(reply, PaymentCaptured)] == ["1", "2"]


@pytest.mark.parametrize("answer", ["a text", new_event(CAPTURED)])
async def test_a_reply_that_is_no_data_of_an_event_is_refused(answer: object) -> None:
    consumer = Consumer("bank")

    @consumer.command(CapturePayment)
    async def capture(event: Event[CapturePayment], tx: Transaction) -> object:
        return answer

    kit = ConsumerKit(consumer)
    await kit.command(CAPTURE, **STEP)
    assert [dead.reason for dead in kit.dead] == ["permanent"]
