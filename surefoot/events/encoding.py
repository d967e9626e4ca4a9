"""The bytes of an event's data, checked as a reader will see them.

A model says that it is valid, but a list in it may have been changed since, or it was made with `model_construct`. So
the JSON is read back through the model before anybody commits it: what is refused here is an error in the publisher's
own transaction, what slips through is a dead letter in front of every consumer.
"""

import re

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from surefoot.errors import InvalidEvent
from surefoot.events.event_type import EventData
from surefoot.events.json_text import has_non_finite, has_nul
from surefoot.events.problems import first_problem

_UNEXPECTED_FIELD = re.compile(r"field_name='([^']*)'")


def encode_model(data: EventData, name: str) -> bytes:
    """The JSON of these data; raises InvalidEvent, or FloatMoney, if a reader could not take it."""
    model = type(data)
    try:
        raw = model.__pydantic_serializer__.to_json(data, by_alias=True, warnings="error")
    except PydanticSerializationError as error:
        raise InvalidEvent(f"The data of {name} do not fit its declaration. {_diagnose(data, error)}") from None
    try:
        model.__pydantic_validator__.validate_json(raw)
    except ValidationError as error:
        raise InvalidEvent(
            f"The data of {name} do not fit its declaration. {first_problem(error)} They were changed after they were "
            "made, or made with model_construct: make them anew with the right values."
        ) from None
    if has_nul(raw):
        raise InvalidEvent(
            f"The data of {name} have a NUL character in {_field_with_nul(data)}, which Postgres cannot store as "
            "JSON and which would abort your transaction: remove it before publishing."
        )
    if has_non_finite(raw):
        raise InvalidEvent(f"The data of {name} have a NaN or an infinity, which JSON cannot express: use null.")
    return raw


def _diagnose(data: EventData, error: PydanticSerializationError) -> str:
    """Name the field that could not be written, by validating what is there; then by what pydantic says."""
    try:
        type(data).__pydantic_validator__.validate_python(dict(data.__dict__), strict=True, by_name=True)
    except ValidationError as problem:
        return first_problem(problem)
    named = _UNEXPECTED_FIELD.search(str(error))
    field = named[1] if named else next((name for name in data.__dict__ if _written(data, name) is None), "a field")
    return f"{field}: the value cannot be written as what was declared."


def _field_with_nul(data: EventData) -> str:
    return next((name for name in data.__dict__ if has_nul(_written(data, name) or b"")), "a text")


def _written(data: EventData, field: str) -> bytes | None:
    """One field by itself as JSON, or None if it cannot be written."""
    try:
        return type(data).__pydantic_serializer__.to_json(data, include={field}, warnings=False)
    except PydanticSerializationError:
        return None
