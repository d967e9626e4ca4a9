"""Failing handlers in the kit: who is tried again, who waits, who is dead, and what others see of it."""

import asyncio
from typing import Any

import pytest

from surefoot.consumer import Consumer, DependencyDown, Permanent, Retry, Transaction, Transient
from surefoot.events import BadRecord, Event
from surefoot.testing.consumer_kit import ConsumerKit, KitMisuse
from tests.support.shop_types import OrderCancelled, OrderPaid, ParcelWeighed, StockReserved


class Deadlock(Exception):
    sqlstate = "40P01"


def paid(order_id: str, number: int = 0) -> OrderPaid:
    return OrderPaid(order_id=order_id, number=number)


def recorder(**settings: Any) -> tuple[Consumer, list[str]]:
    """A consumer that notes what it handled, in order."""
    consumer, done = Consumer("recorder", **settings), []

    @consumer.on(OrderPaid)
    async def note_paid(event: Event[OrderPaid], tx: Transaction) -> None:
        done.append(f"{event.key}{event.data.number}")

    @consumer.on(OrderCancelled)
    async def note_cancelled(event: Event[OrderCancelled], tx: Transaction) -> None:
        done.append(f"{event.key}-cancelled")

    @consumer.on(ParcelWeighed)
    async def note_weighed(event: Event[ParcelWeighed], tx: Transaction) -> None:
        done.append(f"{event.key}-weighed")

    return consumer, done


async def test_a_failing_event_is_parked_with_everything_behind_it_on_its_key() -> None:
    consumer, done = recorder()
    kit = ConsumerKit(consumer)
    kit.fail("note_paid", error=Transient("not now"))
    await kit.deliver(paid("a"), OrderCancelled(order_id="a"), paid("b"), ParcelWeighed(order_id="a"))
    assert done == ["b0", "a-weighed"]  # another key, and the same key on another topic
    assert kit.parked == [paid("a"), OrderCancelled(order_id="a")]
    assert kit.outcome_of(OrderCancelled(order_id="a")) == "PARKED"
    assert (kit.attempts_of(paid("a")), kit.attempts_of(OrderCancelled(order_id="a"))) == (1, 0)
    assert str(kit.error_of(paid("a"))) == "not now"


async def test_when_the_rest_is_over_the_key_goes_on_in_order() -> None:
    consumer, done = recorder()
    kit = ConsumerKit(consumer)
    kit.fail("note_paid", error=Transient())
    await kit.deliver(paid("a", 1), paid("a", 2))
    await kit.deliver(OrderCancelled(order_id="a"))
    await kit.advance()
    assert done == ["a1", "a2", "a-cancelled"]
    assert (kit.parked, kit.attempts_of(paid("a", 1)), kit.attempts_of(paid("a", 2))) == ([], 2, 1)
    await kit.deliver(paid("a", 3))
    assert done[-1] == "a3"


async def test_one_advance_is_one_attempt() -> None:
    kit = ConsumerKit(recorder()[0])
    kit.fail("note_paid", error=Transient(), times=3)
    await kit.deliver(paid("a"))
    attempts = []
    for _ in range(4):
        attempts.append((kit.outcome_of(paid("a")), kit.attempts_of(paid("a"))))
        await kit.advance()
    assert attempts == [("PARKED", 1), ("PARKED", 2), ("PARKED", 3), ("PROCESSED", 4)]


async def test_one_that_fails_behind_another_becomes_the_first_of_its_key() -> None:
    consumer, done = recorder()
    kit = ConsumerKit(consumer)
    kit.fail("note_paid", on_call=1, error=Transient())
    kit.fail("note_paid", on_call=3, error=Transient())
    await kit.deliver(paid("a", 1), paid("a", 2), paid("a", 3))
    await kit.advance()
    assert (done, kit.parked) == (["a1"], [paid("a", 2), paid("a", 3)])
    await kit.advance()
    assert (done, kit.parked) == (["a1", "a2", "a3"], [])


async def test_a_duplicate_of_a_parked_event_is_a_duplicate() -> None:
    consumer, done = recorder()
    kit = ConsumerKit(consumer)
    kit.fail("note_paid", error=Transient())
    await kit.deliver(paid("a"), times=2)
    await kit.advance()
    assert (done, kit.duplicates) == (["a0"], 1)


