"""What a transaction does with its records, in order: handle, park, bury, obey, pass by. Pure.

The one rule behind it: nothing of a key is handled while something earlier of that key waits.

Before that, `read` says what a record is for this consumer: an event with its handler, a control record, nothing, or
bad.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pydantic import ValidationError

from surefoot.consumer import Consumer
from surefoot.consumer.consumer import WhenDead
from surefoot.consumer.contracts import CONTROL_TYPE, Control, target_of
from surefoot.consumer.handlers import (
    BatchHandler,
    Handler,
    OutsideHandler,
    inbox_identity,
    ordering_key,
    record_identity,
    same_function,
)
from surefoot.events import BadRecord, Envelope, Event, decode, to_event
from surefoot.events.binding import version_of
from surefoot.events.envelope import BadRecordReason
from surefoot.log.port import StoredRecord

_LAST_MS = 253_402_300_799_000
"""The last second of the year 9999."""


class Delivery(NamedTuple):
    """An event that this consumer has a handler for."""

    record: StoredRecord
    key: str
    source: str
    event_id: str
    event: Event[Any]
    handler: Handler


class Bad(NamedTuple):
    """A record that is no event, or not the one it says it is. If it is `identified`, it is an event of its key, and
    those behind it may have to wait."""

    record: StoredRecord
    key: str
    source: str
    event_id: str
    event_type: str | None
    correlation_id: str | None
    reason: BadRecordReason
    sentence: str
    identified: bool


class Told(NamedTuple):
    """A control record for this consumer."""

    record: StoredRecord
    key: str
    source: str
    event_id: str
    control: Control


class Passed(NamedTuple):
    """Nothing for this consumer: an event of a type it has no handler for, or a control record for another one."""

    record: StoredRecord
    ignored: int


Reading = Delivery | Bad | Told | Passed


def read(record: StoredRecord, consumer: Consumer) -> Reading:
    try:
        envelope = decode(record.headers, record.value, record.key)
    except BadRecord as bad:
        return _unidentified(record, bad)
    if envelope.type == CONTROL_TYPE:
        return _told(record, envelope, consumer)
    handler = consumer.handler(envelope.type, version_of(envelope))
    if handler is None:
        if not consumer.handles(envelope.type):
            return Passed(record, 1)
        return _identified(record, envelope, _unknown_version(envelope, consumer))
    try:
        event = to_event(envelope, handler.event_type, recorded_at=recorded_at(record))
    except BadRecord as bad:
        return _identified(record, envelope, bad)
    source, event_id = inbox_identity(event.source, event.id)
    return Delivery(record, ordering_key(record.key, event.key), source, event_id, event, handler)


def recorded_at(record: StoredRecord) -> datetime:
    return datetime.fromtimestamp(recorded_ms(record) / 1000, UTC)


def recorded_ms(record: StoredRecord) -> int:
    """A Kafka producer may write any number as a record's time; neither Python nor Postgres can take them all."""
    return min(max(record.timestamp_ms, 0), _LAST_MS)


def _told(record: StoredRecord, envelope: Envelope, consumer: Consumer) -> Reading:
    if target_of(record.headers) != consumer.name:
        return Passed(record, 0)
    try:
        control = Control.model_validate_json(envelope.data or b"")
    except ValidationError:
        sentence = "The control record cannot be read: look at what the dead-letter service sent."
        return _unidentified(record, BadRecord("invalid_data", sentence))
    source, event_id = inbox_identity(envelope.source, envelope.id)
    return Told(record, ordering_key(record.key, event_id), source, event_id, control)


def _unknown_version(envelope: Envelope, consumer: Consumer) -> BadRecord:
    known = ", ".join(str(version) for version in consumer.versions(envelope.type))
    return BadRecord(
        "wrong_version",
        f"The {envelope.type} event is of version {version_of(envelope)}, and {consumer.name} handles version {known}: "
        "add a handler for it and replay it.",
    )


def _identified(record: StoredRecord, envelope: Envelope, bad: BadRecord) -> Bad:
    source, event_id = inbox_identity(envelope.source, envelope.id)
    key = ordering_key(record.key, envelope.attributes.get("partitionkey") or event_id)
    correlation_id = envelope.attributes.get("correlationid")
    return Bad(record, key, source, event_id, envelope.type, correlation_id, bad.reason, str(bad), True)


