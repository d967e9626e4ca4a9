"""An event as the outbox stores it.

Pure: everything that can be wrong with an event is found here, before any SQL runs.
"""

from dataclasses import replace
from typing import NamedTuple, TypeVar

import orjson

from surefoot.errors import EventTooLarge, InvalidEvent
from surefoot.events import Event, EventData, event_type_of, new_event
from surefoot.events.binding import header_texts
from surefoot.events.event import encode_data
from surefoot.log.port import key_hash
from surefoot.telemetry.tracing import current_trace

T = TypeVar("T", bound=EventData)

DEFAULT_MAX_BYTES = 1024 * 1024
UUID_BYTES = 16


class Entry(NamedTuple):
    """One row to be written by `outbox_write`, column by column."""

    event_id: str
    key_hash: int
    topic: str
    event_type: str
    key: str
    body: bytes | None
    headers: str


def as_event(
    what: T | Event[T],
    *,
    key: str | None = None,
    caused_by: Event[EventData] | None = None,
    correlation_id: str | None = None,
) -> Event[T]:
    """Data becomes an event, with the trace it is written in; an event is taken as it is."""
    traceparent, tracestate = current_trace()
    if isinstance(what, Event):
        if key is not None or caused_by is not None or correlation_id is not None:
            raise InvalidEvent(
                "Key, cause and correlation are part of an Event: give them when you make it, or add the data alone."
            )
        return what if what.traceparent else replace(what, traceparent=traceparent, tracestate=tracestate)
    return new_event(
        what,
        key=key,
        caused_by=caused_by,
        correlation_id=correlation_id,
        traceparent=traceparent,
        tracestate=tracestate,
    )


def entry_of(event: Event[T], *, max_bytes: int = DEFAULT_MAX_BYTES) -> Entry:
    """The row for an event; raises UndeclaredEvent or InvalidEvent with a sentence."""
    declared = event_type_of(event.data)
    body = encode_data(event)
    headers = orjson.dumps(header_texts(event)).decode()
    limit = min(max_bytes, declared.topic.max_record_bytes)
    # The key goes twice, as the record's key and in a header. The relay adds the sequence: the quotes and brackets of
    # the headers' JSON stand for it.
    size = len(body) + len(headers.encode()) + len(event.key.encode())
    if size > limit:
        raise EventTooLarge(
            f"{declared.name} with key {event.key!r} is {size:,} bytes, and {declared.topic.name} takes {limit:,}. "
            "Store the large part elsewhere and send a reference to it, or raise the topic's max_record_bytes."
        )
    hashed = key_hash(event.key.encode())
    return Entry(_checked(event.id), hashed, declared.topic.name, declared.name, event.key, body, headers)


def _checked(event_id: str) -> str:
    try:
        if len(bytes.fromhex(event_id.replace("-", ""))) == UUID_BYTES:
            return event_id
    except ValueError:
        pass
    raise InvalidEvent(
        f"{event_id!r} cannot be the id of an event in the outbox: it has to be a UUID. Leave it out to get one."
    )
