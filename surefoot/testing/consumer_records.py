"""Events on their way through the test kit: encoded as the log would carry them, and what became of each so far."""

import random
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from surefoot.consumer.dead_letter import DeadReason
from surefoot.consumer.handlers import inbox_identity, ordering_key
from surefoot.errors import SurefootError
from surefoot.events import Event, EventData, decode, encode, encode_data, event_type_of, to_event
from surefoot.log.port import StoredRecord

Outcome = Literal["PROCESSED", "PARKED", "DEAD", "BARRED", "IGNORED", "WAITING"]
"""As the inbox has it; IGNORED: there is no handler for its type. WAITING: not taken yet, a dependency is away."""


class KitMisuse(SurefootError):
    """The test asked the kit for something it does not have. It is never taken for a handler's failure."""


@dataclass(frozen=True, slots=True)
class Dead:
    """An event that will not be tried again, and why."""

    data: EventData
    event: Event[EventData]
    reason: DeadReason
    error: Exception


@dataclass(eq=False, slots=True)
class Delivered:
    """One event, however often it was delivered, and how far the consumer has got with it."""

    record: StoredRecord
    event: Event[EventData]
    line: tuple[str, str]
    """Topic and key: behind whom it waits."""
    outcome: Outcome = "WAITING"
    attempts: int = 0
    contentions: int = 0
    holds: bool = False
    """Later events of its key wait."""
    stalled: bool = False
    """Its outside call found a dependency away: it is tried again at the next occasion."""
    prepared: str | None = None
    """What `prepare` returned, as JSON; None before it ran."""
    reason: DeadReason | None = None
    error: Exception | None = None


def identity(event: Event[EventData]) -> tuple[str, str]:
    return inbox_identity(event.source, event.id)


def delivered(event: Event[EventData], offset: int) -> Delivered:
    """The event as the log carries it; raises InvalidEvent, as publishing it would, if it does not fit its type."""
    declared, key, value = event_type_of(event.data), event.key.encode(), encode_data(event)
    headers = tuple(encode(event, value))
    record = StoredRecord(declared.topic.name, 0, offset, int(event.time.timestamp() * 1000), key, value, headers)
    read = to_event(decode(headers, value, key), declared)
    return Delivered(record, read, (record.topic, ordering_key(key, event.id)))


def shuffled(sequence: Sequence[Delivered], seed: int) -> list[Delivered]:
    """An order in which they can really arrive: keys mixed by chance, each key's own events as they were."""
    lines: defaultdict[tuple[str, str], deque[Delivered]] = defaultdict(deque)
    for one in sequence:
        lines[one.line].append(one)
    turns = [one.line for one in sequence]
    random.Random(seed).shuffle(turns)
    return [lines[line].popleft() for line in turns]
