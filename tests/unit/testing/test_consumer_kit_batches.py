"""Batch handlers in the kit: runs of events, and what is left of a run when it fails."""

from collections.abc import Sequence

from surefoot.consumer import Consumer, DependencyDown, Transaction, Transient
from surefoot.events import Event, new_event
from surefoot.testing.consumer_kit import ConsumerKit
from tests.support.shop_types import OrderCancelled, OrderPaid, OrderPaidV2, ParcelWeighed, StockReserved


def paid(order_id: str, number: int) -> OrderPaid:
    return OrderPaid(order_id=order_id, number=number)


async def test_a_batch_handler_gets_the_run_at_once_and_names_the_cause() -> None:
    consumer, runs = Consumer("warehouse"), []

    @consumer.on_batch(OrderPaid)
    async def reserve(events: list[Event[OrderPaid]], tx: Transaction) -> None:
        runs.append([event.data.number for event in events])
        for event in events:
            tx.publish(StockReserved(order_id=event.data.order_id), caused_by=event)

    @consumer.on(ParcelWeighed)
    async def weigh(event: Event[ParcelWeighed], tx: Transaction) -> None: ...

    kit = ConsumerKit(consumer)
    one, two, three = (new_event(OrderPaid(order_id="o-1", number=number)) for number in (1, 2, 3))
    await kit.deliver(one, two, one, ParcelWeighed(order_id="o-1"), three)
    assert (runs, kit.duplicates) == ([[1, 2], [3]], 1)
    assert [event.causation_id for event in kit.published_events] == [one.id, two.id, three.id]
    assert kit.attempts_of(two) == 1


async def test_a_batch_that_fails_is_taken_in_halves_until_a_failure_costs_only_its_own_event() -> None:
    consumer, runs = Consumer("warehouse"), []

    @consumer.on_batch(OrderPaid)
    async def reserve(events: list[Event[OrderPaid]], tx: Transaction) -> None:
        runs.append([event.data.number for event in events])
        for event in events:
            tx.publish(StockReserved(order_id=event.data.order_id), caused_by=event)
        if any(event.data.number == 2 for event in events) and len(runs) < 7:
            raise Transient

    kit = ConsumerKit(consumer)
    await kit.deliver(paid("a", 1), paid("b", 2), paid("b", 3), paid("c", 4))
    assert runs == [[1, 2, 3, 4], [1, 2], [1], [2], [4]]
    assert kit.published == [StockReserved(order_id="a"), StockReserved(order_id="c")]
    assert kit.parked == [paid("b", 2), paid("b", 3)]
    assert (kit.attempts_of(paid("a", 1)), kit.attempts_of(paid("b", 2))) == (1, 1)
    assert kit.error_of(paid("a", 1)) is None
    await kit.settle()
    assert runs[5:] == [[2], [2], [3]]
    assert kit.parked == []


async def test_the_rest_of_a_batch_waits_when_a_dependency_is_away_in_the_middle() -> None:
    consumer = Consumer("warehouse")
    done: list[int] = []

    @consumer.on_batch(OrderPaid)
    async def reserve(events: list[Event[OrderPaid]], tx: Transaction) -> None:
        done.extend(event.data.number for event in events)

    kit = ConsumerKit(consumer)
    kit.fail("reserve", on_call=1, error=Transient())
    kit.fail("reserve", on_call=3, error=DependencyDown("no shelves"))
    events = [paid("a", 1), paid("b", 2), paid("c", 3), paid("d", 4), paid("e", 5), paid("f", 6)]
    await kit.deliver(*events)
    assert (done, kit.waiting) == ([1, 2, 3], events[3:])
    assert str(kit.error_of(paid("f", 6))) == "no shelves"
    await kit.advance()
    assert (done, kit.waiting) == ([1, 2, 3, 4, 5, 6], [])


