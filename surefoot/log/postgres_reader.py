"""The statements of a reader of the Postgres log: where to start, the next records, and the fenced commit of an offset."""

from collections.abc import Mapping, Sequence

from surefoot.database.connection import Connection, Row
from surefoot.errors import LeaseLost, SurefootError
from surefoot.log.port import StoredRecord, TopicPartition


class RecordsGone(SurefootError):
    """Records that a group has not read yet are past their topic's retention and were removed."""

    def __init__(self, group: str, where: TopicPartition, wanted: int, first: int) -> None:
        super().__init__(
            f"The group {group} wants to go on at offset {wanted} of {where.topic}/{where.partition}, but offsets {wanted} "
            f"to {first - 1} were removed when the topic's retention passed. They are lost for this group: decide what "
            f"that means, then seek to {first}, and give the topic a longer retention."
        )
        self.where = where
        self.wanted = wanted
        self.first = first


class Reader:
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

    async def read(
        self, connection: Connection, positions: Mapping[TopicPartition, int], max_records: int
    ) -> dict[TopicPartition, list[StoredRecord]]:
        """The next records, at most `max_records` in all; partitions are served in the order they are given in."""
        topics, partitions, offsets = _columns(positions)
        found: dict[TopicPartition, list[StoredRecord]] = {}
        for row in await connection.fetch(self._sql["read"], topics, partitions, offsets, max_records):
            where = TopicPartition(row[0], row[1])
            if row[3] is None:
                raise RecordsGone(self._group, where, wanted=positions[where], first=row[2])
            found.setdefault(where, []).append(_stored(row))
        for records in found.values():
            records.sort(key=_offset)
        return found

    async def commit(
        self, connection: Connection, member: str, next_offsets: Mapping[TopicPartition, tuple[int, int]]
    ) -> None:
        """Store offsets, each with the fence it was read under; all of them, or LeaseLost and none."""
        wanted = sorted(next_offsets.items())
        topics, partitions, _ = _columns(dict.fromkeys(next_offsets, 0) if not wanted else dict(wanted))
        offsets, fences = [pair[0] for _, pair in wanted], [pair[1] for _, pair in wanted]
        scopes = [lease_scope(self._group, topic) for topic in topics]
        async with connection.transaction():
            rows = await connection.fetch(
                self._sql["commit"], self._group, member, scopes, topics, partitions, offsets, fences
            )
            stored = {TopicPartition(row["topic"], row["partition"]) for row in rows}
            lost = [where for where, _ in wanted if where not in stored]
            if lost:
                raise LeaseLost(lost_sentence(self._group, lost))


def lease_scope(group: str, topic: str) -> str:
    return f"log/{group}/{topic}"


def lost_sentence(group: str, lost: Sequence[TopicPartition]) -> str:
    names = ", ".join(f"{where.topic}/{where.partition}" for where in lost)
    return (
        f"{names} belongs to another member of the group {group} now: its offset was not stored. Stop working on it; its "
        "new owner goes on from the last committed offset."
    )


def _columns(positions: Mapping[TopicPartition, object]) -> tuple[list[str], list[int], list[object]]:
    return [one.topic for one in positions], [one.partition for one in positions], list(positions.values())


def _stored(row: Row) -> StoredRecord:
    return StoredRecord(row[0], row[1], row[3], row[4], row[5], row[6], list(zip(row[7], row[8], strict=True)))


def _offset(record: StoredRecord) -> int:
    return record.offset


def _statements(schema: str) -> dict[str, str]:
    partitions, records = f"{schema}.log_partitions", f"{schema}.log_records"
    offsets, leases = f"{schema}.log_offsets", f"{schema}.leases"
    wanted = "unnest($1::text[], $2::int[], $3::bigint[]) WITH ORDINALITY AS w(topic, partition, next, n)"
    return {
        "start": f"""
            SELECT coalesce((SELECT next_offset FROM {offsets} WHERE group_name = $1 AND topic = $2 AND partition = $3),
                            (SELECT first_offset FROM {partitions} WHERE topic = $2 AND partition = $3))""",
        "committed": f"SELECT next_offset FROM {offsets} WHERE group_name = $1 AND topic = $2 AND partition = $3",
        # One statement, one snapshot: what was removed is told from what was never there.
        "read": f"""
            (SELECT w.topic, w.partition, p.first_offset, NULL::bigint, NULL::bigint, NULL::bytea, NULL::bytea,
                    NULL::text[], NULL::bytea[]
             FROM {wanted} JOIN {partitions} p USING (topic, partition) WHERE p.first_offset > w.next)
            UNION ALL
            (SELECT w.topic, w.partition, w.next, r.log_offset, (extract(epoch FROM r.stored_at) * 1000)::bigint,
                    r.key, r.value, r.header_names, r.header_values
             FROM {wanted} CROSS JOIN LATERAL (
                 SELECT * FROM {records} r
                 WHERE r.topic = w.topic AND r.partition = w.partition AND r.log_offset >= w.next
                 ORDER BY r.log_offset LIMIT $4::int) r
             LIMIT $4::int)""",
        # The lease's row is locked: whoever takes the partition meanwhile waits, or has been and is seen.
        "commit": f"""
            WITH mine AS (
                SELECT c.topic, c.partition, c.next
                FROM unnest($3::text[], $4::text[], $5::int[], $6::bigint[], $7::bigint[])
                     AS c(scope, topic, partition, next, fence)
                JOIN {leases} l ON l.scope = c.scope AND l.unit = c.partition AND l.owner = $2 AND l.fence = c.fence
                ORDER BY c.scope, c.partition FOR SHARE OF l)
            INSERT INTO {offsets} (group_name, topic, partition, next_offset)
                SELECT $1, topic, partition, next FROM mine
            ON CONFLICT (group_name, topic, partition)
                DO UPDATE SET next_offset = excluded.next_offset, committed_at = now()
            RETURNING topic, partition""",
    }
