"""Writing to the Postgres log: a batch is one transaction that draws its offsets and stores its records.

The offsets are drawn by updating the partition's row, whose lock is held until the commit. So within a partition
offsets become visible in order and without gaps, and a reader that remembers only how far it got misses nothing.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

from surefoot.database.connection import Connection
from surefoot.errors import LogUnavailable
from surefoot.failpoints import failpoint
from surefoot.log.port import Acknowledged, PublishOutcome, Record, Refused, TopicPartition, TopicSpec
from surefoot.log.postgres.line import Line
from surefoot.log.postgres.topics import PostgresTopics
from surefoot.log.record_size import record_bytes, too_large
from surefoot.log.topic_cache import TopicCache

CHANNEL = "surefoot_log"
LINES = 4
"""Connections of one publisher: so many partitions are written at the same time."""

BATCH_RECORDS = 2_000
"""Records in one transaction at most: a longer one keeps other writers of the partition waiting."""

TOPIC_CACHE = timedelta(seconds=5)
_COLUMNS = ("topic", "partition", "log_offset", "key", "value", "header_names", "header_values")


class PostgresPublisher:
    def __init__(self, url: str, schema: str, topics: PostgresTopics) -> None:
        self._schema = schema
        self._sql = _statements(schema)
        self._topics = TopicCache(topics.describe, TOPIC_CACHE)
        self._lines = [Line(url, name=f"surefoot log publisher {n}") for n in range(LINES)]
        self._turns: defaultdict[TopicPartition, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._closed = False

    async def topic(self, name: str) -> TopicSpec | None:
        return await self._topics.get(name)

    async def publish(self, where: TopicPartition, records: Sequence[Record]) -> PublishOutcome:
        if self._closed:
            raise LogUnavailable("This publisher was closed; open another one.")
        async with self._turns[where]:
            topic = await self._topics.get(where.topic)
            if topic is None or where.partition >= topic.partitions:
                return Refused(0, "unknown_topic", _no_such(where, topic))
            refused = _first_refused(records, topic)
            stop = len(records) if refused is None else refused.index
            for start in range(0, stop, BATCH_RECORDS):
                if not await self._store(where, records[start : min(stop, start + BATCH_RECORDS)]):
                    self._topics.forget(where.topic)
                    return Refused(start, "unknown_topic", _no_such(where, None))
            if refused is None:
                return Acknowledged(len(records))
            self._topics.forget(where.topic)
            return refused

    async def close(self) -> None:
        self._closed = True
        for line in self._lines:
            await line.close()

    async def _store(self, where: TopicPartition, records: Sequence[Record]) -> bool:
        line = self._lines[hash(where) % LINES]
        async with line.use() as connection, connection.transaction():
            first = await connection.fetchval(self._sql["draw"], where.topic, where.partition, len(records))
            if first is None:
                return False  # the topic was deleted
            await self._copy(connection, where, records, first)
            await failpoint("log.sent")
            # Last before the commit, so that a reader falling asleep meanwhile is seen in all but a few milliseconds.
            await connection.fetchval(self._sql["wake"], where.topic)
        return True

    async def _copy(self, connection: Connection, where: TopicPartition, records: Sequence[Record], first: int) -> None:
        topic, partition = where
        rows = [
            (topic, partition, offset, key, value, [name for name, _ in headers], [content for _, content in headers])
            for offset, (key, value, headers) in enumerate(records, first)
        ]
        await connection.copy_records_to_table("log_records", records=rows, columns=_COLUMNS, schema_name=self._schema)


def _first_refused(records: Sequence[Record], topic: TopicSpec) -> Refused | None:
    for index, record in enumerate(records):
        size = record_bytes(record)
        if size > topic.max_record_bytes:
            return Refused(index, "too_large", too_large(size, topic.max_record_bytes, topic.name))
        if any("\0" in name for name, _ in record.headers):
            return Refused(index, "rejected", "A header's name has a NUL character in it, which Postgres cannot store.")
    return None


def _no_such(where: TopicPartition, topic: TopicSpec | None) -> str:
    if topic is None:
        return f"The log has no topic {where.topic}. Create it (surefoot topics create), or correct the event's topic."
    return f"The topic {where.topic} has {topic.partitions} partitions, there is no number {where.partition}."


def _statements(schema: str) -> dict[str, str]:
    return {
        "draw": f"""
            UPDATE {schema}.log_partitions SET next_offset = next_offset + $3::bigint
            WHERE topic = $1 AND partition = $2 RETURNING next_offset - $3::bigint""",
        # A notification takes a lock across the whole server at commit: sent only while a reader says it sleeps. It
        # names the topic, for those who read others.
        "wake": f"""
            SELECT pg_notify('{CHANNEL}', $1::text) WHERE EXISTS (
                SELECT FROM {schema}.lease_members
                WHERE scope LIKE 'log/%' AND right(scope, length($1) + 1) = '/' || $1 AND asleep
                  AND alive_until > now())""",
    }
