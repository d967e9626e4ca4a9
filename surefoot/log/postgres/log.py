"""The event log in PostgreSQL: the embedded default, durable, ordered and grouped as Kafka is, without Kafka.

A reader belongs to no group and commits nothing: it is for tailing, checking and counting.
"""

import asyncio
import os
import socket
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta

from surefoot.database.schema import DEFAULT_SCHEMA, checked_schema
from surefoot.errors import ConfigurationError
from surefoot.log.port import Rebalanced, StoredRecord, TopicPartition, TopicSpec
from surefoot.log.postgres.line import Line, RecordsGone, read_records, read_statement
from surefoot.log.postgres.membership import GroupOffsets
from surefoot.log.postgres.publisher import PostgresPublisher, PostgresTopics
from surefoot.log.postgres.subscription import PostgresSubscription

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.1


class PostgresReader:
    def __init__(self, url: str, schema: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._line = Line(url, name="surefoot log reader")
        self._statement = read_statement(schema)
        self._positions = dict(offsets)

    async def poll(
        self, *, max_records: int = 500, timeout: timedelta = timedelta(seconds=1)
    ) -> Mapping[TopicPartition, Sequence[StoredRecord]]:
        deadline, pause_s = time.monotonic() + timeout.total_seconds(), FIRST_PAUSE_S
        while True:
            found = await self._read(max_records)
            left_s = deadline - time.monotonic()
            if found or left_s <= 0:
                return found
            await asyncio.sleep(min(pause_s, left_s))
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def close(self) -> None:
        await self._line.close()

    async def _read(self, max_records: int) -> Mapping[TopicPartition, Sequence[StoredRecord]]:
        async with self._line.use() as connection:
            while True:
                try:
                    found = await read_records(connection, self._statement, self._positions, max_records)
                    break
                except RecordsGone as gone:
                    self._positions[gone.where] = gone.first  # nobody's duty is to read all: on from the oldest kept
        for where, records in found.items():
            self._positions[where] = records[-1].offset + 1
        # The next call begins with another partition, so that a busy one does not starve the others.
        if self._positions:
            first = next(iter(self._positions))
            self._positions[first] = self._positions.pop(first)
        return found


SHORTEST_LEASE = timedelta(milliseconds=300)


class PostgresLog:
    def __init__(
        self,
        url: str,
        schema: str = DEFAULT_SCHEMA,
        *,
        lease: timedelta = timedelta(seconds=10),
        max_poll_interval: timedelta = timedelta(milliseconds=500),
    ) -> None:
        """`lease`: a member that is silent for this long loses its partitions. `max_poll_interval`: a reader looks for
        records at least this often, whatever happens to notifications."""
        if lease < SHORTEST_LEASE:
            raise ConfigurationError(
                f"The log's lease of {lease} is too short to be renewed in time: take 300 ms at least "
                "(SUREFOOT_LOG_LEASE=PT0.3S)."
            )
        self._url = url
        self._schema = checked_schema(schema)
        self._lease = lease
        self._max_poll_interval = max_poll_interval
        self._line = Line(url, name="surefoot log")
        self._topics = PostgresTopics(self._line, self._schema)

    async def publisher(self) -> PostgresPublisher:
        return PostgresPublisher(self._url, self._schema, self._topics)

    async def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        *,
        on_assigned: Rebalanced | None = None,
        on_revoked: Rebalanced | None = None,
    ) -> PostgresSubscription:
        found = await self._topics.describe(topics)
        missing = sorted(set(topics) - set(found))
        if missing:
            raise ConfigurationError(
                f"The group {group} cannot read {', '.join(missing)}: the log has no such topic. "
                "Run: surefoot topics create"
            )
        subscription = PostgresSubscription(
            self._url,
            group=group,
            member=f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}",
            topics={name: found[name].partitions for name in topics},
            lease=self._lease,
            schema=self._schema,
            max_poll_interval=self._max_poll_interval,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
        )
        await subscription.join()
        return subscription

    async def read(self, topic: str, offsets: Mapping[TopicPartition, int]) -> PostgresReader:
        return PostgresReader(self._url, self._schema, offsets)

    async def describe(self, topics: Sequence[str]) -> Mapping[str, TopicSpec]:
        return await self._topics.describe(topics)

    async def topics(self) -> frozenset[str]:
        return await self._topics.names()

    async def create(self, topics: Sequence[TopicSpec]) -> None:
        await self._topics.create(topics)

    async def first_offsets(self, topic: str) -> Mapping[TopicPartition, int]:
        return await self._topics.first_offsets(topic)

    async def end_offsets(self, topic: str) -> Mapping[TopicPartition, int]:
        return await self._topics.end_offsets(topic)

    async def group_offsets(self, group: str, topic: str) -> Mapping[TopicPartition, int]:
        async with self._line.use() as connection:
            return await GroupOffsets(group, self._schema).in_topic(connection, topic)

    async def expire(self) -> int:
        return await self._topics.expire()

    async def close(self) -> None:
        await self._line.close()
