"""From an item of a job and its dead letter to the control record that tells the consumer, and where it goes. Pure.

The record is the same whenever it is made: a repeat has the same id, and the consumer drops it.
"""

import re
from dataclasses import dataclass

from pydantic import ValidationError

from surefoot.consumer.contracts import CONTROL_TYPE, TARGET_HEADER, Action, Control, Replacement
from surefoot.errors import SurefootError
from surefoot.events.text import printable
from surefoot.log.port import Record, TopicPartition

CONTROL_SOURCE = "/surefoot/dlq"
MAX_BY = 500
MAX_WHY = 4000
_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
"""What Kafka takes for a topic's name. Asked for another, it does not say that there is none."""


class CannotBeTold(SurefootError):
    """The letter was written by somebody who writes letters differently, and no consumer can be told of it."""


@dataclass(frozen=True, slots=True)
class Item:
    """A dead letter that a job is about to tell its consumer of."""

    number: int
    control_id: str
    action: Action
    consumer: str
    source: str
    event_id: str
    topic: str
    partition: int
    key: str
    record_key: bytes | None
    by: str
    why: str
    replacement: Replacement | None = None


def control_of(item: Item) -> tuple[TopicPartition, Record]:
    """To the topic and partition that the event came from. Raises CannotBeTold if there is no way to say it."""
    if _TOPIC.fullmatch(item.topic) is None:
        raise CannotBeTold(
            f"There can be no topic {item.topic!r}, so nobody can be told: look at who wrote the letter."
        )
    try:
        control = Control(
            action=item.action,
            consumer=item.consumer,
            source=item.source,
            event_id=item.event_id,
            by=printable(item.by, MAX_BY) or "unknown",
            why=printable(item.why, MAX_WHY) or "no reason was given",
            replacement=item.replacement,
        )
    except ValidationError as error:
        raise CannotBeTold from error
    headers = [
        ("ce_specversion", "1.0"),
        ("ce_id", item.control_id),
        ("ce_source", CONTROL_SOURCE),
        ("ce_type", CONTROL_TYPE),
        ("content-type", "application/json"),
        (TARGET_HEADER, item.consumer),
    ]
    key = item.key.encode() if item.record_key is None else item.record_key
    value = control.model_dump_json(exclude={"replacement"} if item.replacement is None else None)
    record = Record(key, value.encode(), [(name, text.encode()) for name, text in headers])
    return TopicPartition(item.topic, item.partition), record


def lane_of(consumer: str, topic: str, partition: int, key: str) -> str:
    """What a consumer works off one by one: of a lane one item is under way at a time."""
    return f"{consumer}/{topic}/{partition}/{key}"
