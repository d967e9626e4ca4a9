"""The keys of outside calls: the same at every attempt and on every machine, another for every other call."""

import pytest

from surefoot.consumer import Permanent
from surefoot.consumer.handlers import call_keys, prepared_json
from surefoot.events import Event, EventData, new_event
from surefoot.events.event import command_of
from tests.support.consumer.stock_commands import release, reserve
from tests.support.event_types import ThingHappened
from tests.support.shop_types import ReserveStock


def keys(event: Event[EventData], *, of: str = "payments") -> tuple[str, str]:
    return call_keys(of, event, command_of(event))


def test_an_events_key_depends_on_the_event_and_the_consumer() -> None:
    event = new_event(ThingHappened(thing_id="a"))
    assert keys(event)[0] == keys(event)[1]
    assert keys(event) != keys(event, of="billing")
    assert keys(event) != keys(new_event(ThingHappened(thing_id="a")))


def test_a_commands_key_depends_on_saga_and_step_and_not_on_the_attempt() -> None:
    assert keys(reserve("s1", attempt=1)) == keys(reserve("s1", attempt=2))
    assert keys(reserve("s1")) != keys(reserve("s2"))


def test_an_undo_has_a_key_of_its_own_and_knows_the_dos() -> None:
    do_key, same = keys(reserve("s1"))
    undo_key, undone = keys(release("s1"))
    assert do_key == same == undone
    assert undo_key != do_key


def test_a_command_of_no_saga_has_a_key_by_its_event() -> None:
    first, second = new_event(ReserveStock(order_id="s1")), new_event(ReserveStock(order_id="s1"))
    assert keys(first) != keys(second)


def test_the_keys_are_the_same_in_every_release() -> None:
    """A provider remembers them for longer than a deployment takes."""
    event = new_event(ThingHappened(thing_id="a"), id="0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b11")
    assert keys(event)[0] == "02f46647-d71b-53b3-bdff-acb0c8152d74"
    assert keys(release("s1")) == ("80e526c1-1054-5347-a89f-6d0b4f8b53b3", "e9478c77-37a1-5d0c-b754-3d5240f4c5de")


async def prepare(*_: object) -> None: ...


@pytest.mark.parametrize("given", [object(), float("nan"), {"price": float("inf")}, {"raw": b"\xff"}])
def test_what_json_cannot_keep_is_refused_when_it_is_prepared(given: object) -> None:
    with pytest.raises(Permanent, match="cannot be kept as JSON"):
        prepared_json(given, prepare)


def test_what_json_can_keep_is_kept() -> None:
    assert prepared_json({"amount": 100, "to": ThingHappened(thing_id="ä")}, prepare) == (
        '{"amount":100,"to":{"thing_id":"ä","number":0,"note":""}}'
    )
