"""The kit delivers events to a consumer and tells what came of it."""

import pytest

from surefoot.consumer import Consumer, Permanent, Transaction
from surefoot.errors import InvalidEvent, UndeclaredEvent
from surefoot.events import Event, EventData, new_event
from surefoot.testing.consumer_kit import ConsumerKit, KitMisuse
from tests.support.shop_types import OrderCancelled, OrderPaid, OrderPaidV2, ParcelWeighed, StockReserved

PAID = OrderPaid(order_id="o-1")


def warehouse() -> tuple[Consumer, list[str]]:
    """A consumer that reserves stock for every paid order, and what its handler saw."""
    consumer, seen = Consumer("warehouse"), []

    @consumer.on(OrderPaid)
    async def reserve(event: Event[OrderPaid], tx: Transaction) -> None:
        seen.append(f"{event.data.order_id}#{event.data.number}")
        tx.publish(StockReserved(order_id=event.data.order_id))

    return consumer, seen


async def test_what_a_handler_publishes_is_published() -> None:
    kit = ConsumerKit(warehouse()[0])
    (paid,) = await kit.deliver(PAID)
    assert kit.published == [StockReserved(order_id="o-1")]
    assert kit.outcome_of(paid) == kit.outcome_of(PAID) == "PROCESSED"
    assert kit.attempts_of(PAID) == 1
    assert kit.error_of(PAID) is None
    assert (kit.parked, kit.waiting, kit.dead, kit.duplicates, kit.ignored) == ([], [], [], 0, 0)


async def test_a_published_event_tells_its_cause_its_flow_and_its_key() -> None:
    kit = ConsumerKit(warehouse()[0])
    paid = new_event(PAID, correlation_id="flow-7")
    await kit.deliver(paid)
    (reserved,) = kit.published_events
    assert (reserved.causation_id, reserved.correlation_id, reserved.key) == (paid.id, "flow-7", "o-1")
    assert (reserved.type, reserved.source) == ("stock.reserved", "/shop")


async def test_a_duplicate_has_no_effect_and_is_counted() -> None:
    consumer, seen = warehouse()
    kit = ConsumerKit(consumer)
    (paid,) = await kit.deliver(PAID, times=3)
    assert (seen, kit.duplicates) == (["o-1#0"], 2)
    await kit.deliver(paid)
    assert (seen, kit.duplicates) == (["o-1#0"], 3)
    assert kit.published == [StockReserved(order_id="o-1")]


async def test_the_same_data_twice_are_two_events(caplog: pytest.LogCaptureFixture) -> None:
    consumer, seen = warehouse()
    kit = ConsumerKit(consumer)
    await kit.deliver(PAID, PAID)
    assert (seen, kit.duplicates) == (["o-1#0", "o-1#0"], 0)
    assert caplog.text == ""


async def test_an_event_is_told_by_source_and_id_together() -> None:
    consumer, seen = warehouse()
    kit = ConsumerKit(consumer)
    here = new_event(PAID, id="17")
    elsewhere = Event(**{name: getattr(here, name) for name in here.__slots__} | {"source": "/other"})
    await kit.deliver(here, elsewhere)
    assert (len(seen), kit.duplicates) == (2, 0)


async def test_a_sequence_delivered_twice_comes_around_again_as_a_whole() -> None:
    consumer, seen = warehouse()
    kit = ConsumerKit(consumer)
    events = await kit.deliver(OrderPaid(order_id="a"), OrderPaid(order_id="b"), times=2)
    assert [event.key for event in events] == ["a", "b"]
    assert (seen, kit.duplicates) == (["a#0", "b#0"], 2)


async def test_a_type_without_a_handler_is_ignored_and_counted() -> None:
    kit = ConsumerKit(warehouse()[0])
    await kit.deliver(OrderCancelled(order_id="o-1"), times=2)
    assert kit.outcome_of(OrderCancelled(order_id="o-1")) == "IGNORED"
    assert (kit.ignored, kit.duplicates, kit.attempts_of(OrderCancelled(order_id="o-1"))) == (2, 0, 0)


async def test_a_version_without_a_handler_is_dead_and_says_which_there_are() -> None:
    kit = ConsumerKit(warehouse()[0])
    await kit.deliver(OrderPaidV2(order_id="o-1", total=5))
    (dead,) = kit.dead
    assert dead.reason == "wrong_version"
    assert "is of version 2, and warehouse has handlers for 1" in str(dead.error)
    assert kit.attempts_of(OrderPaidV2(order_id="o-1", total=5)) == 0


async def test_data_that_do_not_fit_are_refused_as_publishing_them_would_be() -> None:
    kit = ConsumerKit(warehouse()[0])
    with pytest.raises(InvalidEvent, match="number"):
        await kit.deliver(OrderPaid.model_construct(order_id="o-1", number="many"))  # type: ignore[arg-type]
    with pytest.raises(UndeclaredEvent):
        await kit.deliver(type("Undeclared", (EventData,), {})())


