"""Where the kit has a number or a formula of its own, it is the one that the running consumer has."""

from consumers import worker
from consumers.outside import call_keys as real_call_keys
from consumers.reading import Delivery, read
from surefoot.consumer import Consumer
from surefoot.events import Event, EventData, encode, encode_data, new_event
from surefoot.events.commands import Command, command_of
from surefoot.log.port import StoredRecord
from surefoot.testing import consumer_loop
from surefoot.testing.consumer_barriers import call_keys
from tests.unit.consumer.shop import CapturePayment, OrderPaid

consumer = Consumer("carrier")


async def ask(event: object, call: object) -> None: ...


@consumer.on(OrderPaid, outside=ask)
async def noted(event: object, tx: object, result: None) -> None: ...


@consumer.command(CapturePayment, outside=ask)
async def captured(event: object, tx: object, result: None) -> None: ...


def really(event: Event[EventData]) -> tuple[str, str]:
    value = encode_data(event)
    record = StoredRecord("shop.orders", 0, 7, 0, event.key.encode(), value, tuple(encode(event, value)))
    reading = read(record, consumer)
    assert isinstance(reading, Delivery)
    return real_call_keys(reading, consumer.name)


def test_an_outside_call_has_the_key_it_would_have_in_production() -> None:
    for event_id in (None, "i" * 2000):
        event = new_event(OrderPaid(order_id="o-1"), id=event_id)
        assert call_keys("carrier", event, None) == really(event)


def test_a_commands_call_has_the_keys_it_would_have_in_production() -> None:
    undo = Command("s-1", "capture_payment", "undo", 4)
    event = new_event(CapturePayment(order_id="o-1"), extensions=undo.extensions())
    assert call_keys("carrier", event, command_of(event)) == really(event)


def test_deadlocks_begin_to_count_at_the_same_number() -> None:
    assert consumer_loop.FREE_CONTENTIONS + 1 == worker.UNCOUNTED_CONTENTIONS