async def test_after_the_last_attempt_an_event_is_dead_and_holds_its_key() -> None:
    consumer, done = recorder(retry=Retry(attempts=3))
    kit = ConsumerKit(consumer)
    kit.fail("note_paid", error=Transient("never"), times=99)
    await kit.deliver(paid("a"), OrderCancelled(order_id="a"), OrderCancelled(order_id="b"))
    await kit.settle()
    (dead,) = kit.dead
    assert (dead.data, dead.event.key, dead.reason, str(dead.error)) == (paid("a"), "a", "out_of_attempts", "never")
    assert kit.attempts_of(paid("a")) == 3
    assert (done, kit.parked) == (["b-cancelled"], [OrderCancelled(order_id="a")])


async def test_a_consumer_that_releases_goes_on_without_its_dead() -> None:
    consumer, done = recorder(retry=Retry(attempts=2), when_dead="release")
    kit = ConsumerKit(consumer)
    kit.fail("note_paid", error=Transient(), times=2)
    await kit.deliver(paid("a"), OrderCancelled(order_id="a"))
    await kit.advance()
    assert kit.outcome_of(paid("a")) == "DEAD"
    assert (done, kit.parked) == (["a-cancelled"], [])
    await kit.deliver(paid("a", 2))
    assert done == ["a-cancelled", "a2"]


async def test_a_permanent_failure_is_dead_at_once() -> None:
    consumer, done = recorder()
    kit = ConsumerKit(consumer)
    kit.fail("note_paid", error=Permanent("no such order"))
    await kit.deliver(paid("a"), OrderCancelled(order_id="a"))
    assert [(dead.data, dead.reason) for dead in kit.dead] == [(paid("a"), "permanent")]
    assert (done, kit.parked, kit.attempts_of(paid("a"))) == ([], [OrderCancelled(order_id="a")], 1)


async def test_the_consumers_own_rules_say_what_an_exception_means() -> None:
    kit = ConsumerKit(recorder(permanent=[KeyError], dependencies=[EOFError])[0])
    kit.fail("note_paid", error=KeyError("x"))
    kit.fail("note_weighed", error=EOFError())
    await kit.deliver(paid("a"), ParcelWeighed(order_id="a"))
    assert (kit.outcome_of(paid("a")), kit.outcome_of(ParcelWeighed(order_id="a"))) == ("DEAD", "WAITING")


async def test_a_bad_record_that_a_handler_came_across_is_its_own_failure() -> None:
    """Only the event itself is dead for being unreadable; something else that is unreadable may be mended."""
    kit = ConsumerKit(recorder()[0])
    kit.fail("note_paid", error=BadRecord("invalid_json", "a record of somebody else's"))
    await kit.deliver(paid("a"))
    assert kit.outcome_of(paid("a")) == "PARKED"


async def test_a_limit_of_time_that_a_handler_set_itself_is_its_own_failure() -> None:
    consumer = Consumer("recorder")

    @consumer.on(OrderPaid)
    async def wait(event: Event[OrderPaid], tx: Transaction) -> None:
        async with asyncio.timeout(0):
            await asyncio.sleep(1)

    kit = ConsumerKit(consumer)
    await kit.deliver(paid("a"))
    assert (kit.outcome_of(paid("a")), type(kit.error_of(paid("a")))) == ("PARKED", TimeoutError)


async def test_what_a_handler_says_to_pytest_reaches_pytest() -> None:
    consumer = Consumer("recorder")

    @consumer.on(OrderPaid)
    async def never(event: Event[OrderPaid], tx: Transaction) -> None:
        pytest.fail("must not be called")

    with pytest.raises(pytest.fail.Exception, match="must not be called"):
        await ConsumerKit(consumer).deliver(paid("a"))


async def test_while_a_dependency_is_away_the_consumer_waits_and_counts_nothing() -> None:
    consumer, done = recorder(retry=Retry(attempts=1))
    kit = ConsumerKit(consumer)
    kit.fail("note_paid", error=DependencyDown("no bank"), times=3)
    await kit.deliver(paid("a"), paid("b"))
    assert (done, kit.waiting, kit.parked) == ([], [paid("a"), paid("b")], [])
    await kit.settle()
    assert (kit.outcome_of(paid("a")), kit.attempts_of(paid("a")), str(kit.error_of(paid("a")))) == (
        "WAITING",
        0,
        "no bank",
    )
    await kit.deliver(paid("c"))
    assert (done, kit.waiting) == ([], [paid("a"), paid("b"), paid("c")])
    await kit.deliver(paid("d"))
    assert (done, kit.waiting) == (["a0", "b0", "c0", "d0"], [])
    assert kit.attempts_of(paid("a")) == 1


