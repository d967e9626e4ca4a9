"""Outside calls in the kit: prepare once, call until it succeeds, finish."""

from typing import Any
from uuid import UUID

from surefoot.consumer import Consumer, DependencyDown, OutsideCall, Permanent, Retry, Transaction, Transient
from surefoot.consumer.contracts import CommandFailed
from surefoot.events import Event, EventData
from surefoot.testing.consumer_kit import ConsumerKit
from tests.support.shop_types import (
    CapturePayment,
    OrderPaid,
    ParcelWeighed,
    PaymentCaptured,
    PaymentRefunded,
    RefundPayment,
    StockReserved,
)

PAID = OrderPaid(order_id="o-1")
STEP: dict[str, Any] = {"saga": "s-1", "step": "capture_payment"}
UNDO: dict[str, Any] = {**STEP, "direction": "undo"}


class Deadlock(Exception):
    sqlstate = "40P01"


class Story:
    """A consumer with a provider to call, and what happened in which order."""

    def __init__(self, **settings: Any) -> None:
        self.steps: list[str] = []
        self.calls: list[OutsideCall] = []
        self.consumer = Consumer("carrier", **settings)
        self.kit = ConsumerKit(self.consumer)

        async def choose(event: Event[EventData], tx: Transaction) -> dict[str, Any]:
            self.steps.append("choose")
            tx.publish(ParcelWeighed(order_id=event.key))
            return {"account": ("A", 1)}

        async def ask(event: Event[EventData], call: OutsideCall) -> str:
            self.steps.append("ask")
            self.calls.append(call)
            return "label-7"

        @self.consumer.on(OrderPaid, outside=ask, prepare=choose)
        async def note(event: Event[OrderPaid], tx: Transaction, label: str) -> StockReserved:
            self.steps.append(f"note {label}")
            tx.publish(StockReserved(order_id=event.key))
            return StockReserved(order_id="an event handler's answer is nobody's reply")

        @self.consumer.command(CapturePayment, outside=ask)
        async def captured(event: Event[CapturePayment], tx: Transaction, label: str) -> PaymentCaptured:
            return PaymentCaptured(order_id=event.key, payment_id=label)

        @self.consumer.command(RefundPayment, outside=ask)
        async def refunded(event: Event[RefundPayment], tx: Transaction, label: str) -> PaymentRefunded:
            return PaymentRefunded(order_id=event.key, was_done=tx.done)


async def test_prepare_then_the_call_then_the_handler_with_its_result() -> None:
    story = Story()
    await story.kit.deliver(PAID)
    assert story.steps == ["choose", "ask", "note label-7"]
    assert story.kit.published == [ParcelWeighed(order_id="o-1"), StockReserved(order_id="o-1")]
    assert story.kit.outcome_of(PAID) == "PROCESSED"


async def test_only_the_call_repeats_under_the_same_key_and_with_what_was_prepared() -> None:
    story = Story()
    story.kit.fail("ask", error=Transient())
    story.kit.fail("note", error=Transient())
    await story.kit.deliver(PAID)
    await story.kit.settle()
    assert story.steps == ["choose", "ask", "ask", "note label-7"]
    first, second = story.calls
    assert first.key == second.key == first.do_key
    assert (first.attempt, second.attempt) == (2, 3)
    assert first.prepared == {"account": ["A", 1]}  # as JSON keeps it
    assert story.kit.published == [ParcelWeighed(order_id="o-1"), StockReserved(order_id="o-1")]
    assert story.kit.attempts_of(PAID) == 3


async def test_two_events_have_different_keys_for_their_calls() -> None:
    story = Story()
    await story.kit.deliver(PAID, PAID)
    assert story.calls[0].key != story.calls[1].key


async def test_while_a_call_fails_its_key_waits_and_others_go_on() -> None:
    story = Story()
    story.kit.fail("ask", error=Transient())
    behind, other = OrderPaid(order_id="o-1", number=2), OrderPaid(order_id="o-2")
    await story.kit.deliver(PAID, behind, other)
    assert story.kit.parked == [PAID, behind]
    assert story.kit.outcome_of(other) == "PROCESSED"
    await story.kit.advance()
    assert story.kit.parked == []


async def test_a_prepare_that_fails_is_tried_again_and_had_no_effect() -> None:
    story = Story()
    story.kit.fail("choose", error=Transient())
    await story.kit.deliver(PAID)
    assert (story.steps, story.kit.published) == ([], [])
    await story.kit.advance()
    assert story.steps == ["choose", "ask", "note label-7"]


