"""The event log port: what the rest of Surefoot needs from Kafka, and all it needs.

Two adapters stand behind it, `surefoot.log.kafka` and `surefoot.log.postgres`; one contract suite in
`tests/contract` holds both to what is written here. Nothing above this line knows which one it talks to.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from struct import Struct
from typing import Literal, NamedTuple, Protocol

Headers = Sequence[tuple[str, bytes | None]]
"""Names and values, in order; a name may come twice. None is Kafka's null, which is not an empty value."""

Refusal = Literal["too_large", "unknown_topic", "rejected"]
"""Why a log will never take this record as it is: the record's own fault, not the log's."""


class Record(NamedTuple):
    """What is written: the exact bytes. (A NamedTuple, because a relay makes tens of thousands a second.)"""

    key: bytes | None
    value: bytes | None
    headers: Headers


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class StoredRecord(NamedTuple):
    """What is read back: the exact bytes, and where they lie."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The first `count` records are stored durably, in order."""

    count: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Records before `index` are stored; the one at `index` never will be as it is; those after it were not sent."""

    index: int
    reason: Refusal
    sentence: str


PublishOutcome = Acknowledged | Refused


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as the catalogue wants it, or as the log has it."""

    name: str
    partitions: int
    retention: timedelta
    max_record_bytes: int


class Publisher(Protocol):
    async def topic(self, name: str) -> TopicSpec | None:
        """The topic as it is now (may be cached for some seconds), or None if there is no such topic.

        Raises LogUnavailable when the log cannot be asked."""

    async def publish(self, where: TopicPartition, records: Sequence[Record]) -> PublishOutcome:
        """Write records to one partition, in order, one batch in flight at a time per partition.

        Raises LogUnavailable when the log is out of reach or did not answer: then some of the records may have
        been stored, and sending all of them again is right (consumers drop what they have seen)."""

    async def close(self) -> None: ...


Rebalanced = Callable[[frozenset[TopicPartition]], Awaitable[None]]


class Subscription(Protocol):
    """A member of a group. Each partition has one owner among the members at a time."""

    def assigned(self) -> frozenset[TopicPartition]: ...

    async def poll(
        self, *, max_records: int = 500, timeout: timedelta = timedelta(seconds=1)
    ) -> Mapping[TopicPartition, Sequence[StoredRecord]]:
        """The next records of the assigned partitions, in offset order per partition; empty after the timeout."""

    async def commit(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Store where the group goes on after a restart. Raises LeaseLost if a partition is no longer ours."""

    async def committed(self, where: TopicPartition) -> int | None: ...

    async def seek(self, where: TopicPartition, offset: int) -> None:
        """Go on at this offset; in `on_assigned`, too. Raises LeaseLost if the partition is no longer ours."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Give no records of these until they are resumed, nor from a `poll` that waits already. Nothing is lost.

        A partition that is not ours (any more) is passed over. It ends with the assignment: one that comes, or comes
        back, is not paused. Polling goes on meanwhile, also when all are paused: whoever does not poll may be taken
        for dead."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Give records of these again, from where they were paused (or sought) on; those not paused are passed over."""

    async def close(self) -> None:
        """Leave the group at once, so that the others need not wait for a timeout."""


class Reader(Protocol):
    """Reads from given offsets, outside of any group: commits nothing, and nobody gives way to it."""

    async def poll(
        self, *, max_records: int = 500, timeout: timedelta = timedelta(seconds=1)
    ) -> Mapping[TopicPartition, Sequence[StoredRecord]]: ...

    async def close(self) -> None: ...


class EventLog(Protocol):
    async def publisher(self) -> Publisher: ...

    async def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        *,
        on_assigned: Rebalanced | None = None,
        on_revoked: Rebalanced | None = None,
    ) -> Subscription:
        """Join a group. A group without a committed offset starts at the beginning of the topic."""

    async def read(self, topic: str, offsets: Mapping[TopicPartition, int]) -> Reader:
        """Read the given partitions from the given offsets on (or from the oldest kept, if that is later)."""

    async def describe(self, topics: Sequence[str]) -> Mapping[str, TopicSpec]:
        """Those of the topics that exist, as they are."""

    async def topics(self) -> frozenset[str]:
        """The names of all topics there are (that this user may see)."""

    async def create(self, topics: Sequence[TopicSpec]) -> None:
        """Create topics; one that exists is left as it is."""

    async def first_offsets(self, topic: str) -> Mapping[TopicPartition, int]:
        """The oldest offset each partition still has; where it ends, if it has none. Nothing for an unknown topic."""

    async def end_offsets(self, topic: str) -> Mapping[TopicPartition, int]:
        """The offset the next record of each partition will get. Nothing for an unknown topic."""

    async def group_offsets(self, group: str, topic: str) -> Mapping[TopicPartition, int]:
        """Up to where a group has committed, by partition: the offset it goes on from. Partitions it never committed
        are left out; nothing for an unknown group or topic. Asking joins no group, and is cheap enough to do often.

        Raises LogUnavailable when the log cannot be asked: "never committed" is an answer, not a guess."""

    async def expire(self) -> int:
        """Remove records past their topic's retention; how many. A log that does so by itself answers 0."""

    async def close(self) -> None: ...


def record_bytes(record: Record) -> int:
    key, value, headers = record
    size = len(key or b"") + len(value or b"")
    for name, content in headers:
        size += (len(name) if name.isascii() else len(name.encode())) + len(content or b"")
    return size


def too_large(size: int, limit: int, topic: str) -> str:
    return (
        f"The record is {size:,} bytes (key, value and headers); the topic {topic} takes at most {limit:,}. "
        "Make the event smaller, or raise the topic's max_record_bytes."
    )


_MASK = 0xFFFFFFFF
_M = 0x5BD1E995
_WORD = Struct("<I")


def key_hash(key: bytes) -> int:
    """Kafka's murmur2 with the sign bit cleared: 0 to 2**31 - 1."""
    length = len(key)
    h = (0x9747B28C ^ length) & _MASK
    whole = length & ~3
    for (word,) in _WORD.iter_unpack(key[:whole]):
        k = word * _M & _MASK
        k ^= k >> 24
        h = (h * _M & _MASK) ^ (k * _M & _MASK)
    rest = length - whole
    if rest == 3:
        h ^= key[whole + 2] << 16
    if rest >= 2:
        h ^= key[whole + 1] << 8
    if rest >= 1:
        h = (h ^ key[whole]) * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    h ^= h >> 15
    return h & 0x7FFFFFFF


def partition_of(hashed: int, partitions: int) -> int:
    return hashed % partitions


_PLACE = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)/(?P<partition>\d{1,9}):(?P<offset>\d{1,18})")


def parse_place(text: str) -> tuple[TopicPartition, int] | None:
    """TOPIC/PARTITION:OFFSET, if the text is of that form."""
    matched = _PLACE.fullmatch(text)
    if matched is None:
        return None
    return TopicPartition(matched["topic"], int(matched["partition"])), int(matched["offset"])
