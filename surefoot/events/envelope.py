"""An event as it came over the wire, before anybody knows its type: checked attributes and untouched data.

`check` is what every record passes, in either mode. It runs before any other code looks at the event, because libraries
mend what is missing: one that makes up an id for a record without one turns each redelivery into a new event.
"""

from collections.abc import KeysView, Mapping
from datetime import datetime
from typing import Literal, NamedTuple

from surefoot.errors import SurefootError
from surefoot.events.text import (
    has_forbidden,
    is_attribute_name,
    is_media_type,
    is_plain,
    is_uri,
    is_uri_reference,
    parse_time,
)

BadRecordReason = Literal[
    "null_value",
    "not_an_event",
    "too_many_headers",
    "not_utf8",
    "duplicate_attribute",
    "bad_attribute_name",
    "bad_attribute_value",
    "bad_specversion",
    "missing_id",
    "missing_source",
    "missing_type",
    "bad_source",
    "bad_time",
    "batch_unsupported",
    "unsupported_format",
    "invalid_json",
    "not_an_object",
    "data_and_base64",
    "bad_base64",
    "wrong_content_type",
    "wrong_type",
    "wrong_version",
    "invalid_data",
]
"""Why a record is no event we can take. Public: the same words in rows, metrics and pages."""

MissingReason = Literal["missing_id", "missing_source", "missing_type"]


class BadRecord(SurefootError):
    """A record is not a CloudEvent, or not the one it says it is."""

    def __init__(self, reason: BadRecordReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> tuple[type["BadRecord"], tuple[BadRecordReason, str]]:
        return type(self), (self.reason, str(self))


class Envelope(NamedTuple):
    attributes: Mapping[str, str]
    """specversion, id, source, type and all others, datacontenttype too, as they were sent."""
    data: bytes | None
    """The exact bytes; None if the event has no data."""
    record_key: bytes | None
    """The Kafka record's key. It is no attribute: the specification forbids making one of it."""
    time: datetime | None
    """The attribute of this name, in UTC; None if the event has none."""

    @property
    def id(self) -> str:
        return self.attributes["id"]

    @property
    def source(self) -> str:
        return self.attributes["source"]

    @property
    def type(self) -> str:
        return self.attributes["type"]


CORE_ATTRIBUTES = ("specversion", "id", "source", "type", "time", "dataschema", "subject", "datacontenttype")
_FLOW = ("partitionkey", "correlationid", "causationid", "sequence", "traceparent", "tracestate")
USUAL_ATTRIBUTES = frozenset({*CORE_ATTRIBUTES, *_FLOW})
NAMED_ATTRIBUTES = USUAL_ATTRIBUTES | {"data"}
"""What an Event has a field of its own for, or must not carry: no extension goes by one of these names."""

_RESERVED = frozenset({"data", "data_base64"})
_REQUIRED: tuple[tuple[str, MissingReason], ...] = (
    ("id", "missing_id"),
    ("source", "missing_source"),
    ("type", "missing_type"),
)


def check(attributes: Mapping[str, str]) -> datetime | None:
    """Refuse what is no CloudEvent 1.0, with the reason. The texts are never quoted: they may be anything.

    What is left to say of a good one is its time, which is read here once and for all.
    """
    if attributes.get("specversion") != "1.0":
        raise BadRecord(
            "bad_specversion",
            "The record does not say that it is a CloudEvent of specversion 1.0, the only one read here: "
            "have its producer set ce_specversion (or the member specversion) to 1.0.",
        )
    for name, reason in _REQUIRED:
        text = attributes.get(name)
        if text is None or not text or text.isspace():
            raise BadRecord(
                reason,
                f"The event has no {name}, or a blank one, so a redelivery could not be told from a new event: "
                f"have its producer set the attribute {name}.",
            )
    # In all but the rarest events this much is enough; in the others each attribute is looked at, in order.
    if not _are_names(attributes.keys()) or not is_plain("".join(attributes.values())):
        _check_each(attributes)
    return _check_forms(attributes)


def _are_names(names: KeysView[str]) -> bool:
    return names <= USUAL_ATTRIBUTES or all(map(_is_name, names - USUAL_ATTRIBUTES))


def _is_name(name: str) -> bool:
    return is_attribute_name(name) and name not in _RESERVED


def _check_each(attributes: Mapping[str, str]) -> None:
    for name, value in attributes.items():
        if not _is_name(name):
            raise BadRecord(
                "bad_attribute_name",
                "An attribute's name is not made of lowercase letters and digits alone, or is reserved: "
                "have the producer rename it.",
            )
        if not value.isprintable() and has_forbidden(value):
            raise BadRecord(
                "bad_attribute_value",
                f"The attribute {name} has a control character, which no attribute may: have the producer remove it.",
            )


def _check_forms(attributes: Mapping[str, str]) -> datetime | None:
    if not is_uri_reference(attributes["source"]):
        raise BadRecord(
            "bad_source", "The attribute source is no URI reference: have the producer send one, such as /orders."
        )
    text, time = attributes.get("time"), None
    if text is not None and (time := parse_time(text)) is None:
        raise BadRecord(
            "bad_time",
            "The attribute time is no RFC 3339 timestamp with an offset: have the producer send one, "
            "such as 2026-01-31T12:00:00Z.",
        )
    dataschema, content_type = attributes.get("dataschema"), attributes.get("datacontenttype")
    if dataschema is not None and not is_uri(dataschema):
        raise _malformed("dataschema", "an absolute URI")
    if attributes.get("subject") == "":
        raise _malformed("subject", "a text that is not empty")
    if content_type is not None and not is_media_type(content_type):
        raise _malformed("datacontenttype", "a media type")
    return time


def _malformed(name: str, expected: str) -> BadRecord:
    return BadRecord(
        "bad_attribute_value",
        f"The attribute {name} is set but is not {expected}: have the producer correct it or leave it out.",
    )
