"""The balance of events, for each consumer: nothing is dropped (P5).

    distinct events published = processed + ignored + barred + parked + dead + superseded + discarded

What was published is counted in the log, what became of it in the consumer's own books. An edited event that took a
dead one's place was published to this consumer alone, within a control record; it counts as published, as the one it
replaced does. Control records themselves are no events. `weigh` is pure; `balance` reads what it needs.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import ValidationError

from surefoot.consumer.contracts import CONTROL_TYPE, Control, target_of
from surefoot.consumer.handlers import inbox_identity, record_identity
from surefoot.database.connection import Connection
from surefoot.database.schema import DEFAULT_SCHEMA, checked_schema
from surefoot.events import BadRecord, decode
from surefoot.log.port import EventLog, StoredRecord

OUTCOMES = ("PROCESSED", "BARRED", "PARKED", "DEAD", "SUPERSEDED", "DISCARDED")


class Identity(NamedTuple):
    """Which event, as the inbox has it."""

    source: str
    event_id: str


@dataclass(frozen=True, slots=True)
class Balance:
    consumer: str
    published: int
    edited: int
    """Of those published, the ones that an operator edited."""
    processed: int
    ignored: int
    barred: int
    parked: int
    dead: int
    superseded: int
    discarded: int

    @property
    def accounted(self) -> int:
        return sum((self.processed, self.ignored, self.barred, self.parked, self.dead, self.superseded, self.discarded))

    @property
    def adds_up(self) -> bool:
        return self.published == self.accounted


async def balance(connection: Connection, log: EventLog, consumer: str, schema: str = DEFAULT_SCHEMA) -> Balance:
    """Of a consumer that is at rest: what comes while this reads may be counted on one side only."""
    schema = checked_schema(schema)
    topics = await connection.fetch(
        f"SELECT topic, sum(ignored)::bigint FROM {schema}.consumer_partitions WHERE consumer = $1::text GROUP BY 1",
        consumer,
    )
    rows = await connection.fetch(
        f"SELECT source, event_id, outcome::text FROM {schema}.processed_events WHERE consumer = $1::text", consumer
    )
    records = [record for row in topics for record in await _everything(log, row[0])]
    inbox = {Identity(row[0], row[1]): row[2] for row in rows}
    return weigh(consumer, records, inbox, ignored=sum(row[1] for row in topics))


def weigh(consumer: str, records: Iterable[StoredRecord], inbox: Mapping[Identity, str], *, ignored: int) -> Balance:
    """`ignored`: how many records the consumer passed by for want of a handler, repeats among them."""
    published: Counter[Identity] = Counter()
    controls: set[Identity] = set()
    edited: set[Identity] = set()
    for record in records:
        identity, control = _read(record, consumer)
        if identity is None:
            continue
        if control is None:
            published[identity] += 1
            continue
        controls.add(identity)
        replaced = Identity(control.source, control.event_id)
        if control.action == "supersede" and inbox.get(replaced) == "SUPERSEDED":
            edited.update(_replacement(control))
    repeats = sum(times - 1 for identity, times in published.items() if identity not in inbox)
    outcomes = Counter(outcome for identity, outcome in inbox.items() if identity not in controls)
    fresh = edited.intersection(inbox) - published.keys()
    return Balance(
        consumer,
        published=len(published) + len(fresh),
        edited=len(fresh),
        ignored=ignored - repeats,
        **{outcome.lower(): outcomes[outcome] for outcome in OUTCOMES},
    )


def _read(record: StoredRecord, consumer: str) -> tuple[Identity | None, Control | None]:
    """Which event it is; with what it says if it is a control record. Nothing if it is one for somebody else."""
    place = Identity(*record_identity(record.topic, record.partition, record.offset))
    try:
        envelope = decode(record.headers, record.value, record.key)
    except BadRecord:
        return place, None
    identity = Identity(*inbox_identity(envelope.source, envelope.id))
    if envelope.type != CONTROL_TYPE:
        return identity, None
    if target_of(record.headers) != consumer:
        return None, None
    try:
        return identity, Control.model_validate_json(envelope.data or b"")
    except ValidationError:
        return place, None  # a dead letter itself, under its place


def _replacement(control: Control) -> list[Identity]:
    if control.replacement is None:
        return []
    try:
        envelope = decode(control.replacement.header_bytes(), control.replacement.value_bytes(), None)
    except BadRecord:
        return []
    return [Identity(*inbox_identity(envelope.source, envelope.id))]


async def _everything(log: EventLog, topic: str) -> list[StoredRecord]:
    """Every record of a topic, as it is now."""
    ends = await log.end_offsets(topic)
    reached = dict(await log.first_offsets(topic))
    reader = await log.read(topic, reached)
    records: list[StoredRecord] = []
    try:
        while any(reached[where] < end for where, end in ends.items()):
            for where, batch in (await reader.poll(max_records=5000)).items():
                records.extend(batch)
                reached[where] = batch[-1].offset + 1
    finally:
        await reader.close()
    return records
