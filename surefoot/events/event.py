"""An event: typed data in a frozen CloudEvents envelope.

`new_event` fills in what a publisher need not think about: an id that sorts by time, the key by the type's declaration,
the flow it belongs to. `encode_data` gives the bytes of its data, checked as a reader will see them; `binding.encode`
gives the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Generic, TypeVar

from uuid_utils import uuid7

from surefoot.errors import InvalidEvent
from surefoot.events.encoding import encode_model
from surefoot.events.event_type import EventData, T, event_type_of
from surefoot.events.text import has_forbidden

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