async def test_a_duplicate_of_one_that_waits_has_no_effect_later() -> None:
    consumer, done = recorder()
    kit = ConsumerKit(consumer)
    kit.fail("note_paid", error=DependencyDown())
    await kit.deliver(paid("a"), times=2)
    await kit.advance()
    assert (done, kit.duplicates) == (["a0"], 1)


async def test_a_parked_event_whose_dependency_is_away_keeps_its_place_and_its_attempts() -> None:
    consumer, done = recorder(retry=Retry(attempts=2))
    kit = ConsumerKit(consumer)
    kit.fail("note_paid", on_call=1, error=Transient())
    kit.fail("note_paid", on_call=2, error=DependencyDown(), times=5)
    await kit.deliver(paid("a"), OrderCancelled(order_id="a"))
    for _ in range(5):
        await kit.advance()
    assert (kit.outcome_of(paid("a")), kit.attempts_of(paid("a"))) == ("PARKED", 1)
    await kit.deliver(ParcelWeighed(order_id="z"))
    assert done == ["a0", "a-cancelled", "z-weighed"]


async def test_a_deadlock_is_tried_again_at_once_and_counts_from_the_tenth() -> None:
    kit = ConsumerKit(recorder()[0])
    kit.fail("note_paid", error=Deadlock(), times=9)
    await kit.deliver(paid("a"))
    assert (kit.outcome_of(paid("a")), kit.attempts_of(paid("a"))) == ("PROCESSED", 1)
    kit.fail("note_paid", error=Deadlock(), times=10)
    await kit.deliver(paid("b"))
    assert (kit.outcome_of(paid("b")), kit.attempts_of(paid("b"))) == ("PARKED", 1)


async def test_each_attempt_may_have_its_own_deadlocks() -> None:
    kit = ConsumerKit(recorder()[0])
    kit.fail("note_paid", error=Deadlock(), times=19)
    await kit.deliver(paid("a"))
    await kit.advance()
    assert (kit.outcome_of(paid("a")), kit.attempts_of(paid("a"))) == ("PROCESSED", 2)


async def test_what_a_failed_handler_published_is_not_published() -> None:
    consumer, failing = Consumer("warehouse"), [True]

    @consumer.on(OrderPaid)
    async def reserve(event: Event[OrderPaid], tx: Transaction) -> None:
        tx.publish(StockReserved(order_id=event.data.order_id))
        if failing:
            raise Transient

    kit = ConsumerKit(consumer)
    await kit.deliver(paid("a"))
    assert kit.published == []
    failing.clear()
    await kit.advance()
    assert kit.published == [StockReserved(order_id="a")]


async def test_calls_are_counted_from_when_the_failure_was_planned() -> None:
    kit = ConsumerKit(recorder()[0])
    await kit.deliver(paid("a"))
    kit.fail("note_paid", on_call=2, error=Permanent())
    await kit.deliver(paid("b"), paid("c"), paid("d"))
    assert [kit.outcome_of(paid(key)) for key in "abcd"] == ["PROCESSED", "PROCESSED", "DEAD", "PROCESSED"]


async def test_of_two_failures_planned_for_one_call_the_first_planned_is_raised() -> None:
    kit = ConsumerKit(recorder()[0])
    kit.fail("note_paid", error=Transient("first"))
    kit.fail("note_paid", error=Transient("second"))
    await kit.deliver(paid("a"))
    assert str(kit.error_of(paid("a"))) == "first"
    await kit.advance()
    assert kit.outcome_of(paid("a")) == "PROCESSED"


def test_a_failure_of_a_function_that_is_not_there_is_refused() -> None:
    kit = ConsumerKit(recorder()[0])
    with pytest.raises(KitMisuse, match="no function confirm to fail: it has note_cancelled, note_paid, note_weighed"):
        kit.fail("confirm", error=Transient())


@pytest.mark.parametrize("numbers", [{"on_call": 0}, {"times": 0}])
def test_a_failure_that_would_never_happen_is_refused(numbers: dict[str, int]) -> None:
    with pytest.raises(KitMisuse, match="numbers from 1 up"):
        ConsumerKit(recorder()[0]).fail("note_paid", error=Transient(), **numbers)
