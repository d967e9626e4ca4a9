"""From an envelope to a typed event, by a declaration: the right type and version, and data that fit the model.

Whatever is wrong with a record is a BadRecord here, even an error raised by the model's own checks, so that one record
never stops those behind it.
"""

import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime

from pydantic import ValidationError

from surefoot.errors import FloatMoney
from surefoot.events.envelope import NAMED_ATTRIBUTES, BadRecord, Envelope
from surefoot.events.event import Event
from surefoot.events.event_type import EventType, T
from surefoot.events.json_text import has_non_finite
from surefoot.events.problems import first_problem, is_broken_json
from surefoot.events.text import is_json, remembered

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
