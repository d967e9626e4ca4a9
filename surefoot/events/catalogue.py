"""The catalogue: every event type and topic of a service, declared once, checked when it is declared.

    orders = Catalogue(source="/orders")
    order_events = orders.topic("order.events")

    @orders.event("order.placed", topic=order_events, key="order_id")
    class OrderPlaced(EventData):
        order_id: str
        total: Money

A mistake here would otherwise show up as an event in the wrong place, so each one is a ConfigurationError at import.

A key decides which events keep their order, so it must be there in every event and have one text form: text, a whole
number or a UUID. An optional field is refused, because all events without it would share one key.
"""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from operator import attrgetter
from typing import Any
from uuid import UUID

from surefoot.errors import ConfigurationError
from surefoot.events.event_type import (
    MIB,
    EventData,
    EventType,
    T,
    Topic,
    check_declared,
    collide,
    declaration_of,
    declare,
)
from surefoot.events.text import is_uri_reference


def key_from_field(cls: type[EventData], field: str, name: str) -> Callable[[Any], str]:
    declared = cls.model_fields.get(field)
    if declared is None:
        there = ", ".join(cls.model_fields) or "none"
        raise ConfigurationError(
            f"The key of {name} is to be the field {field}, which {cls.__qualname__} has not (its fields: {there})."
        )
    get = attrgetter(field)
    match _bare(declared.annotation):
        case t if t is str:
            return get
        case t if t in (int, UUID):
            return lambda data: str(get(data))
        case _:
            raise ConfigurationError(
                f"The key of {name} is to be the field {field}, which is no str, int or UUID: other types have no "
                "single text form, or may be absent. Name another field, or give a function of the data."
            )


def _bare(annotation: Any) -> Any:
    """The type under a NewType or a type alias."""
    while (inner := getattr(annotation, "__supertype__", None) or getattr(annotation, "__value__", None)) is not None:
        annotation = inner
    return annotation


_TYPE_NAME = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+")


class Catalogue:
    def __init__(self, source: str) -> None:
        if not is_uri_reference(source):
            raise ConfigurationError(
                f"{source!r} cannot be the source of events: it must be a URI reference and not empty, such as /orders."
            )
        self.source = source
        self._topics: dict[str, Topic] = {}
        self._types: dict[tuple[str, int], EventType[Any]] = {}

    def topic(
        self,
        name: str,
        *,
        partitions: int = 8,
        retention: timedelta = timedelta(days=7),
        max_record_bytes: int = MIB,
    ) -> Topic:
        """Declare a topic; its dead-letter topic comes with it."""
        topic = Topic(name, partitions, retention, max_record_bytes)
        self._add_topic(topic)
        return topic

    def event(
        self, name: str, *, version: int = 1, topic: Topic, key: str | Callable[[Any], str] | None
    ) -> Callable[[type[T]], type[T]]:
        """Declare the class below as the data of an event type.

        `key` is the name of a field, a function of the data, or None for events that need no order among each other.
        """
        _check_type(name, version)

        def decorate(cls: type[T]) -> type[T]:
            _check_class(cls, name)
            key_of = key_from_field(cls, key, name) if isinstance(key, str) else key
            declared = EventType(name, version, topic, cls, key_of, self.source)
            self._add_topic(topic)
            self._add_type(declared)
            declare(declared)
            return cls

        return decorate

    def include(self, other: "Catalogue") -> None:
        """Take over what the other has declared so far. Including the same twice is harmless."""
        for topic in other._topics.values():
            self._add_topic(topic)
        for event_type in other:
            self._add_type(event_type)

    def find(self, name: str, version: int) -> EventType[Any] | None:
        return self._types.get((name, version))

    def __iter__(self) -> Iterator[EventType[Any]]:
        return iter(tuple(self._types.values()))

    def __len__(self) -> int:
        return len(self._types)

    def topics(self) -> tuple[Topic, ...]:
        """Every topic, each followed by its dead-letter topic, in the order of the topics' names."""
        return tuple(
            each for name in sorted(self._topics) for each in (self._topics[name], self._topics[name].dead_letters)
        )

    def _add_topic(self, topic: Topic) -> None:
        check_declared(topic)
        known = self._topics.get(topic.name)
        if known is not None and known != topic:
            raise ConfigurationError(
                f"Topic {topic.name} is declared twice, with {_settings(known)} and with {_settings(topic)}: "
                "declare it once and use that declaration everywhere."
            )
        for name in self._topics:
            if collide(name, topic.name):
                raise ConfigurationError(
                    f"Topics {name} and {topic.name} differ only in dots and underscores, and Kafka refuses to have "
                    "both: rename one."
                )
        self._topics[topic.name] = topic

    def _add_type(self, event_type: EventType[Any]) -> None:
        known = self._types.setdefault((event_type.name, event_type.version), event_type)
        if known is not event_type:
            raise ConfigurationError(
                f"{event_type.name} version {event_type.version} is declared twice, by {known.model.__qualname__} and "
                f"by {event_type.model.__qualname__}: raise the version or choose another name."
            )


def _check_type(name: str, version: int) -> None:
    if not _TYPE_NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} is no name for an event type: use lowercase words of letters, digits and underscores, "
            "joined by dots, such as order.placed."
        )
    if isinstance(version, bool) or version < 1:
        raise ConfigurationError(f"{name} is declared with version {version}: versions start at 1.")


def _check_class(cls: object, name: str) -> None:
    if not (isinstance(cls, type) and issubclass(cls, EventData)):
        raise ConfigurationError(
            f"What is declared as {name} is no subclass of EventData, so its data could not be checked: derive it."
        )
    known = declaration_of(cls)
    if known is not None:
        raise ConfigurationError(
            f"{cls.__qualname__} is declared twice, as {known.name} version {known.version} and as {name}: "
            "make a class of its own for each."
        )
    # Annotations that name something defined further down leave the model unfinished: nothing could be checked by it.
    if not cls.__pydantic_complete__ and not cls.model_rebuild(raise_errors=False):
        raise ConfigurationError(
            f"{cls.__qualname__} ({name}) mentions a type that is not defined yet: define that one above the class."
        )


def _settings(topic: Topic) -> str:
    return f"{topic.partitions} partitions, kept {topic.retention}, records of {topic.max_record_bytes} bytes"
