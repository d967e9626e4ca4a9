"""Writing and reading in the contract tests: members that remember what they were told, polls until something came."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from surefoot.log.port import EventLog, Record, StoredRecord, Subscription, TopicPartition
from tests.support.waiting import eventually

POLL = timedelta(milliseconds=100)
LIMIT = 100_000
DAY = timedelta(days=1)


def plain(*values: bytes) -> list[Record]:
    return [Record(b"key", value, []) for value in values]


async def stored(log: EventLog, topic: str, partition: int = 0) -> list[bytes | None]:
    """The values in a partition, all of them, read without a group."""
    where = TopicPartition(topic, partition)
    end = (await log.end_offsets(topic))[where]
    reader = await log.read(topic, {where: 0})
    values: list[bytes | None] = []

    async def all_of_them() -> bool:
        found = await reader.poll(timeout=timedelta(milliseconds=200))
        values.extend(record.value for record in found.get(where, []))
        return len(values) >= end

    try:
        await eventually(all_of_them, what=f"{end} records in {where}")
    finally:
        await reader.close()
    return values


@dataclass
class Member:
    """A subscription, and the partitions it was told to have."""

    subscription: Subscription | None = None
    has: set[TopicPartition] = field(default_factory=set)
    told: list[str] = field(default_factory=list)
    got: list[StoredRecord] = field(default_factory=list)

    @property
    def joined(self) -> Subscription:
        assert self.subscription is not None
        return self.subscription

    async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        assert not partitions & self.has, "assigned twice without being revoked"
        self.has |= partitions
        self.told.append("assigned")

    async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        assert partitions <= self.has, "revoked without having been assigned"
        self.has -= partitions
        self.told.append("revoked")

    async def poll(self, timeout: timedelta = POLL) -> list[StoredRecord]:
        found = await self.joined.poll(timeout=timeout)
        assert found.keys() <= self.has, "records of a partition that was not announced"
        records = [record for where in found for record in found[where]]
        self.got += records
        return records


@asynccontextmanager
async def member(log: EventLog, group: str, topic: str) -> AsyncIterator[Member]:
    one = Member()
    one.subscription = await log.subscribe(group, [topic], on_assigned=one.on_assigned, on_revoked=one.on_revoked)
    try:
        yield one
    finally:
        await one.joined.close()


async def read(one: Member, count: int) -> list[StoredRecord]:
    """Poll until so many records have come in all."""

    async def enough() -> bool:
        await one.poll()
        return len(one.got) >= count

    await eventually(enough, what=f"{count} records read")
    return one.got


async def shares(members: Sequence[Member], sizes: Sequence[int]) -> None:
    """Poll all members until they have so many partitions each (in any order)."""

    async def shared() -> bool:
        for one in members:
            await one.poll()
        return sorted(len(one.has) for one in members) == sorted(sizes)

    await eventually(shared, what=f"shares of {sizes}")
