"""From a record of a dead-letter topic to a letter, or to what can be said of a record that is none. Pure.

Whoever gave up on an event may be a service in another language. So nothing is believed that would not fit into a row,
an index or a control record; and whatever cannot be read is kept as it is, never passed by.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import orjson

from surefoot.consumer.dead_letter import DEAD_LETTER_TYPE, MAX_ERROR, MAX_FAILURES, MAX_STACK, fingerprint
from surefoot.consumer.handlers import MAX_ID_BYTES, MAX_KEY_BYTES, inbox_identity, ordering_key
from surefoot.events.binding import decode
from surefoot.events.envelope import BadRecord, Envelope
from surefoot.events.event import SAGA
from surefoot.events.text import has_forbidden, printable
from surefoot.log.port import Headers, StoredRecord

LETTER_SOURCE = "surefoot:letter"
"""The source of a letter that cannot be read: its id is its place in the log."""
UNREADABLE = "unreadable_letter"
UNREADABLE_TYPE = "UnreadableLetter"
_PREFIX = "surefoot-"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS = 253_402_300_799_999  # the year 9999: neither Python nor Postgres can take every number
_MAX_INT = 2**31 - 1
_MAX_OFFSET = 2**63 - 1
_MAX_INDEXED = 500
"""Characters of a text that is part of an index entry, which Postgres limits to a third of a page."""
_MAX_KEY = 2 * MAX_KEY_BYTES + 2
"""Of a key that is binary, `parked_events` has the digits."""
_WORD = re.compile("[a-z][a-z0-9_]{0,59}")
_FINGERPRINT = re.compile("[A-Za-z0-9_-]{1,64}")
_NUMBER = re.compile("[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter as a row of `dlq_events` keeps it. Source and id of the letter itself are as an inbox has them."""

    letter_source: str
    letter_id: str
    consumer: str
    source: str
    event_id: str
    event_type: str | None
    topic: str
    partition: int
    log_offset: int
    key: str
    correlation_id: str | None
    saga_id: str | None
    recorded_at: datetime
    record_key: bytes | None
    value: bytes | None
    headers: str
    """JSON: [[name, value in Base64], …]"""
    headers_left_out: int
    reason: str
    error_type: str
    error: str
    stack: str
    fingerprint: str
    failures: str
    """JSON: [[time, error], …]"""
    attempts: int
    replays: int
    held: bool
    failed_at: datetime


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that is no letter: kept raw, with a sentence that says why."""

    record: StoredRecord
    sentence: str


class _NoLetter(Exception):
    """Why a record is no letter, in a sentence."""


def read_letter(record: StoredRecord) -> Letter | Unreadable:
    try:
        return _letter(record, decode(record.headers, record.value, record.key))
    except (BadRecord, _NoLetter) as error:
        return Unreadable(record, str(error))


def kept_raw(unreadable: Unreadable) -> Letter:
    """The row of a record that is no letter. It has no consumer: nobody can be told to replay it."""
    record = unreadable.record
    place = f"{record.topic}/{record.partition}/{record.offset}"
    return Letter(
        letter_source=LETTER_SOURCE,
        letter_id=place,
        consumer="",
        source=LETTER_SOURCE,
        event_id=place,
        event_type=None,
        topic=record.topic,
        partition=record.partition,
        log_offset=record.offset,
        key=ordering_key(record.key, place),
        correlation_id=None,
        saga_id=None,
        recorded_at=_time(record.timestamp_ms),
        record_key=record.key,
        value=record.value,
        headers=_headers_json(record.headers),
        headers_left_out=0,
        reason=UNREADABLE,
        error_type=UNREADABLE_TYPE,
        error=printable(unreadable.sentence, MAX_ERROR),
        stack="",
        fingerprint=fingerprint(UNREADABLE_TYPE, record.topic, "", ""),
        failures="[]",
        attempts=0,
        replays=0,
        held=False,
        failed_at=_time(record.timestamp_ms),
    )


def _letter(record: StoredRecord, envelope: Envelope) -> Letter:
    if envelope.type != DEAD_LETTER_TYPE:
        raise _NoLetter(f"The record is an event of another type than {DEAD_LETTER_TYPE}: it belongs to another topic.")
    told = _told(record.headers)
    letter_source, letter_id = inbox_identity(envelope.source, envelope.id)
    source, event_id = _name(told, "event-source"), _name(told, "event-id")
    if inbox_identity(source, event_id) != (source, event_id):
        raise _NoLetter("The event's source and id are longer than any inbox keeps them: look at who wrote the letter.")
    headers, left_out = _origin_headers(told)
    failed_at = envelope.time or _time(record.timestamp_ms)
    return Letter(
        letter_source=letter_source,
        letter_id=letter_id,
        consumer=_name(told, "consumer"),
        source=source,
        event_id=event_id,
        event_type=_indexed(told.get("event-type")),
        topic=_name(told, "origin-topic"),
        partition=_number(told, "origin-partition", _MAX_INT),
        log_offset=_number(told, "origin-offset", _MAX_OFFSET),
        key=_key(record.key, event_id),
        correlation_id=_indexed(envelope.attributes.get("correlationid")),
        saga_id=_saga(headers),
        recorded_at=_time(_number_or(told, "origin-timestamp", _LAST_MS, record.timestamp_ms)),
        record_key=_base64(told.get("origin-key")),
        value=envelope.data,
        headers=orjson.dumps(headers).decode(),
        headers_left_out=left_out,
        reason=_matching(told, "reason", _WORD),
        error_type=printable(told.get("error-type") or "unknown", 200),
        error=printable(told.get("error") or "The letter does not say what the error was.", MAX_ERROR),
        stack=printable(told.get("stack", ""), MAX_STACK),
        fingerprint=_matching(told, "fingerprint", _FINGERPRINT),
        failures=_failures(told.get("failures")),
        attempts=_number_or(told, "attempts", _MAX_INT, 0),
        replays=_number_or(told, "replays", _MAX_INT, 0),
        # Where it is not said, it may be so: a held key that nobody sees is worse than a free one that is looked at.
        held=told.get("held") != "false",
        failed_at=failed_at,
    )


def _told(headers: Headers) -> dict[str, str]:
    """The diagnosis, by the names of its headers. Of two of a name the first counts; what is no UTF-8 is mended."""
    told: dict[str, str] = {}
    for name, value in headers:
        if name.startswith(_PREFIX) and value:
            told.setdefault(name.removeprefix(_PREFIX), value.decode("utf-8", errors="replace"))
    return told


def _name(told: Mapping[str, str], name: str) -> str:
    """What a control record will have to say exactly: it is taken as it is, or not at all."""
    text = told.get(name, "")
    if not text or has_forbidden(text) or len(text.encode()) > MAX_ID_BYTES:
        raise _NoLetter(
            f"The header {_PREFIX}{name} is missing, is longer than {MAX_ID_BYTES} bytes or has a control character, "
            "so nobody knows what the letter is about: look at who wrote it."
        )
    return text


def _key(record_key: bytes | None, event_id: str) -> str:
    """A letter goes by what its event waits by, which is text already."""
    try:
        text = (record_key or b"").decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    return text if text and "\x00" not in text and len(text) <= _MAX_KEY else ordering_key(record_key, event_id)


def _matching(told: Mapping[str, str], name: str, pattern: re.Pattern[str]) -> str:
    text = told.get(name, "")
    if pattern.fullmatch(text) is None:
        raise _NoLetter(f"The header {_PREFIX}{name} is missing or is no word of letters, digits and _.")
    return text


def _number(told: Mapping[str, str], name: str, most: int) -> int:
    found = _number_or(told, name, most, -1)
    if found < 0:
        raise _NoLetter(f"The header {_PREFIX}{name} is missing or is no number from 0 to {most}.")
    return found


def _number_or(told: Mapping[str, str], name: str, most: int, otherwise: int) -> int:
    text = told.get(name, "")
    number = int(text) if _NUMBER.fullmatch(text) else -1
    return number if 0 <= number <= most else otherwise


def _time(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=min(max(milliseconds, 0), _LAST_MS))


def _indexed(text: str | None) -> str | None:
    return printable(text, _MAX_INDEXED) if text else None


def _base64(text: str | None) -> bytes | None:
    try:
        return None if text is None else base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _origin_headers(told: Mapping[str, str]) -> tuple[list[tuple[str, str]], int]:
    """The event's own headers, and how many are missing: at least one where there was no room for any of them."""
    try:
        found = orjson.loads(told["origin-headers"])
        kept = [(printable(name, 1000), value) for name, value in found if _base64(value) is not None]
    except (KeyError, ValueError, TypeError, AttributeError):
        return [], max(1, _number_or(told, "origin-headers-left-out", _MAX_INT, 1))
    left_out = _number_or(told, "origin-headers-left-out", _MAX_INT - len(found), 0)
    return kept, left_out + len(found) - len(kept)


def _saga(headers: list[tuple[str, str]]) -> str | None:
    found = next((value for name, value in headers if name == "ce_" + SAGA), None)
    raw = _base64(found)
    return _indexed(raw.decode("utf-8", errors="replace")) if raw else None


def _failures(text: str | None) -> str:
    try:
        found = [[printable(at, 40), printable(error, MAX_ERROR)] for at, error in orjson.loads(text or "[]")]
    except (ValueError, TypeError, AttributeError):
        return "[]"
    return orjson.dumps(found[-MAX_FAILURES:]).decode()


def _headers_json(headers: Headers) -> str:
    pairs = [
        (printable(name, 1000), None if value is None else base64.b64encode(value).decode()) for name, value in headers
    ]
    return orjson.dumps(pairs).decode()