def unreadable(record: StoredRecord, sentence: str) -> Bad:
    """A record that turned out to be of no use."""
    return _unidentified(record, BadRecord("invalid_data", sentence))


def _unidentified(record: StoredRecord, bad: BadRecord) -> Bad:
    """Nobody knows which event this is: its place in the log stands for its id, and nothing waits behind it."""
    source, event_id = record_identity(record.topic, record.partition, record.offset)
    return Bad(record, ordering_key(record.key, event_id), source, event_id, None, None, bad.reason, str(bad), False)


@dataclass(frozen=True, slots=True)
class Handle:
    delivery: Delivery


@dataclass(slots=True)
class HandleRun:
    """Deliveries that follow each other and have one function for a batch, whatever their types."""

    deliveries: list[Delivery]


@dataclass(frozen=True, slots=True)
class Prepare:
    """The first half of an outside call; what is behind it on its key waits for the rest."""

    delivery: Delivery


@dataclass(frozen=True, slots=True)
class Wait:
    """Something earlier of its key waits, so this does, too."""

    what: Delivery | Bad


@dataclass(frozen=True, slots=True)
class Bury:
    bad: Bad
    holds: bool


@dataclass(frozen=True, slots=True)
class Obey:
    told: Told


Step = Handle | HandleRun | Prepare | Wait | Bury | Obey


@dataclass(slots=True)
class Plan:
    steps: list[Step] = field(default_factory=list)
    ignored: int = 0
    duplicates: int = 0


def plan(
    readings: Sequence[Reading],
    *,
    held: AbstractSet[str],
    fresh: AbstractSet[tuple[str, str]] | None,
    when_dead: WhenDead,
) -> Plan:
    """`held`: keys with something parked. `fresh`: what the inbox had not seen (None: all of it is fresh)."""
    made = Plan()
    waiting = set(held)
    left = None if fresh is None else set(fresh)
    for reading in readings:
        if isinstance(reading, Passed):
            made.ignored += reading.ignored
            continue
        if left is not None:
            identity = (reading.source, reading.event_id)
            if identity not in left:
                made.duplicates += 1
                continue
            left.remove(identity)  # the second of two in one batch is a duplicate as well
        made.steps.append(_step(reading, waiting, when_dead, made.steps))
    return made


def _step(reading: Delivery | Bad | Told, waiting: set[str], when_dead: WhenDead, steps: list[Step]) -> Step:
    if isinstance(reading, Told):
        return Obey(reading)
    if isinstance(reading, Delivery):
        if waiting and reading.key in waiting:
            return Wait(reading)
        if isinstance(reading.handler, OutsideHandler):
            waiting.add(reading.key)
            return Prepare(reading)
        if isinstance(reading.handler, BatchHandler):
            return _run(reading, reading.handler, steps)
        return Handle(reading)
    if not reading.identified:
        return Bury(reading, holds=False)
    if reading.key in waiting:
        return Wait(reading)
    holds = when_dead == "hold"
    if holds:
        waiting.add(reading.key)
    return Bury(reading, holds)


def _run(delivery: Delivery, handler: BatchHandler, steps: list[Step]) -> HandleRun:
    """Join the run that is being collected, or begin one."""
    last = steps[-1] if steps else None
    if isinstance(last, HandleRun) and same_function(last.deliveries[-1].handler, handler):
        steps.pop()
        last.deliveries.append(delivery)
        return last
    return HandleRun([delivery])


FIRST_PART = 8


def cut(count: int, culprit: int | None) -> list[slice]:
    """How to take a failed batch again: around the one that failed if it is known, else in halves.

    Each part is a transaction of its own, so that a failure costs only its own event in the end. What is behind the
    culprit is taken in parts that double: where one fails, the next may well do so, too, and each failure costs what
    was done before it in its part."""
    if count <= 1:
        return [slice(0, count)]
    if culprit is None:
        return [slice(0, count // 2), slice(count // 2, count)]
    parts = [slice(0, culprit), slice(culprit, culprit + 1)]
    at, size = culprit + 1, FIRST_PART
    while at < count:
        parts.append(slice(at, min(count, at + size)))
        at, size = at + size, size * 2
    return [part for part in parts if part.stop > part.start]
