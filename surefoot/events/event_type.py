"""What an event type is: a name and version, the model of its data, and where its events go.

`EventData` is the base of all event data. `event_type_of` finds the declaration of a class or of data, and only of
exactly that class: a subclass nobody declared has another shape, and publishing it under its parent's name would break
readers.

A topic is a contract, too: name, partitions, how long and how large. What Kafka would refuse later (a bad name, no
partitions) is refused here, where the mistake was made. `surefoot topics create|check` hold the broker to it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from surefoot.errors import ConfigurationError, InvalidEvent, UndeclaredEvent

DEAD_LETTER_SUFFIX = ".dlq"
MAX_TOPIC_NAME = 249
MIN_DEAD_LETTER_RETENTION = timedelta(days=30)
MIB = 1024 * 1024

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True)
class Topic:
    """Its partitions are fixed once there is data: changing them would split a key between owners."""

    name: str
    partitions: int = 8
    retention: timedelta = timedelta(days=7)
    max_record_bytes: int = MIB

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.partitions < 1:
            raise ConfigurationError(f"Topic {self.name} has {self.partitions} partitions: it needs at least one.")
        if self.retention <= timedelta(0):
            raise ConfigurationError(
                f"Topic {self.name} keeps records for {self.retention}, so none would stay: give a time above zero."
            )
        if self.max_record_bytes < 1:
            raise ConfigurationError(
                f"Topic {self.name} takes records of {self.max_record_bytes} bytes: give a size above zero."
            )

    @property
    def dead_letters(self) -> "Topic":
        """Where its dead events go: twice the size, because a dead letter carries the event and its diagnosis."""
        return Topic(
            name=self.name + DEAD_LETTER_SUFFIX,
            partitions=self.partitions,
            retention=max(MIN_DEAD_LETTER_RETENTION, self.retention),
            max_record_bytes=2 * self.max_record_bytes,
        )


def check_declared(topic: Topic) -> None:
    """Refuse a name that leaves no room for, or looks like, a dead-letter topic."""
    if topic.name.endswith(DEAD_LETTER_SUFFIX):
        raise ConfigurationError(
            f"Topic {topic.name} ends in {DEAD_LETTER_SUFFIX}, which is kept for dead letters: "
            "declare the topic itself, its dead-letter topic comes with it."
        )
    if len(topic.name) + len(DEAD_LETTER_SUFFIX) > MAX_TOPIC_NAME:
        raise ConfigurationError(
            f"Topic {topic.name} has a name of {len(topic.name)} characters, and Kafka takes {MAX_TOPIC_NAME}: leave "
            f"{len(DEAD_LETTER_SUFFIX)} of them for the name of its dead-letter topic."
        )


def collide(one: str, other: str) -> bool:
    """Whether Kafka refuses to have both: its metric names cannot tell a dot from an underscore."""
    return one != other and one.replace(".", "_") == other.replace(".", "_")


def _check_name(name: str) -> None:
    if name in (".", "..") or not _NAME.fullmatch(name) or len(name) > MAX_TOPIC_NAME:
        raise ConfigurationError(
            f"{name!r} is no name for a topic: Kafka takes 1 to {MAX_TOPIC_NAME} letters, digits, dots, underscores "
            "and hyphens, and neither '.' nor '..'."
        )


_DECLARATION = "__surefoot_event_type__"


class EventData(BaseModel):
    """The base of an event's data: frozen, and tolerant of members that a newer writer added."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        allow_inf_nan=False,  # JSON has neither NaN nor infinity
        ser_json_inf_nan="constants",  # so that one which got in unchecked is seen and refused, not turned into null
    )


T = TypeVar("T", bound=EventData)


@dataclass(frozen=True)
class EventType(Generic[T]):
    name: str
    version: int
    topic: Topic
    model: type[T]
    key: Callable[[T], str] | None
    source: str

    @cached_property
    def dataschema(self) -> str:
        return dataschema_of(self.name, self.version)

    def key_of(self, data: T) -> str | None:
        """The key of these data, or None if the type has none: each event then goes under its own id."""
        if self.key is None:
            return None
        key = self.key(data)
        if not isinstance(key, str) or not key:
            raise InvalidEvent(
                f"The key of {self.name} must be a text that is not empty, because events of one key keep their order "
                "and an empty one would put unrelated events behind each other: look at where it comes from."
            )
        return key


def dataschema_of(name: str, version: int) -> str:
    return f"urn:surefoot:{name}:{version}"


def event_type_of(data_or_class: T | type[T]) -> EventType[T]:
    """The declaration of exactly this class; raises UndeclaredEvent if there is none."""
    cls: type[T] = data_or_class if isinstance(data_or_class, type) else type(data_or_class)
    declared = declaration_of(cls)
    if declared is None:
        raise UndeclaredEvent(
            f"{cls.__qualname__} was never declared as an event, so nobody knows its topic, key or shape: "
            "put @catalogue.event(...) above the class itself (a declared parent is not enough)."
        )
    return declared


def declaration_of(cls: type[T]) -> EventType[T] | None:
    declared: EventType[Any] | None = cls.__dict__.get(_DECLARATION)
    return declared


def declare(event_type: EventType[Any]) -> None:
    """Note the declaration on the class. Only a catalogue does this."""
    setattr(event_type.model, _DECLARATION, event_type)
