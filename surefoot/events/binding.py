"""CloudEvents 1.0 on Kafka: events to records in binary mode, records of either mode to events.

It is our own and strict, because a lenient reader turns a broken record into a different event; the tests hold it to
the published features and to the SDK as an independent peer. Nothing is ever repaired: a record is an event, or it is a
BadRecord with a reason, which the consumer dead-letters with its bytes untouched.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from types import MappingProxyType

from pydantic import ValidationError

from surefoot.errors import FloatMoney, InvalidEvent
from surefoot.events import structured
from surefoot.events.encoding import has_non_finite
from surefoot.events.envelope import BadRecord, BadRecordReason, Envelope, check
from surefoot.events.event import Event, check_attributes
from surefoot.events.event_type import EventData, EventType, T, dataschema_of
from surefoot.events.problems import first_problem, is_broken_json
from surefoot.events.text import format_time, is_extension_name, is_json, parse_time

__all__ = ["BadRecord", "BadRecordReason", "Envelope", "decode", "encode", "to_event", "version_of"]

MAX_HEADERS = 256
CONTENT_TYPE = "content-type"
_PREFIX = "ce_"
_STRUCTURED = "application/cloudevents"
_OUR_DATASCHEMA = re.compile(r"urn:surefoot:([a-z0-9_.]+):([1-9][0-9]{0,8})")

_CORE = ("specversion", "id", "source", "type", "time", "dataschema", "subject", "datacontenttype")
_FLOW = ("partitionkey", "correlationid", "causationid", "sequence", "traceparent", "tracestate")
_NAMED = frozenset({*_CORE, *_FLOW, "data"})
_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def encode(event: Event[EventData], data: bytes) -> list[tuple[str, bytes]]:
    """The record's headers in binary mode. `data`, from encode_data, is the record's value as it is."""
    check_attributes(event)
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
    headers = [(name, value.encode()) for name, value in attributes if value is not None]
    for name, value in event.extensions.items():
        if not is_extension_name(name) or name in _NAMED:
            raise InvalidEvent(
                f"{name!r} cannot be an extension of the {event.type} event: a name is 1 to 20 lowercase letters and "
                "digits, and none of the attributes that are set already."
            )
        headers.append((_PREFIX + name, value.encode()))
    headers.append((CONTENT_TYPE, b"application/json"))
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
            _put(attributes, "datacontenttype", content_type)
    check(attributes)
    return Envelope(MappingProxyType(attributes), data, key)


def version_of(envelope: Envelope) -> int | None:
    """The version of the event's type, as its dataschema says; None if that is not one of ours."""
    matched = _OUR_DATASCHEMA.fullmatch(envelope.attributes.get("dataschema", ""))
    return int(matched[2]) if matched and matched[1] == envelope.type else None


def to_event(envelope: Envelope, event_type: EventType[T], *, recorded_at: datetime | None = None) -> Event[T]:
    """The typed event.

    A CloudEvent need not carry a time. Then it is `recorded_at`, the log's own time of the record; without that it is
    the year 1970, which nobody takes for real and which is the same at every delivery.
    """
    if envelope.type != event_type.name:
        raise BadRecord("wrong_type", f"The event is not of type {event_type.name}: it belongs to another handler.")
    version = version_of(envelope)
    if version not in (None, event_type.version):
        raise BadRecord(
            "wrong_version",
            f"The {event_type.name} event is of version {version}, and this reader knows version {event_type.version}: "
            "declare that version too, and a handler for it.",
        )
    data = _model(envelope, event_type)
    attributes = envelope.attributes
    time = parse_time(attributes.get("time", ""))
    return Event(
        data=data,
        id=envelope.id,
        source=envelope.source,
        type=envelope.type,
        version=event_type.version,
        time=time or recorded_at or _NO_TIME,
        key=attributes.get("partitionkey") or _record_key(envelope) or event_type.key_of(data) or envelope.id,
        correlation_id=attributes.get("correlationid"),
        causation_id=attributes.get("causationid"),
        sequence=attributes.get("sequence"),
        traceparent=attributes.get("traceparent"),
        tracestate=attributes.get("tracestate"),
        subject=attributes.get("subject"),
        extensions={name: text for name, text in attributes.items() if name not in _NAMED},
    )


def _content_type(headers: Sequence[tuple[str, bytes | None]]) -> str | None:
    found = [value for name, value in headers if name.lower() == CONTENT_TYPE and value is not None]
    if len(found) > 1:
        raise BadRecord("duplicate_attribute", "The record has two content-type headers: look at its producer.")
    return _text(CONTENT_TYPE, found[0]) if found else None


def _binary_attributes(headers: Sequence[tuple[str, bytes | None]], value: bytes | None) -> dict[str, str]:
    attributes: dict[str, str] = {}
    for header, raw in headers:
        if not header.startswith(_PREFIX) or raw is None:  # a null header is an attribute that is not set
            continue
        name = header[len(_PREFIX) :]
        _put(attributes, name, _text(header, raw))
    if attributes:
        return attributes
    if value is None:
        raise BadRecord("null_value", "The record is a tombstone: it has no value and no CloudEvents headers.")
    raise BadRecord(
        "not_an_event",
        "The record has no CloudEvents headers (ce_id and others) and no content-type application/cloudevents+json, "
        "so it is no event: have its producer send one, or use another topic for it.",
    )


def _put(attributes: dict[str, str], name: str, value: str) -> None:
    if name in attributes:
        raise BadRecord(
            "duplicate_attribute",
            "The record has an attribute twice (perhaps ce_datacontenttype beside content-type), so nobody knows which "
            "is meant: look at its producer.",
        )
    attributes[name] = value


def _text(header: str, raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise BadRecord("not_utf8", f"The header {header[:40]!r} is not UTF-8: look at its producer.") from None


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


def _model(envelope: Envelope, event_type: EventType[T]) -> T:
    name, raw = event_type.name, envelope.data
    if not is_json(envelope.attributes.get("datacontenttype")):
        raise BadRecord("wrong_content_type", f"The data of the {name} event are not JSON: look at its producer.")
    if raw is None:
        raise BadRecord("invalid_data", f"The {name} event has no data: look at its producer.")
    try:
        data: T = event_type.model.__pydantic_validator__.validate_json(raw)
    except FloatMoney:
        raise BadRecord(
            "invalid_data", f"The {name} event has an amount of money that is no whole number of minor units."
        ) from None
    except ValidationError as error:
        if is_broken_json(error):
            raise BadRecord(
                "invalid_json", f"The data of the {name} event are no JSON: look at its producer."
            ) from None
        raise BadRecord(
            "invalid_data", f"The data of the {name} event do not fit its declaration. {first_problem(error)}"
        ) from None
    if has_non_finite(raw):
        raise BadRecord("invalid_json", f"The data of the {name} event have a NaN or an infinity, which is no JSON.")
    return data


def _record_key(envelope: Envelope) -> str | None:
    try:
        return (envelope.record_key or b"").decode("utf-8")
    except UnicodeDecodeError:  # a foreign producer's binary key: the type's own key stands in
        return None
