"""Checkers of the promises: pure functions over what was committed and what lies in the log.

Used by the crash tests, the soak and the demo. They know nothing of how Surefoot works: commit order comes from
Postgres's own commit timestamps, publication order from the log's offsets. Each is tested against a planted
violation.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Violation = Literal["lost", "invented", "out_of_order", "stale_write", "split_key", "repeated", "unaccounted"]


class Committed(NamedTuple):
    """An event whose transaction committed. `order` sorts by commit, then by the order of adding within a
    transaction."""

    event_id: str
    key: str
    order: tuple[object, ...]


class Seen(NamedTuple):
    """An event in the log."""

    event_id: str
    key: str
    partition: int
    offset: int


class Mark(NamedTuple):
    """A write to an outbox row: who wrote, and who owned the row's shard then."""

    position: int
    writer: str
    owner: str | None


@dataclass(frozen=True, slots=True)
class Finding:
    violation: Violation
    sentence: str


def lost(committed: Iterable[Committed], seen: Iterable[Seen]) -> list[Finding]:
    """P1, first half: everything committed is in the log."""
    there = {event.event_id for event in seen}
    return [
        Finding("lost", f"{event.event_id} of key {event.key} was committed and is not in the log")
        for event in committed
        if event.event_id not in there
    ]


def invented(committed: Iterable[Committed], seen: Iterable[Seen]) -> list[Finding]:
    """P1, second half: nothing is in the log that was not committed."""
    known = {event.event_id for event in committed}
    return [
        Finding("invented", f"{event.event_id} of key {event.key} is in the log and was never committed")
        for event in seen
        if event.event_id not in known
    ]


def out_of_order(committed: Iterable[Committed], seen: Sequence[Seen]) -> list[Finding]:
    """P3: within a key, first occurrences in the log are in the order of commits."""
    expected: dict[str, list[str]] = defaultdict(list)
    for event in sorted(committed, key=lambda event: event.order):
        expected[event.key].append(event.event_id)
    findings = []
    for key, actual in first_occurrences(seen).items():
        there = set(actual)
        wanted = [event_id for event_id in expected[key] if event_id in there]
        known = set(wanted)
        actual = [event_id for event_id in actual if event_id in known]
        if actual != wanted:
            at = next(n for n, (is_, should) in enumerate(zip(actual, wanted, strict=True)) if is_ != should)
            findings.append(
                Finding(
                    "out_of_order", f"key {key}: number {at + 1} in the log is {actual[at]}, should be {wanted[at]}"
                )
            )
    return findings


def split_key(seen: Iterable[Seen]) -> list[Finding]:
    """A key lies in one partition, or it has no order."""
    partitions: dict[str, set[int]] = defaultdict(set)
    for event in seen:
        partitions[event.key].add(event.partition)
    return [
        Finding("split_key", f"key {key} lies in partitions {sorted(found)}")
        for key, found in partitions.items()
        if len(found) > 1
    ]


def stale_write(marks: Iterable[Mark]) -> list[Finding]:
    """Only the owner of a shard writes to its rows."""
    return [
        Finding("stale_write", f"row {mark.position} was written by {mark.writer} while {mark.owner} owned its shard")
        for mark in marks
        if mark.writer != mark.owner
    ]


def first_occurrences(seen: Iterable[Seen]) -> dict[str, list[str]]:
    """Event ids per key in log order, repeats left out: what a deduplicating consumer acts on."""
    by_key: dict[str, dict[str, None]] = defaultdict(dict)
    for event in sorted(seen, key=lambda event: (event.partition, event.offset)):
        by_key[event.key].setdefault(event.event_id)
    return {key: list(ids) for key, ids in by_key.items()}


def check_all(committed: Sequence[Committed], seen: Sequence[Seen]) -> list[Finding]:
    return [
        *lost(committed, seen),
        *invented(committed, seen),
        *out_of_order(committed, seen),
        *split_key(seen),
    ]