async def test_a_provider_that_is_away_costs_no_attempt_and_holds_up_nobody_else() -> None:
    story = Story(retry=Retry(attempts=1))
    story.kit.fail("ask", error=DependencyDown(), times=1)
    other = OrderPaid(order_id="o-2")
    await story.kit.deliver(PAID, other)
    assert (story.kit.outcome_of(PAID), story.kit.attempts_of(PAID)) == ("PARKED", 0)
    assert story.kit.outcome_of(other) == "PROCESSED"
    await story.kit.deliver(OrderPaid(order_id="o-3"))
    assert (story.kit.outcome_of(PAID), story.kit.attempts_of(PAID)) == ("PROCESSED", 1)
    assert story.steps.count("choose") == 3


async def test_calls_come_to_an_end_with_the_attempts() -> None:
    story = Story(retry=Retry(attempts=2))
    story.kit.fail("ask", error=Transient("no answer"), times=9)
    await story.kit.deliver(PAID)
    await story.kit.settle()
    assert [(dead.data, dead.reason) for dead in story.kit.dead] == [(PAID, "out_of_attempts")]
    assert story.kit.published == [ParcelWeighed(order_id="o-1")]


async def test_a_command_with_a_call_replies_and_repeats_its_reply_without_calling() -> None:
    story = Story()
    await story.kit.command(CapturePayment(order_id="o-1"), **STEP)
    await story.kit.command(CapturePayment(order_id="o-1"), **STEP)
    assert story.kit.published == [PaymentCaptured(order_id="o-1", payment_id="label-7")] * 2
    assert len(story.calls) == 1
    assert story.calls[0].prepared is None


async def test_an_undo_knows_the_key_of_the_call_it_undoes() -> None:
    story = Story()
    await story.kit.command(CapturePayment(order_id="o-1"), **STEP)
    await story.kit.command(RefundPayment(order_id="o-1"), **UNDO)
    do, undo = story.calls
    assert undo.do_key == do.key == do.do_key
    assert undo.key != do.key
    assert story.kit.published[-1] == PaymentRefunded(order_id="o-1", was_done=True)


async def test_an_undo_whose_call_is_under_way_bars_its_do_already() -> None:
    story = Story()
    story.kit.fail("ask", error=Transient())
    await story.kit.command(RefundPayment(order_id="o-1"), **UNDO)
    late = await story.kit.command(CapturePayment(order_id="another key"), **STEP)
    assert (story.kit.outcome_of(late), story.calls) == ("BARRED", [])
    await story.kit.advance()
    assert story.kit.published == [PaymentRefunded(order_id="o-1", was_done=False)]


async def test_a_command_whose_calls_all_failed_is_told_to_its_saga() -> None:
    story = Story(retry=Retry(attempts=1))
    story.kit.fail("ask", error=Transient("no answer"))
    await story.kit.command(CapturePayment(order_id="o-1"), **STEP)
    (told,) = story.kit.published
    assert isinstance(told, CommandFailed)
    assert (told.reason, told.error, told.direction) == ("out_of_attempts", "no answer", "do")


async def test_what_cannot_be_kept_as_json_is_refused_before_the_call() -> None:
    story = Story()

    async def choose_badly(event: Event[EventData], tx: Transaction) -> object:
        tx.publish(StockReserved(order_id="never"))
        return object()

    async def ask(event: Event[EventData], call: OutsideCall) -> None:
        story.calls.append(call)

    @story.consumer.on(ParcelWeighed, outside=ask, prepare=choose_badly)
    async def weighed(event: Event[ParcelWeighed], tx: Transaction, result: None) -> None: ...

    await story.kit.deliver(ParcelWeighed(order_id="o-1"))
    error = story.kit.error_of(ParcelWeighed(order_id="o-1"))
    assert isinstance(error, Permanent)
    assert "choose_badly returned a object, which cannot be kept as JSON" in str(error)
    assert (story.calls, story.kit.published) == ([], [])


async def test_a_deadlock_in_the_second_half_costs_no_attempt() -> None:
    story = Story(retry=Retry(attempts=1))
    story.kit.fail("note", error=Deadlock(), times=12)
    await story.kit.deliver(PAID)
    for _ in range(12):
        await story.kit.advance()
    assert (story.kit.outcome_of(PAID), story.kit.attempts_of(PAID)) == ("PROCESSED", 1)


async def test_a_provider_gets_keys_that_it_will_take() -> None:
    story = Story()
    await story.kit.deliver(OrderPaid(order_id="x" * 5000))
    await story.kit.command(CapturePayment(order_id="o-1"), saga="s" * 200, step="t" * 200)
    assert [str(UUID(call.key)) for call in story.calls] == [call.key for call in story.calls]
