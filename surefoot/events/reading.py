"""From an envelope to a typed event, by a declaration: the right type and version, and data that fit the model.

Whatever is wrong with a record is a BadRecord here, even an error raised by the model's own checks, so that one record
never stops those behind it.
"""

import re
from datetime import UTC, datetime

from pydantic import ValidationError

from surefoot.errors import FloatMoney
from surefoot.events.encoding import has_non_finite
from surefoot.events.envelope import NAMED_ATTRIBUTES, BadRecord, Envelope
from surefoot.events.event import Event
from surefoot.events.event_type import EventType, T
from surefoot.events.problems import first_problem, is_broken_json
from surefoot.events.text import is_json, parse_time

_OUR_DATASCHEMA = re.compile(r"urn:surefoot:([a-z0-9_.]+):([1-9][0-9]{0,8})")
_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)


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
        key=attributes.get("partitionkey") or _record_key(envelope) or _own_key(event_type, data) or envelope.id,
        correlation_id=attributes.get("correlationid"),
        causation_id=attributes.get("causationid"),
        sequence=attributes.get("sequence"),
        traceparent=attributes.get("traceparent"),
        tracestate=attributes.get("tracestate"),
        subject=attributes.get("subject"),
        extensions={name: text for name, text in attributes.items() if name not in NAMED_ATTRIBUTES},
    )


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
    except MemoryError:
        raise
    except Exception as error:  # a check of the model's own: whatever it raises, this record must not stop the others
        raise BadRecord(
            "invalid_data", f"The data of the {name} event made a check of their model raise {type(error).__name__}."
        ) from error
    if has_non_finite(raw):
        raise BadRecord("invalid_json", f"The data of the {name} event have a NaN or an infinity, which is no JSON.")
    return data


def _record_key(envelope: Envelope) -> str | None:
    try:
        return (envelope.record_key or b"").decode("utf-8")
    except UnicodeDecodeError:  # a foreign producer's binary key: the type's own key stands in
        return None


def _own_key(event_type: EventType[T], data: T) -> str | None:
    try:
        return event_type.key_of(data)
    except Exception as error:  # a function of the user's, on data it did not expect
        raise BadRecord(
            "invalid_data", f"The data of the {event_type.name} event have no key, and neither has the record."
        ) from error
