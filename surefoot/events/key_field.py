"""Turns `key="order_id"` of a declaration into a function of the data, or says why that field cannot be a key.

A key decides which events keep their order, so it must be there in every event and have one text form: text, a whole
number or a UUID. An optional field is refused, because all events without it would share one key.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any
from uuid import UUID

from surefoot.errors import ConfigurationError
from surefoot.events.event_type import EventData


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
