"""A control record is what the page on the wire format says, goes where the event came from, and never changes."""

import base64
import json

import pytest

from surefoot.consumer.contracts import Action, Control, Replacement
from surefoot.dlq.jobs.controls import CannotBeTold, Item, control_of, lane_of
from surefoot.events import decode
from surefoot.log.port import TopicPartition

ITEM = Item(
    number=7,
    control_id="0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b11",
    action="replay",
    consumer="warehouse",
    source="/orders",
    event_id="e-1",
    topic="order.events",
    partition=3,
    key="order-9",
    record_key=b"order-9",
    by="Ada",
    why="the price list is there now",
)


def test_a_replay_names_the_event_who_decided_and_why() -> None:
    _, record = control_of(ITEM)
    assert json.loads(record.value or b"") == {
        "action": "replay",
        "consumer": "warehouse",
        "source": "/orders",
        "event_id": "e-1",
        "by": "Ada",
        "why": "the price list is there now",
    }
    assert dict(record.headers) == {
        "ce_specversion": b"1.0",
        "ce_id": b"0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b11",
        "ce_source": b"/surefoot/dlq",
        "ce_type": b"dlq.control",
        "content-type": b"application/json",
        "surefoot-target": b"warehouse",
    }


def test_it_goes_to_the_topic_and_partition_that_the_event_came_from() -> None:
    where, _ = control_of(ITEM)
    assert where == TopicPartition("order.events", 3)


@pytest.mark.parametrize(("record_key", "expected"), [(b"\xff\x00raw", b"\xff\x00raw"), (None, b"order-9")])
def test_its_key_is_that_of_the_record_or_else_the_text_that_stands_for_it(
    record_key: bytes | None, expected: bytes
) -> None:
    _, record = control_of(_with(record_key=record_key))
    assert record.key == expected


def test_a_repeat_is_the_same_to_the_byte() -> None:
    assert control_of(ITEM) == control_of(ITEM)


@pytest.mark.parametrize("action", ["replay", "discard", "supersede", "inspect"])
def test_a_consumer_can_read_it(action: Action) -> None:
    replacement = Replacement(value=None, headers=(("ce_id", base64.b64encode(b"new").decode()),))
    _, record = control_of(_with(action=action, replacement=replacement if action == "supersede" else None))
    envelope = decode(record.headers, record.value, record.key)
    control = Control.model_validate_json(envelope.data or b"")
    assert (envelope.type, envelope.id, control.action) == ("dlq.control", ITEM.control_id, action)
    assert control.replacement == (replacement if action == "supersede" else None)


def test_texts_that_people_gave_are_made_fit_to_be_read() -> None:
    _, record = control_of(_with(by="", why="because\x00 of this"))
    data = json.loads(record.value or b"")
    assert (data["by"], data["why"]) == ("unknown", "because� of this")


@pytest.mark.parametrize("topic", ["", "a b", "..", "x" * 250, "a/b"])
def test_there_is_no_way_to_tell_what_came_from_a_topic_that_cannot_be(topic: str) -> None:
    with pytest.raises(CannotBeTold, match="There can be no topic"):
        control_of(_with(topic=topic))


@pytest.mark.parametrize("changed", [{"event_id": ""}, {"source": "x" * 1201}, {"event_id": "a\x00b"}])
def test_there_is_no_way_to_tell_of_what_a_consumer_could_not_read(changed: dict[str, object]) -> None:
    with pytest.raises(CannotBeTold):
        control_of(_with(**changed))


def test_a_lane_is_a_key_of_a_partition_for_a_consumer() -> None:
    assert lane_of("warehouse", "order.events", 3, "order-9") == "warehouse/order.events/3/order-9"
    assert lane_of("billing", "order.events", 3, "order-9") != lane_of("warehouse", "order.events", 3, "order-9")


def _with(**changes: object) -> Item:
    given = {name: getattr(ITEM, name) for name in ITEM.__dataclass_fields__}
    return Item(**{**given, **changes})
