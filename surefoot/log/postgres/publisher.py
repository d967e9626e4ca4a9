"""Writing to the Postgres log: a batch is one transaction that draws its offsets and stores its records.

The offsets are drawn by updating the partition's row, whose lock is held until the commit. So within a partition
offsets become visible in order and without gaps, and a reader that remembers only how far it got misses nothing.

`Topics` says what topics there are, makes more, and removes what is past retention.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta

from surefoot.database.connection import Connection
from surefoot.errors import LogUnavailable
from surefoot.failpoints import failpoint
from surefoot.log.port import (
    Acknowledged,
    PublishOutcome,
    Record,
    Refused,
    TopicPartition,
    TopicSpec,
    record_bytes,
    too_large,
)
from surefoot.log.postgres.line import Line
from surefoot.log.topics import TopicCache

EXPIRE_BATCH = 5_000
"""Rows deleted in one transaction at most: a large delete holds up the partition's writers."""

FOR_EVER = timedelta(days=365_000)
"""Longer than this is stored as this: `now() - retention` has to stay a date."""


class PostgresTopics:
    def __init__(self, line: Line, schema: str) -> None:
        self._line = line
        self._sql = _topic_statements(schema)

    async def describe(self, topics: Sequence[str]) -> Mapping[str, TopicSpec]:
        async with self._line.use() as connection:
            rows = await connection.fetch(self._sql["describe"], list(topics))
        return {
            row["topic"]: TopicSpec(
                name=row["topic"],
                partitions=row["partitions"],
                retention=timedelta.max if row["retention"] >= FOR_EVER else row["retention"],
                max_record_bytes=row["max_record_bytes"],
            )
            for row in rows
        }

    async def names(self) -> frozenset[str]:
        async with self._line.use() as connection:
            return frozenset(row[0] for row in await connection.fetch(self._sql["names"]))

    async def create(self, topics: Sequence[TopicSpec]) -> None:
        async with self._line.use() as connection, connection.transaction():
            for topic in sorted(topics, key=lambda one: one.name):  # in one order, so that two creators cannot deadlock
                retention = min(topic.retention, FOR_EVER)
                await connection.execute(
                    self._sql["create"], topic.name, topic.partitions, retention, topic.max_record_bytes
                )

    async def first_offsets(self, topic: str) -> Mapping[TopicPartition, int]:
        return await self._bounds(topic, "first_offset")

    async def end_offsets(self, topic: str) -> Mapping[TopicPartition, int]:
        return await self._bounds(topic, "next_offset")

    async def expire(self) -> int:
        """Delete what is past its topic's retention. Cheap when nothing is: one look at each partition's oldest."""
        removed = 0
        async with self._line.use() as connection:
            due = await connection.fetch(self._sql["due"])
        for row in due:
            removed += await self._expire(TopicPartition(row["topic"], row["partition"]))
        return removed

    async def _bounds(self, topic: str, column: str) -> Mapping[TopicPartition, int]:
        async with self._line.use() as connection:
            rows = await connection.fetch(self._sql["bounds"], topic)
        return {TopicPartition(topic, row["partition"]): row[column] for row in rows}

    async def _expire(self, where: TopicPartition) -> int:
        removed = 0
        while True:
            async with self._line.use() as connection:  # a transaction each, so that writers get their turn between
                deleted = await _expire_once(connection, self._sql["expire"], where)
            removed += deleted
            if deleted < EXPIRE_BATCH:
                return removed


async def _expire_once(connection: Connection, statement: str, where: TopicPartition) -> int:
    return int(await connection.fetchval(statement, where.topic, where.partition, EXPIRE_BATCH) or 0)


def _topic_statements(schema: str) -> dict[str, str]:
    topics, partitions, records = f"{schema}.log_topics", f"{schema}.log_partitions", f"{schema}.log_records"
    return {
        "describe": f"SELECT topic, partitions, retention, max_record_bytes FROM {topics} WHERE topic = ANY($1)",
        "names": f"SELECT topic FROM {topics}",
        "create": f"""
            WITH made AS (
                INSERT INTO {topics} (topic, partitions, retention, max_record_bytes) VALUES ($1, $2, $3, $4)
                ON CONFLICT DO NOTHING RETURNING topic, partitions)
            INSERT INTO {partitions} (topic, partition)
                SELECT topic, n FROM made, generate_series(0, made.partitions - 1) AS n""",
        "bounds": f"SELECT partition, first_offset, next_offset FROM {partitions} WHERE topic = $1",
        # From first_offset on, not from the start of the index: deleted entries lie there until vacuum comes by.
        "due": f"""
            SELECT p.topic, p.partition FROM {partitions} p JOIN {topics} t USING (topic) CROSS JOIN LATERAL (
                SELECT r.stored_at FROM {records} r
                WHERE r.topic = p.topic AND r.partition = p.partition AND r.log_offset >= p.first_offset
                ORDER BY r.log_offset LIMIT 1) oldest
            WHERE oldest.stored_at < now() - t.retention ORDER BY 1, 2""",
        # One statement, one snapshot: a reader sees first_offset moved and the records gone, or neither.
        "expire": f"""
            WITH batch AS (
                SELECT r.log_offset, r.stored_at < now() - t.retention AS old
                FROM {partitions} p JOIN {topics} t USING (topic) JOIN {records} r USING (topic, partition)
                WHERE p.topic = $1 AND p.partition = $2 AND r.log_offset >= p.first_offset
                ORDER BY r.log_offset LIMIT $3),
            kept AS (SELECT coalesce(min(log_offset) FILTER (WHERE NOT old), max(log_offset) + 1) AS first FROM batch),
            gone AS (
                DELETE FROM {records} r USING kept
                WHERE r.topic = $1 AND r.partition = $2 AND r.log_offset < kept.first RETURNING 1)
            UPDATE {partitions} p SET first_offset = kept.first FROM kept
            WHERE p.topic = $1 AND p.partition = $2 AND p.first_offset < kept.first
            RETURNING (SELECT count(*) FROM gone)""",
    }


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
