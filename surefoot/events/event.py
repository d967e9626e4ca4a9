"""An event: typed data in a frozen CloudEvents envelope.

`new_event` fills in what a publisher need not think about: an id that sorts by time, the key by the type's declaration,
the flow it belongs to. `encode_data` gives the bytes of its data, checked as a reader will see them; `binding.encode`
gives the rest.

A model says that it is valid, but a list in it may have been changed since, or it was made with `model_construct`. So
`encode_data` reads the JSON back through the model: what is refused there is an error in the publisher's own
transaction, what slips through is a dead letter in front of every consumer. The sentences name a field and never show
its value, because more people read logs and dead letters than may read the data.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Generic, Literal, TypeVar, cast, get_args

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError
from pydantic_core.core_schema import ErrorType
from uuid_utils import uuid7

from surefoot.errors import InvalidEvent, SurefootError
from surefoot.events.event_type import EventData, T, event_type_of
from surefoot.events.text import has_forbidden, has_non_finite, has_nul

MAX_FIELD_CHARACTERS = 200

# Pydantic's own messages say what was expected. These few may quote what was found, or are somebody else's words.
_MAY_QUOTE = {"value_error", "assertion_error", "union_tag_invalid", "get_attribute_error", "mapping_type"}
_SAFE = frozenset(get_args(ErrorType)) - _MAY_QUOTE


def first_problem(error: ValidationError) -> str:
    """The first problem, as `field: what was expected`."""
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"])[:MAX_FIELD_CHARACTERS] or "the data as a whole"
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, SurefootError):  # our own, Money's for one, which are written to this rule
        return f"{field}: {cause}"
    if first["type"] in _SAFE:
        return f"{field}: {first['msg']}."
    return f"{field}: refused by a check of its own."


def is_broken_json(error: ValidationError) -> bool:
    """Whether the text could not be read as JSON at all."""
    return error.errors(include_url=False, include_input=False)[0]["type"] == "json_invalid"


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


T_co = TypeVar("T_co", bound=EventData, covariant=True)


@dataclass(frozen=True, slots=True)
class Event(Generic[T_co]):
    data: T_co
    id: str
    source: str
    type: str
    version: int
    time: datetime
    """Aware, in UTC."""
    key: str
    """Events of one source, topic and key take effect in the order they were committed."""
    correlation_id: str | None
    """The flow: the same for everything that follows from one beginning."""
    causation_id: str | None
    """The id of the event or command that caused this one."""
    sequence: str | None
    """Rising per key, zero-padded; set when the event is published, if at all."""
    traceparent: str | None
    tracestate: str | None
    subject: str | None = None
    extensions: Mapping[str, str] = field(default_factory=dict, hash=False)


def new_event(
    data: T,
    *,
    id: str | None = None,  # noqa: A002 - the attribute's own name
    time: datetime | None = None,
    key: str | None = None,
    correlation_id: str | None = None,
    caused_by: Event[EventData] | None = None,
    traceparent: str | None = None,
    tracestate: str | None = None,
    extensions: Mapping[str, str] | None = None,
) -> Event[T]:
    declared = event_type_of(data)
    event_id = str(uuid7()) if id is None else id
    if caused_by is not None and correlation_id is None:
        correlation_id = caused_by.correlation_id or caused_by.id
    if key is None:
        key = declared.key_of(data)
    return Event(
        data=data,
        id=event_id,
        source=declared.source,
        type=declared.name,
        version=declared.version,
        time=datetime.now(UTC) if time is None else _utc(time),
        key=event_id if key is None else key,
        correlation_id=event_id if correlation_id is None else correlation_id,
        causation_id=None if caused_by is None else caused_by.id,
        sequence=None,
        traceparent=traceparent,
        tracestate=tracestate,
        extensions={} if extensions is None else dict(extensions),
    )


def encode_data(event: Event[EventData]) -> bytes:
    """The JSON bytes of the data; raises InvalidEvent naming what a reader, or Postgres, could not take."""
    check_attributes(event)
    declared = event_type_of(event.data)
    if (declared.name, declared.version) != (event.type, event.version):
        raise InvalidEvent(
            f"The event says that it is {event.type} version {event.version}, and its data are declared as "
            f"{declared.name} version {declared.version}: make it with new_event."
        )
    return encode_model(event.data, event.type)


def check_attributes(event: Event[EventData]) -> None:
    """Refuse what we would refuse to read: control characters, and an empty id, key or subject."""
    if not event.id.strip() or not event.key or event.subject == "":
        empty = "id" if not event.id.strip() else "subject" if event.key else "key"
        raise InvalidEvent(f"The {event.type} event has an empty {empty}: give it one, or leave it out.")
    flow = (event.correlation_id, event.causation_id, event.sequence, event.traceparent, event.tracestate)
    texts = (event.id, event.key, event.source, event.type, event.subject, *flow, *event.extensions.values())
    try:
        together = "".join([text for text in texts if text is not None])
    except TypeError:
        raise InvalidEvent(
            f"An attribute of the {event.type} event (its key, an id, an extension) is not a text: make it one."
        ) from None
    # isprintable is a single quick pass, and true of all but the rarest attributes.
    if not together.isprintable() and has_forbidden(together):
        raise InvalidEvent(
            f"An attribute of the {event.type} event (its key, an id, an extension) has a NUL or another control "
            "character, which CloudEvents and Postgres refuse: remove it before publishing."
        )


def _utc(time: datetime) -> datetime:
    if time.tzinfo is None:
        raise InvalidEvent(
            "The event's time has no time zone, so nobody else can know when it was: use datetime.now(UTC)."
        )
    return time.astimezone(UTC)


Direction = Literal["do", "undo"]
SAGA, STEP, DIRECTION, ATTEMPT = "sagaid", "sagastep", "sagadirection", "sagaattempt"
MAX_NAME = 200
_ATTEMPT = re.compile("[1-9][0-9]{0,5}")


@dataclass(frozen=True, slots=True)
class Command:
    """Which step of which saga a command belongs to. Saga, step and direction identify it; attempts repeat it."""

    saga_id: str
    step: str
    direction: Direction = "do"
    attempt: int = 1

    def extensions(self) -> Mapping[str, str]:
        """The attributes to send it with."""
        return {SAGA: self.saga_id, STEP: self.step, DIRECTION: self.direction, ATTEMPT: str(self.attempt)}


def command_of(event: Event[EventData]) -> Command | None:
    """What the event says of itself as a command; None if it is none. Raises InvalidEvent if it is half of one."""
    given = event.extensions
    saga_id, step, direction = given.get(SAGA), given.get(STEP), given.get(DIRECTION)
    if saga_id is None and step is None and direction is None:
        return None
    attempt = given.get(ATTEMPT, "1")
    if not saga_id or not step or len(saga_id) > MAX_NAME or len(step) > MAX_NAME:
        raise InvalidEvent(
            f"The command {event.type} does not say which step of which saga it is for: it needs {SAGA} and {STEP}, "
            f"of 1 to {MAX_NAME} characters."
        )
    if direction not in get_args(Direction) or not _ATTEMPT.fullmatch(attempt):
        raise InvalidEvent(
            f"The command {event.type} needs {DIRECTION} to be do or undo, and {ATTEMPT} to be a number above zero."
        )
    return Command(saga_id, step, cast(Direction, direction), int(attempt))
