"""Who reads a saga's commands, and where. Pure: the functions of a definition say by their types what they send."""

from functools import lru_cache
from typing import get_type_hints

from surefoot.events import EventData, Topic, event_type_of
from surefoot.events.commands import Direction
from surefoot.log.partitioner import key_hash, partition_of
from surefoot.log.port import TopicPartition
from surefoot.saga.definition import Make, Step

Reader = tuple[str, TopicPartition]
"""A consumer's name, and the partition."""


def reader_of(step: Step, direction: Direction, saga_id: str) -> Reader | None:
    """None if the function does not say what it sends."""
    make = step.do if direction == "do" else step.undo
    topic = None if make is None else topic_of(make)
    if topic is None:
        return None
    where = TopicPartition(topic.name, partition_of(key_hash(saga_id.encode()), topic.partitions))
    return step.handled_by or topic.name.split(".", 1)[0], where


@lru_cache(maxsize=4096)
def topic_of(make: Make) -> Topic | None:
    sent = get_type_hints(make).get("return")
    return event_type_of(sent).topic if isinstance(sent, type) and issubclass(sent, EventData) else None
