"""Declaring a consumer: what is registered, and which mistakes are refused at once."""

import functools
from collections.abc import Sequence
from typing import Any

import pytest

from surefoot.consumer import Consumer, Retry, Transaction
from surefoot.consumer.handlers import BatchHandler, CommandHandler, EventHandler, OutsideHandler, same_function
from surefoot.errors import ConfigurationError, UndeclaredEvent
from surefoot.events import Event, EventData, event_type_of
from tests.support.corpus import each_of
from tests.support.shop_types import CapturePayment, OrderCancelled, OrderPaid, OrderPaidV2, ParcelWeighed


async def handle(event: Event[EventData], tx: Transaction) -> None: ...


async def handle_all(events: Sequence[Event[Any]], tx: Transaction) -> None: ...


async def ask(event: Event[EventData], call: object) -> str:
    return ""


async def finish(event: Event[EventData], tx: Transaction, result: str) -> None: ...


def test_a_handler_is_found_by_type_and_version() -> None:
    warehouse = Consumer("warehouse")
    assert warehouse.on(OrderPaid)(handle) is handle
    found = warehouse.handler("order.paid", 1)
    assert isinstance(found, EventHandler)
    assert (found.name, found.function, found.event_type.model) == ("handle", handle, OrderPaid)
    assert warehouse.handler("order.paid", 2) is None
    assert warehouse.handler("order.cancelled", 1) is None


def test_an_event_that_does_not_say_its_version_is_taken_as_the_oldest() -> None:
    warehouse = Consumer("warehouse")
    warehouse.on(OrderPaidV2)(handle)
    warehouse.on(OrderPaid)(handle)
    found = warehouse.handler("order.paid", None)
    assert found is not None
    assert found.event_type.version == 1
    assert warehouse.versions("order.paid") == (1, 2)
    assert warehouse.handler("order.cancelled", None) is None


def test_a_consumer_handles_a_type_if_it_handles_any_version_of_it() -> None:
    warehouse = Consumer("warehouse")
    warehouse.on(OrderPaidV2)(handle)
    assert warehouse.handles("order.paid")
    assert not warehouse.handles("order.cancelled")
    assert warehouse.versions("order.cancelled") == ()


def test_a_consumer_reads_the_topics_of_its_events_each_once() -> None:
    warehouse = Consumer("warehouse")
    for event in (ParcelWeighed, OrderPaid, OrderCancelled):
        warehouse.on(event)(handle)
    assert [topic.name for topic in warehouse.topics] == ["shop.orders", "shop.parcels"]
    assert [handler.event_type.model for handler in warehouse.handlers] == [ParcelWeighed, OrderPaid, OrderCancelled]


def test_each_kind_of_handler_is_kept_as_what_it_is() -> None:
    payments = Consumer("payments")
    payments.on_batch(ParcelWeighed)(handle)
    payments.command(CapturePayment)(handle)
    payments.on(OrderPaid, outside=ask, prepare=handle)(finish)
    batch, command, outside = payments.handlers
    assert isinstance(batch, BatchHandler)
    assert isinstance(command, CommandHandler)
    assert isinstance(outside, OutsideHandler)
    assert (outside.name, outside.call, outside.prepare, outside.finish) == ("finish", ask, handle, finish)
    assert outside.command is False


def test_a_batch_handler_is_kept_for_each_of_its_types_with_one_function() -> None:
    warehouse = Consumer("warehouse")
    assert warehouse.on_batch(OrderPaid, OrderPaidV2, ParcelWeighed)(handle_all) is handle_all
    kept = [
        warehouse.handler("order.paid", 1),
        warehouse.handler("order.paid", 2),
        warehouse.handler("parcel.weighed", 1),
    ]
    assert [one.event_type.model for one in kept if one is not None] == [OrderPaid, OrderPaidV2, ParcelWeighed]
    assert all(isinstance(one, BatchHandler) and one.function is handle_all for one in kept)
    assert [topic.name for topic in warehouse.topics] == ["shop.orders", "shop.parcels"]
    assert warehouse.versions("order.paid") == (1, 2)


def test_a_batch_handler_for_no_type_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match=r"warehouse: on_batch\(\) names no type .* such as on_batch\(OrderPaid\)"
    ):
        Consumer("warehouse").on_batch()


def test_a_batch_decorator_without_its_types_is_refused_at_once() -> None:
    with pytest.raises(UndeclaredEvent):
        Consumer("warehouse").on_batch(handle)  # type: ignore[arg-type]


def test_a_batch_handler_that_is_second_for_one_of_its_types_is_kept_for_none() -> None:
    warehouse = Consumer("warehouse")
    warehouse.on(OrderCancelled)(handle)

    async def both(events: Any, tx: Any) -> None: ...

    with pytest.raises(ConfigurationError, match=r"order\.cancelled version 1, handle and both"):
        warehouse.on_batch(OrderPaid, OrderCancelled)(both)
    assert not warehouse.handles("order.paid")
    assert [handler.event_type.model for handler in warehouse.handlers] == [OrderCancelled]