async def test_what_is_left_of_a_batch_waits_with_the_part_that_found_a_dependency_away() -> None:
    consumer = Consumer("warehouse")
    done: list[int] = []

    @consumer.on_batch(OrderPaid)
    async def reserve(events: list[Event[OrderPaid]], tx: Transaction) -> None:
        done.extend(event.data.number for event in events)

    kit = ConsumerKit(consumer)
    kit.fail("reserve", on_call=1, error=Transient())
    kit.fail("reserve", on_call=2, error=DependencyDown())
    await kit.deliver(paid("a", 1), paid("b", 2), paid("c", 3), paid("d", 4))
    assert (done, len(kit.waiting)) == ([], 4)
    await kit.advance()
    assert (done, kit.waiting) == ([1, 2, 3, 4], [])


async def test_a_batch_handler_of_several_types_gets_them_together_in_their_order() -> None:
    consumer, runs = Consumer("warehouse"), []

    @consumer.on_batch(OrderPaid, OrderPaidV2, OrderCancelled)
    async def follow(events: Sequence[Event[OrderPaid | OrderPaidV2 | OrderCancelled]], tx: Transaction) -> None:
        runs.append([event.data for event in events])

    @consumer.on(ParcelWeighed)
    async def weigh(event: Event[ParcelWeighed], tx: Transaction) -> None: ...

    cancelled, paid_v2 = OrderCancelled(order_id="a"), OrderPaidV2(order_id="b", total=7)
    kit = ConsumerKit(consumer)
    await kit.deliver(paid("a", 1), cancelled, paid_v2, ParcelWeighed(order_id="a"), paid("c", 2), paid("c", 3))
    assert runs == [[paid("a", 1), cancelled, paid_v2], [paid("c", 2), paid("c", 3)]]


async def test_two_batch_handlers_are_given_no_common_run() -> None:
    consumer, runs = Consumer("warehouse"), []

    @consumer.on_batch(OrderPaid)
    async def reserve(events: Sequence[Event[OrderPaid]], tx: Transaction) -> None:
        runs.append([event.type for event in events])

    @consumer.on_batch(OrderCancelled)
    async def release(events: Sequence[Event[OrderCancelled]], tx: Transaction) -> None:
        runs.append([event.type for event in events])

    await ConsumerKit(consumer).deliver(paid("a", 1), OrderCancelled(order_id="a"), paid("b", 2), paid("c", 3))
    assert runs == [["order.paid"], ["order.cancelled"], ["order.paid", "order.paid"]]


async def test_a_run_has_events_of_one_topic_as_in_production() -> None:
    consumer, runs = Consumer("warehouse"), []

    @consumer.on_batch(OrderPaid, ParcelWeighed)
    async def follow(events: Sequence[Event[OrderPaid | ParcelWeighed]], tx: Transaction) -> None:
        runs.append([event.type for event in events])

    weighed = ParcelWeighed(order_id="a")
    await ConsumerKit(consumer).deliver(paid("a", 1), paid("a", 2), weighed, paid("a", 3))
    assert runs == [["order.paid", "order.paid"], ["parcel.weighed"], ["order.paid"]]


async def test_a_failed_run_of_several_types_is_halved_and_each_is_read_as_its_own_type() -> None:
    consumer, runs = Consumer("warehouse"), []

    @consumer.on_batch(OrderPaid, OrderCancelled)
    async def follow(events: Sequence[Event[OrderPaid | OrderCancelled]], tx: Transaction) -> None:
        runs.append([event.data for event in events])
        if any(isinstance(event.data, OrderCancelled) for event in events):
            raise Transient

    cancelled = OrderCancelled(order_id="b")
    kit = ConsumerKit(consumer)
    await kit.deliver(paid("a", 1), cancelled, paid("c", 2))
    assert runs == [
        [paid("a", 1), cancelled, paid("c", 2)],
        [paid("a", 1)],
        [cancelled, paid("c", 2)],
        [cancelled],
        [paid("c", 2)],
    ]
    assert kit.parked == [cancelled]
    assert kit.outcome_of(paid("c", 2)) == "PROCESSED"