async def test_a_handler_that_publishes_what_does_not_fit_has_a_dead_event() -> None:
    consumer = Consumer("warehouse")

    @consumer.on(OrderPaid)
    async def reserve(event: Event[OrderPaid], tx: Transaction) -> None:
        tx.publish(StockReserved(order_id="\x00"))

    kit = ConsumerKit(consumer)
    await kit.deliver(PAID)
    (dead,) = kit.dead
    assert (dead.data, dead.reason, type(dead.error)) == (PAID, "permanent", InvalidEvent)
    assert kit.published == []


async def test_an_event_too_large_for_the_outbox_is_found_out() -> None:
    consumer = Consumer("warehouse")

    @consumer.on(ParcelWeighed)
    async def note(event: Event[ParcelWeighed], tx: Transaction) -> None:
        tx.publish(OrderPaid(order_id="o-1", tags=["x" * 2_000_000]))

    kit = ConsumerKit(consumer)
    await kit.deliver(ParcelWeighed(order_id="o-1"))
    assert [type(dead.error).__name__ for dead in kit.dead] == ["EventTooLarge"]


async def test_each_attempt_gets_an_event_that_no_other_has_touched() -> None:
    consumer, seen = Consumer("warehouse"), []

    @consumer.on(OrderPaid)
    async def reserve(event: Event[OrderPaid], tx: Transaction) -> None:
        event.data.tags.append("seen")
        seen.append(list(event.data.tags))
        raise RuntimeError

    kit = ConsumerKit(consumer)
    await kit.deliver(OrderPaid(order_id="o-1", tags=["new"]))
    await kit.advance()
    assert seen == [["new", "seen"], ["new", "seen"]]


async def test_an_event_has_a_sequence_as_if_the_relay_had_published_it() -> None:
    consumer, seen = Consumer("warehouse"), []

    @consumer.on(OrderPaid)
    async def reserve(event: Event[OrderPaid], tx: Transaction) -> None:
        seen.append(event.sequence)

    await ConsumerKit(consumer).deliver(PAID, PAID)
    assert seen == ["00000000000000000001", "00000000000000000002"]


async def test_shuffling_mixes_keys_and_keeps_each_keys_order() -> None:
    events = [OrderPaid(order_id=order_id, number=number) for number in range(5) for order_id in "abc"]
    orders = []
    for seed in (1, 1, 2):
        consumer, seen = warehouse()
        await ConsumerKit(consumer).deliver_shuffled(*events, seed=seed)
        orders.append(seen)
    straight = [f"{event.order_id}#{event.number}" for event in events]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2] != straight != orders[0]
    for order in orders:
        assert sorted(order) == sorted(straight)
        assert [one for one in order if one[0] == "a"] == ["a#0", "a#1", "a#2", "a#3", "a#4"]


async def test_asking_for_an_event_that_was_never_delivered_is_a_mistake() -> None:
    kit = ConsumerKit(warehouse()[0])
    with pytest.raises(KitMisuse, match="never delivered"):
        kit.outcome_of(PAID)
    with pytest.raises(KitMisuse, match="never delivered"):
        kit.outcome_of(new_event(PAID))


async def test_asking_by_data_that_two_events_have_is_a_mistake() -> None:
    kit = ConsumerKit(warehouse()[0])
    first, _ = await kit.deliver(PAID, PAID)
    with pytest.raises(KitMisuse, match="2 events with the data"):
        kit.outcome_of(PAID)
    assert kit.outcome_of(first) == "PROCESSED"


async def test_the_kit_tells_its_story_when_an_assertion_shows_it() -> None:
    kit = ConsumerKit(warehouse()[0])
    assert repr(kit) == "<ConsumerKit warehouse: nothing delivered>"
    kit.fail("reserve", error=Permanent("no such article"))
    await kit.deliver(OrderPaid(order_id="a"), OrderPaid(order_id="b"))
    assert repr(kit) == "<ConsumerKit warehouse: 1 DEAD, 1 PROCESSED, order.paid raised Permanent('no such article')>"


async def test_where_a_handler_failed_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    consumer, _ = warehouse()

    @consumer.on(ParcelWeighed)
    async def weigh(event: Event[ParcelWeighed], tx: Transaction) -> None:
        raise ZeroDivisionError("on the scales")

    await ConsumerKit(consumer).deliver(ParcelWeighed(order_id="o-1"))
    assert "parcel.weighed failed in weigh" in caplog.text
    assert "ZeroDivisionError: on the scales" in caplog.text


async def test_what_is_published_belongs_to_the_trace_of_the_event() -> None:
    kit = ConsumerKit(warehouse()[0])
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    await kit.deliver(new_event(PAID, traceparent=f"00-{trace}-00f067aa0ba902b7-01"))
    assert trace in (kit.published_events[0].traceparent or "")
