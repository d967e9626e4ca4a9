"""CloudEvents 1.0 on Kafka: events to records in binary mode, records of either mode to events.

It is our own and strict, because a lenient reader turns a broken record into a different event; the tests hold it to
the published features and to the SDK as an independent peer. Nothing is ever repaired: a record is an event, or it is a
BadRecord with a reason, which the consumer dead-letters with its bytes untouched.
"""

import re
from collections.abc import Sequence
from types import MappingProxyType

from surefoot.errors import InvalidEvent
from surefoot.events import structured
from surefoot.events.envelope import NAMED_ATTRIBUTES, USUAL_ATTRIBUTES, BadRecord, BadRecordReason, Envelope, check
from surefoot.events.event import Event, check_attributes
from surefoot.events.event_type import EventData, dataschema_of
from surefoot.events.reading import to_event, version_of
from surefoot.events.text import format_time, is_extension_name

__all__ = ["BadRecord", "BadRecordReason", "Envelope", "decode", "encode", "to_event", "version_of"]

MAX_HEADERS = 256
CONTENT_TYPE = "content-type"
_PREFIX = "ce_"
_STRUCTURED = "application/cloudevents"
_ATTRIBUTES = {_PREFIX + name: name for name in USUAL_ATTRIBUTES}


def encode(event: Event[EventData], data: bytes) -> list[tuple[str, bytes]]:
    """The record's headers in binary mode. `data`, from encode_data, is the record's value as it is."""
    check_attributes(event)
    return [(name, value.encode()) for name, value in header_texts(event)]


def header_texts(event: Event[EventData]) -> list[tuple[str, str]]:
    """The same headers as text, for an event whose attributes have been checked (encode_data does)."""
    if event.time.tzinfo is None:
        raise InvalidEvent(f"The time of the {event.type} event has no time zone: use datetime.now(UTC).")
    attributes: tuple[tuple[str, str | None], ...] = (
        ("ce_specversion", "1.0"),
        ("ce_id", event.id),
        ("ce_source", event.source),
        ("ce_type", event.type),
        ("ce_time", format_time(event.time)),
        ("ce_dataschema", dataschema_of(event.type, event.version)),
        ("ce_subject", event.subject),
        ("ce_partitionkey", event.key),
        ("ce_correlationid", event.correlation_id),
        ("ce_causationid", event.causation_id),
        ("ce_sequence", event.sequence),
        ("ce_traceparent", event.traceparent),
        ("ce_tracestate", event.tracestate),
    )
    headers = [(name, value) for name, value in attributes if value is not None]
    for name, value in event.extensions.items():
        if not is_extension_name(name) or name in NAMED_ATTRIBUTES:
            raise InvalidEvent(
                f"{name!r} cannot be an extension of the {event.type} event: a name is 1 to 20 lowercase letters and "
                "digits, and none of the attributes that are set already."
            )
        headers.append((_PREFIX + name, value))
    headers.append((CONTENT_TYPE, "application/json"))
    return headers


def decode(headers: Sequence[tuple[str, bytes | None]], value: bytes | None, key: bytes | None = None) -> Envelope:
    """The event in a record, or a BadRecord. Headers that are not CloudEvents' may hold anything and are left alone."""
    if len(headers) > MAX_HEADERS:
        raise BadRecord(
            "too_many_headers",
            f"The record has {len(headers)} headers, and {MAX_HEADERS} are allowed: look at its producer.",
        )
    content_type = _content_type(headers)
    if content_type is not None and content_type.lower().startswith(_STRUCTURED):
        attributes, data = structured.read(_json_value(content_type, value))
    else:
        attributes, data = _binary_attributes(headers, value), value
        if content_type is not None:
            if "datacontenttype" in attributes:
                raise _doubled()
            attributes["datacontenttype"] = content_type
    time = check(attributes)
    return Envelope(MappingProxyType(attributes), data, key, time)


def _content_type(headers: Sequence[tuple[str, bytes | None]]) -> str | None:
    found = [
        value
        for name, value in headers
        if len(name) == len(CONTENT_TYPE) and value is not None and name.lower() == CONTENT_TYPE
    ]
    if len(found) > 1:
        raise BadRecord("duplicate_attribute", "The record has two content-type headers: look at its producer.")
    try:
        return found[0].decode() if found else None
    except UnicodeDecodeError:
        raise _not_utf8(CONTENT_TYPE) from None


def _binary_attributes(headers: Sequence[tuple[str, bytes | None]], value: bytes | None) -> dict[str, str]:
    attributes: dict[str, str] = {}
    for header, raw in headers:
        name = _ATTRIBUTES.get(header)
        if name is None and header.startswith(_PREFIX):
            name = header[len(_PREFIX) :]
        if name is None or raw is None:  # a null header is an attribute that is not set
            continue
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            raise _not_utf8(header) from None
        if name in attributes:
            raise _doubled()
        attributes[name] = text
    if attributes:
        return attributes
    if value is None:
        raise BadRecord("null_value", "The record is a tombstone: it has no value and no CloudEvents headers.")
    raise BadRecord(
        "not_an_event",
        "The record has no CloudEvents headers (ce_id and others) and no content-type application/cloudevents+json, "
        "so it is no event: have its producer send one, or use another topic for it.",
    )


def _doubled() -> BadRecord:
    return BadRecord(
        "duplicate_attribute",
        "The record has an attribute twice (perhaps ce_datacontenttype beside content-type), so nobody knows which "
        "is meant: look at its producer.",
    )


def _not_utf8(header: str) -> BadRecord:
    return BadRecord("not_utf8", f"The header {header[:40]!r} is not UTF-8: look at its producer.")


def _json_value(content_type: str, value: bytes | None) -> bytes:
    essence, _, parameters = content_type.lower().partition(";")
    if essence.startswith(_STRUCTURED + "-batch"):
        raise BadRecord(
            "batch_unsupported",
            "The record is a batch, which the binding for Kafka does not have: send events singly.",
        )
    charset = re.search(r"charset\s*=\s*\"?([^\s\";]+)", parameters)
    if essence.strip() != _STRUCTURED + "+json" or (charset and charset[1] not in ("utf-8", "utf8", "us-ascii")):
        raise BadRecord(
            "unsupported_format",
            "The record is an event in a format other than JSON in UTF-8, which is all that is read here: "
            "have its producer send application/cloudevents+json, or binary mode.",
        )
    if value is None:
        raise BadRecord("null_value", "The record says that its value is an event, and it has no value.")
    return value
