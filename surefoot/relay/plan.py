"""From claimed rows to what is sent where, from the answers to what is marked; what to do with a refused record, and
how long to rest. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple, assert_never

import orjson

from surefoot.log.port import (
    Acknowledged,
    PublishOutcome,
    Record,
    Refusal,
    Refused,
    TopicPartition,
    TopicSpec,
    partition_of,
)
from surefoot.retry import backoff


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Leave the row PENDING, its key waiting, until `after` has passed."""

    after: timedelta


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The row is FAILED; its key is held until an operator retries or releases it."""


RefusalDecision = TryAgain | GiveUp


def after_refusal(
    attempts_before: int, *, max_attempts: int, retry_min: timedelta, retry_max: timedelta
) -> RefusalDecision:
    if attempts_before + 1 >= max_attempts:
        return GiveUp()
    return TryAgain(backoff(attempts_before, shortest=retry_min, longest=retry_max))


def next_pause(pause: timedelta, *, found: int, shortest: timedelta, longest: timedelta) -> timedelta:
    """How long to rest after a round: little while events trickle in, ever longer while nothing comes."""
    return shortest if found else min(longest, max(pause, shortest) * 2)


ADVICE: dict[Refusal, str] = {
    "too_large": "Raise the topic's limit and retry it, or release it to let its key go on without it.",
    "unknown_topic": "Create the topic (surefoot topics create) and retry it, or release it.",
    "rejected": "See why the log rejects it and retry it, or release it to let its key go on without it.",
}


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


@dataclass(slots=True)
class Batch:
    """Rows of one partition, in order, and the records they make."""

    rows: list[PendingRow] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Plan:
    """What goes to each partition, and the rows that cannot go anywhere."""

    batches: Mapping[TopicPartition, Batch]
    refused: Sequence[RefusedRow]


def plan(rows: Sequence[PendingRow], topics: Mapping[str, TopicSpec | None]) -> Plan:
    """Rows arrive in position order within each shard, hence within each key, and keep that order.

    A row that cannot be sent is refused; those of its key behind it are left out, and burn no attempt."""
    batches: dict[TopicPartition, Batch] = {}
    refused: dict[tuple[str, str], RefusedRow] = {}
    for row in rows:
        if refused and (row.topic, row.key) in refused:
            continue
        spec = topics[row.topic]
        if spec is None:
            refused[row.topic, row.key] = RefusedRow(row, "unknown_topic", f"The log has no topic {row.topic!r}.")
            continue
        record = record_of(row)
        if record is None:
            refused[row.topic, row.key] = RefusedRow(row, "rejected", BAD_HEADERS)
            continue
        where = TopicPartition(row.topic, partition_of(row.key_hash, spec.partitions))
        batch = batches.get(where)
        if batch is None:
            batch = batches[where] = Batch()
        batch.rows.append(row)
        batch.records.append(record)
    return Plan(batches, list(refused.values()))


BAD_HEADERS = "The row's headers are not a list of pairs of texts, as outbox.add writes them."


def record_of(row: PendingRow) -> Record | None:
    """The bytes that are sent; None if the headers cannot be (a row that was not written by us may have any).

    `sequence` is the row's position: rising within a key, in the order of commits."""
    try:
        headers = [(name, value.encode()) for name, value in orjson.loads(row.headers)]
        "".join([name for name, _ in headers])  # quick proof that each is a text
    except (ValueError, TypeError, AttributeError):
        return None
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
