"""The topics of the Postgres log: what there is, making more, where they begin and end, and what is past retention."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from surefoot.database.connection import Connection
from surefoot.log.port import TopicPartition, TopicSpec
from surefoot.log.postgres.line import Line

EXPIRE_BATCH = 5_000
"""Rows deleted in one transaction at most: a large delete holds up the partition's writers."""

FOR_EVER = timedelta(days=365_000)
"""Longer than this is stored as this: `now() - retention` has to stay a date."""


class PostgresTopics:
    def __init__(self, line: Line, schema: str) -> None:
        self._line = line
        self._sql = _statements(schema)

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


def _statements(schema: str) -> dict[str, str]:
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
