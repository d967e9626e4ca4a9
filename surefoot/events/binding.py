"""CloudEvents 1.0 on Kafka: events to records in binary mode, records of either mode to events.

It is our own and strict, because a lenient reader turns a broken record into a different event; the tests hold it to
the published features and to the SDK as an independent peer. Nothing is ever repaired: a record is an event, or it is a
BadRecord with a reason, which the consumer dead-letters with its bytes untouched.

An envelope becomes a typed event by a declaration: the right type and version, and data that fit the model. An error
that the model's own checks raise is a BadRecord too, so that one record never stops those behind it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from types import MappingProxyType

from pydantic import ValidationError

from surefoot.errors import FloatMoney, InvalidEvent
from surefoot.events import structured
from surefoot.events.envelope import NAMED_ATTRIBUTES, USUAL_ATTRIBUTES, BadRecord, BadRecordReason, Envelope, check
from surefoot.events.event import Event, check_attributes, first_problem, is_broken_json
from surefoot.events.event_type import EventData, EventType, T, dataschema_of
from surefoot.events.text import format_time, has_non_finite, is_extension_name, is_json, remembered

_OURS = "urn:surefoot:"
_TYPE_AND_VERSION = re.compile(r"([a-z0-9_.]+):([1-9][0-9]{0,8})")
_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)

# Every record that is read becomes an event here, and a frozen dataclass takes its time to set each field by name: the
# fields' own descriptors do it in a third of that.
(
    _set_data,
    _set_id,
    _set_source,
    _set_type,
    _set_version,
    _set_time,
    _set_key,
    _set_correlation_id,
    _set_causation_id,
    _set_sequence,
    _set_traceparent,
    _set_tracestate,
    _set_subject,
    _set_extensions,
) = (getattr(Event, each.name).__set__ for each in fields(Event))


def version_of(envelope: Envelope) -> int | None:
    """The version of the event's type, as its dataschema says; None if it says none.

    A dataschema of ours that is no version of this type says none either, and to_event refuses it.
    """
    name, version = _named(envelope.attributes.get("dataschema", ""))
    return version if name == envelope.type else None


@remembered
def _named(dataschema: str) -> tuple[str, int] | tuple[None, None]:
    """The type and the version that a dataschema names, if it is one of ours."""
    matched = _TYPE_AND_VERSION.fullmatch(dataschema, len(_OURS)) if _is_ours(dataschema) else None
    return (matched[1], int(matched[2])) if matched else (None, None)


def _is_ours(dataschema: str) -> bool:
    return dataschema[: len(_OURS)].lower() == _OURS  # a URN is the same in capitals, up to its second colon


def to_event(envelope: Envelope, event_type: EventType[T], *, recorded_at: datetime | None = None) -> Event[T]:
    """The typed event.

    A CloudEvent need not carry a time. Then it is `recorded_at`, the log's own time of the record; without that it is
    the year 1970, which nobody takes for real and which is the same at every delivery.
    """
    attributes = envelope.attributes
    type_name, event_id, dataschema = attributes["type"], attributes["id"], attributes.get("dataschema")
    if type_name != event_type.name:
        raise BadRecord("wrong_type", f"The event is not of type {event_type.name}: it belongs to another handler.")
    if dataschema is not None and dataschema != event_type.dataschema:
        _check_version(envelope, dataschema, event_type)
    data = _model(envelope, event_type)
    event: Event[T] = object.__new__(Event)
    _set_data(event, data)
    _set_id(event, event_id)
    _set_source(event, attributes["source"])
    _set_type(event, type_name)
    _set_version(event, event_type.version)
    _set_time(event, envelope.time or recorded_at or _NO_TIME)
    _set_key(event, attributes.get("partitionkey") or _other_key(envelope, event_type, data) or event_id)
    _set_correlation_id(event, attributes.get("correlationid"))
    _set_causation_id(event, attributes.get("causationid"))
    _set_sequence(event, attributes.get("sequence"))
    _set_traceparent(event, attributes.get("traceparent"))
    _set_tracestate(event, attributes.get("tracestate"))
    _set_subject(event, attributes.get("subject"))
    _set_extensions(event, _extensions(attributes))
    return event


def _extensions(attributes: Mapping[str, str]) -> dict[str, str]:
    if attributes.keys() <= NAMED_ATTRIBUTES:
        return {}
    return {name: text for name, text in attributes.items() if name not in NAMED_ATTRIBUTES}


def _check_version(envelope: Envelope, dataschema: str, event_type: EventType[T]) -> None:
    """Refuse data that say of themselves that they were made by another declaration of ours."""
    version = version_of(envelope)
    if version is not None and version != event_type.version:
        raise BadRecord(
            "wrong_version",
            f"The {event_type.name} event is of version {version}, and this reader knows version {event_type.version}: "
            "declare that version too, and a handler for it.",
        )
    if version is None and _is_ours(dataschema):
        raise BadRecord(
            "wrong_version",
            f"The {event_type.name} event has a dataschema that is of another type or of no version, and this reader "
            f"knows version {event_type.version}: have its producer send {event_type.dataschema}, or none.",
        )


def _model(envelope: Envelope, event_type: EventType[T]) -> T:
    name, raw = event_type.name, envelope.data
    if not is_json(envelope.attributes.get("datacontenttype")):
        raise BadRecord("wrong_content_type", f"The data of the {name} event are not JSON: look at its producer.")
    if raw is None:
        raise BadRecord("invalid_data", f"The {name} event has no data: look at its producer.")
    if has_non_finite(raw):  # pydantic reads them, and then complains of the field, or of nothing
        raise BadRecord("invalid_json", f"The data of the {name} event have a NaN or an infinity, which is no JSON.")
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
    except MemoryError:
        raise
    except Exception as error:  # a check of the model's own: whatever it raises, this record must not stop the others
        raise BadRecord(
            "invalid_data", f"The data of the {name} event made a check of their model raise {type(error).__name__}."
        ) from error
    return data


def _other_key(envelope: Envelope, event_type: EventType[T], data: T) -> str | None:
    """The key of an event that does not name it: the record's, or else the one that its declaration gives."""
    try:
        key = (envelope.record_key or b"").decode("utf-8")
    except UnicodeDecodeError:  # a foreign producer's binary key
        key = ""
    if key:
        return key
    try:
        return event_type.key_of(data)
    except Exception as error:  # a function of the user's, on data it did not expect
        raise BadRecord(
            "invalid_data", f"The data of the {event_type.name} event have no key, and neither has the record."
        ) from error


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
