"""From claimed rows to what is sent where, and from the answers to what is marked. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, assert_never

import orjson

from surefoot.log.partitioner import partition_of
from surefoot.log.port import Acknowledged, PublishOutcome, Record, Refusal, Refused, TopicPartition, TopicSpec


class PendingRow(NamedTuple):
    """A claimed row, in the order of the claim's columns."""

    position: int
    shard: int
    key_hash: int
    topic: str
    key: str
    body: bytes | None
    headers: str
    attempts: int


@dataclass(frozen=True, slots=True)
class RefusedRow:
    row: PendingRow
    reason: Refusal
    sentence: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Rows for each partition, in order; and those that have nowhere to go."""

    batches: Mapping[TopicPartition, Sequence[PendingRow]]
    refused: Sequence[RefusedRow]


def plan(rows: Sequence[PendingRow], topics: Mapping[str, TopicSpec | None]) -> Plan:
    """Rows arrive in position order within each shard, hence within each key, and keep that order."""
    batches: dict[TopicPartition, list[PendingRow]] = {}
    lost: list[PendingRow] = []
    for row in rows:
        spec = topics[row.topic]
        if spec is None:
            lost.append(row)
            continue
        where = TopicPartition(row.topic, partition_of(row.key_hash, spec.partitions))
        batch = batches.get(where)
        if batch is None:
            batches[where] = [row]
        else:
            batch.append(row)
    return Plan(batches, [_without_topic(row) for row in _heads(lost)])


def record_of(row: PendingRow) -> Record:
    """The bytes that are sent. `sequence` is the row's position: rising within a key, in the order of commits."""
    headers = [(name, value.encode()) for name, value in orjson.loads(row.headers)]
    headers.append(("ce_sequence", b"%020d" % row.position))
    return Record(row.key.encode(), row.body, headers)


def split(rows: Sequence[PendingRow], outcome: PublishOutcome) -> tuple[Sequence[PendingRow], Sequence[RefusedRow]]:
    """Which rows are published and which was refused. The ones after a refused row were not sent: they stay PENDING,
    and the next claim takes them, except those of the refused row's key."""
    match outcome:
        case Acknowledged():
            return rows, []
        case Refused(index, reason, sentence):
            return rows[:index], [RefusedRow(rows[index], reason, sentence)]
        case _:
            assert_never(outcome)


def _heads(rows: Iterable[PendingRow]) -> list[PendingRow]:
    """The first row of each key: the others wait behind it and burn no attempt."""
    first: dict[tuple[str, str], PendingRow] = {}
    for row in rows:
        first.setdefault((row.topic, row.key), row)
    return list(first.values())


def _without_topic(row: PendingRow) -> RefusedRow:
    return RefusedRow(row, "unknown_topic", f"The log has no topic {row.topic!r}.")