def test_a_type_named_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"two handlers for order\.paid version 1"):
        Consumer("warehouse").on_batch(OrderPaid, OrderPaid)(handle)


def test_only_batch_handlers_of_one_function_share_their_runs() -> None:
    class Shelf:
        async def fill(self, events: Any, tx: Any) -> None: ...

    shelf = Shelf()
    paid, cancelled = event_type_of(OrderPaid), event_type_of(OrderCancelled)
    one = BatchHandler(paid, "fill", shelf.fill)
    assert same_function(one, BatchHandler(cancelled, "fill", shelf.fill))
    assert not same_function(one, BatchHandler(cancelled, "fill", Shelf().fill))
    assert not same_function(one, EventHandler(cancelled, "fill", shelf.fill))
    assert not same_function(EventHandler(paid, "fill", shelf.fill), EventHandler(cancelled, "fill", shelf.fill))
    assert not same_function(one, None)


def test_a_command_with_an_outside_call_is_still_a_command() -> None:
    payments = Consumer("payments")
    payments.command(CapturePayment, outside=ask)(finish)
    (handler,) = payments.handlers
    assert isinstance(handler, OutsideHandler)
    assert handler.command
    assert handler.prepare is None


def test_what_the_consumer_says_of_exceptions_is_kept() -> None:
    rules = Consumer("payments", permanent=[KeyError], transient=[OSError], dependencies=[EOFError]).rules
    assert (rules.of(KeyError()), rules.of(OSError()), rules.of(EOFError())) == ("permanent", "transient", "dependency")


def test_by_default_an_event_is_tried_five_times_and_then_holds_its_key() -> None:
    warehouse = Consumer("warehouse")
    assert (warehouse.retry, warehouse.when_dead) == (Retry(attempts=5), "hold")


@each_of("name", ["", "Warehouse", "-warehouse", "ware house", "w" * 101, "warehouse\n"])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is no name for a consumer"):
        Consumer(name)


def test_a_name_of_a_hundred_characters_is_taken() -> None:
    assert Consumer("w" * 100).name == "w" * 100


def test_when_dead_is_hold_or_release() -> None:
    with pytest.raises(ConfigurationError, match="neither 'hold' nor 'release'"):
        Consumer("warehouse", when_dead="drop")  # type: ignore[arg-type]


def test_two_handlers_for_one_type_are_refused() -> None:
    warehouse = Consumer("warehouse")
    warehouse.on(OrderPaid)(handle)

    async def other(event: Event[OrderPaid], tx: Transaction) -> None: ...

    with pytest.raises(ConfigurationError, match=r"order\.paid version 1, handle and other"):
        warehouse.on(OrderPaid)(other)


def test_an_undeclared_type_is_refused() -> None:
    class Undeclared(EventData): ...

    with pytest.raises(UndeclaredEvent):
        Consumer("warehouse").on(Undeclared)(handle)


def test_a_function_that_is_not_async_is_refused() -> None:
    def handle_it(event: Any, tx: Any) -> None: ...

    with pytest.raises(ConfigurationError, match="handle_it is no `async def` function"):
        Consumer("warehouse").on(OrderPaid)(handle_it)


@pytest.mark.parametrize("register", [Consumer("a").on, Consumer("a").on_batch, Consumer("a").command])
def test_a_handler_that_does_not_take_its_arguments_is_refused(register: Any) -> None:
    async def lonely(event: Any) -> None: ...

    with pytest.raises(ConfigurationError, match=r"lonely is called with 2 arguments, such as \(event, tx\)"):
        register(OrderPaid)(lonely)


def test_a_handler_after_an_outside_call_takes_its_result() -> None:
    with pytest.raises(ConfigurationError, match=r"3 arguments, such as \(event, tx, result\)"):
        Consumer("warehouse").on(OrderPaid, outside=ask)(handle)


def test_the_outside_call_and_its_prepare_are_checked_as_well() -> None:
    async def lonely(event: Any) -> None: ...

    with pytest.raises(ConfigurationError, match="lonely is called with 2 arguments"):
        Consumer("warehouse").on(OrderPaid, outside=lonely)(finish)
    with pytest.raises(ConfigurationError, match="lonely is called with 2 arguments"):
        Consumer("warehouse").on(OrderPaid, outside=ask, prepare=lonely)(finish)


def test_a_call_made_of_another_function_is_taken() -> None:
    async def ask_at(address: str, event: Any, call: Any) -> str:
        return address

    payments = Consumer("payments")
    payments.on(OrderPaid, outside=functools.partial(ask_at, "here"))(finish)
    assert len(payments.handlers) == 1


def test_prepare_without_a_call_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="prepare= without outside="):
        Consumer("warehouse").on(OrderPaid, prepare=handle)(handle)


def test_a_refused_handler_leaves_nothing_behind() -> None:
    warehouse = Consumer("warehouse")
    with pytest.raises(ConfigurationError):
        warehouse.on(OrderPaid, prepare=handle)(handle)
    assert not warehouse.handles("order.paid")
    assert warehouse.topics == ()
