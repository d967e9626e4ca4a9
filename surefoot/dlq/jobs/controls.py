"""The control record that tells a consumer what to do with a dead event, and the edited event that it may hold. Pure.

The record is the same whenever it is made: a repeat has the same id, and the consumer drops it. An edited event has new
data, an id of its own, and is caused by the old one. Everything else stays as it was: type, source, key, flow, trace,
and the producer's own headers. It is checked as the consumer will check it, as far as the type is known here.
"""

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from surefoot.consumer.contracts import CONTROL_TYPE, TARGET_HEADER, Action, Control, Replacement
from surefoot.dlq.errors import InvalidEdit
from surefoot.errors import SurefootError
from surefoot.events import BadRecord, Catalogue, Envelope, decode, to_event
from surefoot.events.binding import CONTENT_TYPE, version_of
from surefoot.events.structured import MAX_DATA_LEVELS
from surefoot.events.text import format_time, has_nul, is_json, is_nested_deeper, printable
from surefoot.log.port import Record, TopicPartition

CONTROL_SOURCE = "/surefoot/dlq"
MAX_BY = 500
MAX_WHY = 4000
_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
"""What Kafka takes for a topic's name. Asked for another, it does not say that there is none."""
_PREFIX = "ce_"


class CannotBeTold(SurefootError):
    """The letter was written by somebody who writes letters differently, and no consumer can be told of it."""


@dataclass(frozen=True, slots=True)
class Item:
    """A dead letter that a job is about to tell its consumer of."""

    number: int
    control_id: str
    action: Action
    consumer: str
    source: str
    event_id: str
    topic: str
    partition: int
    key: str
    record_key: bytes | None
    by: str
    why: str
    replacement: Replacement | None = None


def control_of(item: Item) -> tuple[TopicPartition, Record]:
    """To the topic and partition that the event came from. Raises CannotBeTold if there is no way to say it."""
    if _TOPIC.fullmatch(item.topic) is None:
        raise CannotBeTold(
            f"There can be no topic {item.topic!r}, so nobody can be told: look at who wrote the letter."
        )
    try:
        control = Control(
            action=item.action,
            consumer=item.consumer,
            source=item.source,
            event_id=item.event_id,
            by=printable(item.by, MAX_BY) or "unknown",
            why=printable(item.why, MAX_WHY) or "no reason was given",
            replacement=item.replacement,
        )
    except ValidationError as error:
        raise CannotBeTold from error
    headers = [
        ("ce_specversion", "1.0"),
        ("ce_id", item.control_id),
        ("ce_source", CONTROL_SOURCE),
        ("ce_type", CONTROL_TYPE),
        ("content-type", "application/json"),
        (TARGET_HEADER, item.consumer),
    ]
    key = item.key.encode() if item.record_key is None else item.record_key
    value = control.model_dump_json(exclude={"replacement"} if item.replacement is None else None)
    record = Record(key, value.encode(), [(name, text.encode()) for name, text in headers])
    return TopicPartition(item.topic, item.partition), record


def lane_of(consumer: str, topic: str, partition: int, key: str) -> str:
    """What a consumer works off one by one: of a lane one item is under way at a time."""
    return f"{consumer}/{topic}/{partition}/{key}"


@dataclass(frozen=True, slots=True)
class DeadRecord:
    """A dead event as its letter has it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    headers_left_out: int


def edited(
    dead: DeadRecord, payload: object, *, new_id: str, now: datetime, catalogue: Catalogue | None
) -> Replacement:
    """The replacement, or InvalidEdit with a sentence."""
    if dead.headers_left_out:
        raise InvalidEdit(
            f"The letter has not all headers of the event ({dead.headers_left_out} did not fit), and an edited one "
            "would lack them: have its producer send the event anew, and discard this one."
        )
    try:
        old = decode(dead.headers, dead.value, dead.key)
    except BadRecord as bad:
        raise InvalidEdit(
            f"The record is no event, and new data do not make it one: have its producer send it anew. {bad}"
        ) from bad
    body = _json(payload)
    attributes = {
        **old.attributes,
        "id": new_id,
        "time": format_time(now),
        "causationid": old.id,
        "correlationid": old.attributes.get("correlationid") or old.id,
    }
    if not is_json(attributes.get("datacontenttype")):
        raise InvalidEdit("The data of this event are not JSON, and only JSON can be edited here.")
    _check(Envelope(attributes, body, dead.key, now), old, catalogue)
    content_type = attributes.pop("datacontenttype", "application/json")
    headers = [
        *((_PREFIX + name, text.encode()) for name, text in attributes.items()),
        *(header for header in dead.headers if not _is_events_own(header[0])),
        (CONTENT_TYPE, content_type.encode()),
    ]
    return Replacement(value=_base64(body), headers=tuple((name, _base64(value)) for name, value in headers))


def _check(new: Envelope, old: Envelope, catalogue: Catalogue | None) -> None:
    """By the declaration, where it is known: what does not fit would only be refused later, by the consumer."""
    declared = None if catalogue is None else catalogue.find(new.type, version_of(new) or 1)
    if declared is None:
        return
    try:
        key = declared.key_of(to_event(new, declared).data)
    except BadRecord as bad:
        raise InvalidEdit(f"The edited event does not fit its type. {bad}") from bad
    except SurefootError as error:
        raise InvalidEdit(f"The edited event has no key. {error}") from error
    before = old.attributes.get("partitionkey")
    if key is not None and before is not None and key != before:
        raise InvalidEdit(
            f"The edited event would belong to another key ({key} instead of {before}), and it takes the place of the "
            "old one among the events of its own: leave what its key is made of as it was."
        )


def _json(payload: object) -> bytes:
    try:
        body = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEdit(f"The new data cannot be written as JSON: {error}.") from error
    if has_nul(body):
        raise InvalidEdit("The new data have a NUL character in a text, which Postgres cannot store: remove it.")
    if is_nested_deeper(body, MAX_DATA_LEVELS):
        raise InvalidEdit(f"The new data are nested more than {MAX_DATA_LEVELS} levels deep: make them flatter.")
    return body


def header_bytes(headers: Sequence[Sequence[str]]) -> tuple[tuple[str, bytes], ...]:
    """The headers as `dlq_events` has them: names, and values in Base64."""
    return tuple((name, base64.b64decode(value)) for name, value in headers)


def _is_events_own(name: str) -> bool:
    return name.startswith(_PREFIX) or name.lower() == CONTENT_TYPE


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
