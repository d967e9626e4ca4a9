"""What an event type is: a name and version, the model of its data, and where its events go.

`EventData` is the base of all event data. `event_type_of` finds the declaration of a class or of data, and only of
exactly that class: a subclass nobody declared has another shape, and publishing it under its parent's name would break
readers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from surefoot.errors import InvalidEvent, UndeclaredEvent
from surefoot.events.topics import Topic

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
