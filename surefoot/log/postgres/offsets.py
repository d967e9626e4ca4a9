"""Where a group of the Postgres log has got to: read by whoever asks, stored only by the partition's owner."""

from collections.abc import Mapping, Sequence

from surefoot.database.connection import Connection
from surefoot.errors import LeaseLost
from surefoot.log.port import TopicPartition


class GroupOffsets:
    def __init__(self, group: str, schema: str) -> None:
        self._group = group
        self._sql = _statements(schema)

    async def start(self, connection: Connection, where: TopicPartition) -> int:
        """Where the group goes on: at its committed offset, or at the beginning."""
        found = await connection.fetchval(self._sql["start"], self._group, where.topic, where.partition)
        return int(found or 0)

    async def committed(self, connection: Connection, where: TopicPartition) -> int | None:
        found = await connection.fetchval(self._sql["committed"], self._group, where.topic, where.partition)
        return None if found is None else int(found)

    async def in_topic(self, connection: Connection, topic: str) -> dict[TopicPartition, int]:
        """The committed offsets of a topic; a partition without one is left out."""
        rows = await connection.fetch(self._sql["in_topic"], self._group, topic)
        return {TopicPartition(topic, row["partition"]): row["next_offset"] for row in rows}

    async def commit(
        self, connection: Connection, member: str, wanted: Mapping[TopicPartition, tuple[int, int]]
    ) -> None:
        """Store the next offset of each partition, with the fence it is ours under; all, or LeaseLost and none."""
        rows = [
            (lease_scope(self._group, where.topic), where.topic, where.partition, offset, fence)
            for where, (offset, fence) in sorted(wanted.items())
        ]
        columns = [list(column) for column in zip(*rows, strict=True)]
        async with connection.transaction():
            stored = await connection.fetch(self._sql["commit"], self._group, member, *columns)
            lost = wanted.keys() - {TopicPartition(row["topic"], row["partition"]) for row in stored}
            if lost:
                raise LeaseLost(lost_sentence(self._group, sorted(lost)))


def lease_scope(group: str, topic: str) -> str:
    return f"log/{group}/{topic}"


def lost_sentence(group: str, lost: Sequence[TopicPartition]) -> str:
    names = ", ".join(f"{where.topic}/{where.partition}" for where in lost)
    return (
        f"The group {group} has given {names} to another member: the offset was not stored. Stop working on it; its "
        "new owner goes on from the last committed offset."
    )


def _statements(schema: str) -> dict[str, str]:
    offsets = f"{schema}.log_offsets"
    mine = "group_name = $1 AND topic = $2 AND partition = $3"
    return {
        "start": f"""
            SELECT coalesce(
                (SELECT next_offset FROM {offsets} WHERE {mine}),
                (SELECT first_offset FROM {schema}.log_partitions WHERE topic = $2 AND partition = $3))""",
        "committed": f"SELECT next_offset FROM {offsets} WHERE {mine}",
        # Joined, because a topic that was removed leaves the offsets of its groups behind.
        "in_topic": f"""
            SELECT partition, o.next_offset FROM {offsets} o JOIN {schema}.log_partitions USING (topic, partition)
            WHERE o.group_name = $1 AND topic = $2""",
        # The lease's row is locked: whoever takes the partition meanwhile waits, or has been and is seen. A frozen
        # owner that wakes up stores nothing.
        "commit": f"""
            WITH mine AS (
                SELECT c.topic, c.partition, c.next
                FROM unnest($3::text[], $4::text[], $5::int[], $6::bigint[], $7::bigint[])
                     AS c(scope, topic, partition, next, fence)
                JOIN {schema}.leases l
                     ON l.scope = c.scope AND l.unit = c.partition AND l.owner = $2 AND l.fence = c.fence
                ORDER BY c.scope, c.partition FOR SHARE OF l)
            INSERT INTO {offsets} (group_name, topic, partition, next_offset)
                SELECT $1, topic, partition, next FROM mine
            ON CONFLICT (group_name, topic, partition)
                DO UPDATE SET next_offset = excluded.next_offset, committed_at = now()
            RETURNING topic, partition""",
    }
