"""A dead letter: the record's own bytes, and everything an operator needs to understand why it is dead.

It is a CloudEvent of its own, with an id of its own, in binary mode; its value is the dead record's value, untouched.
The diagnosis is in headers outside `ce_`, cut to a bounded size, and never so long that the dead-letter topic (which
takes twice as much as the topic itself) would refuse it. Pure.
"""

import base64
import hashlib
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import orjson

import surefoot
from surefoot.errors import words_of
from surefoot.events.envelope import BadRecordReason
from surefoot.events.event_type import EventData
from surefoot.events.masking import personal_texts, without
from surefoot.events.text import format_time, has_forbidden, printable
from surefoot.log.port import StoredRecord, key_hash

if TYPE_CHECKING:
    from surefoot.outbox.entry import Entry

DEAD_LETTER_TYPE = "dlq.dead_letter"
DeadReason = BadRecordReason | Literal["permanent", "out_of_attempts"]
"""Why an event is dead. Public: the same words in rows, headers, metrics and pages."""

MAX_ERROR = 1000
MAX_STACK = 8000
MAX_ORIGIN_HEADERS = 32_000
MAX_FAILURES = 10
_OURS = f"{Path(str(surefoot.__file__)).parent}/"
_RECORD_OVERHEAD = 2000  # our own fixed headers, and what the log adds


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is known of a failure. Texts are bounded when it is made."""

    reason: DeadReason
    error_type: str
    error: str
    stack: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Dead:
    """A dead event, as its letter tells it. `source`, `event_id` and `key` are as the inbox and parked_events have
    them."""

    consumer: str
    record: StoredRecord
    key: str
    source: str
    event_id: str
    event_type: str | None
    correlation_id: str | None
    diagnosis: Diagnosis
    failures: Sequence[tuple[str, str]]
    """(time, error) of the latest attempts."""
    attempts: int
    replays: int
    held: bool


def diagnose(
    error: BaseException,
    reason: DeadReason,
    *,
    consumer: str,
    event_type: str | None,
    data: EventData | None = None,
) -> Diagnosis:
    """`data` are what the handler was given: what is personal in them is left out where the error quotes it."""
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    words, stack = words_of(error) or name, _stack(error)
    try:
        personal = [] if data is None else personal_texts(data)
    except Exception:  # data that cannot even be written: nobody knows what of them the error quotes
        personal, words, stack = [], name, ""
    return Diagnosis(
        reason=reason,
        error_type=name,
        error=printable(without(words, personal), MAX_ERROR),
        stack=printable(without(stack, personal)[-MAX_STACK:], MAX_STACK),
        fingerprint=fingerprint(name, _handler_frame(error.__traceback__), consumer, event_type or ""),
    )


def bad_record(reason: BadRecordReason, sentence: str, *, consumer: str, event_type: str | None) -> Diagnosis:
    """A record that is no event, or not the one it says: there is no stack, the reason tells all."""
    mark = fingerprint("BadRecord", reason, consumer, event_type or "")
    return Diagnosis(reason, "BadRecord", printable(sentence, MAX_ERROR), "", mark)


def fingerprint(error_type: str, frame: str, consumer: str, event_type: str) -> str:
    """The same for failures with one cause. Without line numbers and messages, which change from day to day."""
    together = "\n".join((error_type, frame, consumer, event_type))
    return hashlib.sha256(together.encode()).hexdigest()[:16]


def letter(dead: Dead, *, letter_id: str, now: datetime, max_bytes: int) -> "Entry":
    """The outbox row of a dead letter."""
    from surefoot.outbox.entry import Entry  # brings SQLAlchemy, which commands that only show letters go without

    record = dead.record
    room = max_bytes - len(record.value or b"") - 2 * len(dead.key.encode()) - _RECORD_OVERHEAD
    headers = [*_event_headers(dead, letter_id, now), *_fitting(_diagnosis_headers(dead), room)]
    return Entry(
        event_id=letter_id,
        key_hash=key_hash(dead.key.encode()),
        topic=record.topic + ".dlq",
        event_type=DEAD_LETTER_TYPE,
        key=dead.key,
        body=record.value,
        headers=orjson.dumps(headers).decode(),
    )


def _event_headers(dead: Dead, letter_id: str, now: datetime) -> list[tuple[str, str]]:
    attributes = [
        ("ce_specversion", "1.0"),
        ("ce_id", letter_id),
        ("ce_source", f"/surefoot/consumers/{dead.consumer}"),
        ("ce_type", DEAD_LETTER_TYPE),
        ("ce_time", format_time(now)),
        ("ce_partitionkey", _attribute(dead.key)),
        ("content-type", "application/octet-stream"),
    ]
    if dead.correlation_id is not None:
        attributes.append(("ce_correlationid", dead.correlation_id))
    return attributes


def _diagnosis_headers(dead: Dead) -> list[tuple[str, str]]:
    """The most telling first: where there is no room for all, the last are cut."""
    record, diagnosis = dead.record, dead.diagnosis
    failures = orjson.dumps(list(dead.failures)[-MAX_FAILURES:]).decode()
    shown, left_out = _origin_headers(record)
    headers = [
        ("surefoot-consumer", dead.consumer),
        ("surefoot-reason", diagnosis.reason),
        ("surefoot-fingerprint", diagnosis.fingerprint),
        ("surefoot-event-source", dead.source),
        ("surefoot-event-id", dead.event_id),
        ("surefoot-event-type", dead.event_type or ""),
        ("surefoot-origin-topic", record.topic),
        ("surefoot-origin-partition", str(record.partition)),
        ("surefoot-origin-offset", str(record.offset)),
        ("surefoot-origin-timestamp", str(record.timestamp_ms)),
        ("surefoot-attempts", str(dead.attempts)),
        ("surefoot-replays", str(dead.replays)),
        ("surefoot-held", "true" if dead.held else "false"),
        ("surefoot-origin-headers-left-out", str(left_out)),
        ("surefoot-error-type", printable(diagnosis.error_type, 200)),
        ("surefoot-error", diagnosis.error),
        ("surefoot-failures", failures),
        ("surefoot-origin-key", "" if record.key is None else base64.b64encode(record.key[:3000]).decode()),
        ("surefoot-origin-headers", orjson.dumps(shown).decode()),
        ("surefoot-stack", diagnosis.stack),
    ]
    return [(name, value) for name, value in headers if value]


def _origin_headers(record: StoredRecord) -> tuple[list[tuple[str, str]], int]:
    """As many of the record's headers as there is room for, in Base64, and how many are left out."""
    shown: list[tuple[str, str]] = []
    size = 0
    for name, value in record.headers:
        encoded = base64.b64encode(value or b"").decode()
        size += len(name) + len(encoded) + 8
        if size > MAX_ORIGIN_HEADERS:
            break
        shown.append((printable(name, 1000), encoded))
    return shown, len(record.headers) - len(shown)


def _fitting(headers: Sequence[tuple[str, str]], room: int) -> list[tuple[str, str]]:
    """What fits; of what does not, the beginning if it is a text to be read."""
    kept: list[tuple[str, str]] = []
    for name, value in headers:
        cost = len(orjson.dumps([name, value]))
        if cost > room and name in ("surefoot-error", "surefoot-stack") and room > 200:
            value = value.encode()[: room // 2 - 100].decode(errors="ignore")
            cost = len(orjson.dumps([name, value]))
        if cost <= room:
            kept.append((name, value))
            room -= cost
    return kept


def _attribute(text: str) -> str:
    return "".join("�" if has_forbidden(letter) else letter for letter in text)


def _stack(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error, limit=-20))
    except Exception:  # an exception of somebody else's, which does not bear being looked at
        return "".join(traceback.format_tb(error.__traceback__, limit=-20))


def _handler_frame(trace: TracebackType | None) -> str:
    """The first frame of the handler's own code: the one after ours."""
    frames = traceback.extract_tb(trace)
    theirs = [frame for frame in frames if not frame.filename.startswith(_OURS)]
    return f"{theirs[0].filename.rpartition('/')[2]}:{theirs[0].name}" if theirs else ""
