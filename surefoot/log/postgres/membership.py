"""Belonging to a group of the Postgres log: which partitions are ours, by lease, and for how long.

A background task renews the leases, takes what is ours to take, and gives up what is above our share, after
`on_revoked` was called for it. Partitions that come are handed out by `welcome`, called by the reader's own task.
Members tell each other about comings and goings, so that shares move at once and not at the next heartbeat.

Where a group has got to can be read by every process, and is stored only by the owner of the partition.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta

from surefoot.database.connection import Connection
from surefoot.database.leases import Lease, Leases, Standing, declare_units
from surefoot.errors import LeaseLost, LogUnavailable
from surefoot.log.port import Rebalanced, TopicPartition
from surefoot.log.postgres.line import Line
from surefoot.log.postgres.publisher import CHANNEL


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


HEARTBEATS_PER_LEASE = 3
AFTER_FAILURE_S = 1.0


class Membership:
    def __init__(
        self,
        url: str,
        *,
        group: str,
        member: str,
        topics: Mapping[str, int],
        lease: timedelta,
        schema: str,
        on_revoked: Rebalanced | None,
        woken: Callable[[], None],
    ) -> None:
        self._line = Line(url, name=f"surefoot log {group}", opened=self._listen)
        self._member = member
        self._topics = topics
        self._scopes = {topic: lease_scope(group, topic) for topic in topics}
        self._lease = lease
        self._schema = schema
        self._on_revoked = on_revoked
        self._woken = woken
        self._held: dict[TopicPartition, Lease] = {}
        self._announced: dict[TopicPartition, int] = {}  # and the fence they were announced under
        self._going: set[TopicPartition] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._moving = asyncio.Lock()
        self._hurry = asyncio.Event()
        self._leaving = False
        self.failed: Exception | None = None

    async def join(self) -> None:
        async with self._line.use() as connection:
            for topic, partitions in self._topics.items():
                await declare_units(connection, scope=self._scopes[topic], units=partitions, schema=self._schema)
        await self._beat()
        await self._tell_others()
        self._beside(self._keep())

    def owned(self) -> dict[TopicPartition, Lease]:
        """What was announced as ours and is still ours, by the fence and by the clock."""
        held = {one: self._held[one] for one in self._announced if one in self._held}
        return {one: lease for one, lease in held.items() if lease.fence == self._announced[one] and lease.is_valid()}

    def announced(self) -> dict[TopicPartition, int]:
        """What was announced, and the fence of each."""
        return self._announced

    def coming(self) -> frozenset[TopicPartition]:
        return frozenset(self._held.keys() - self._announced.keys() - self._going)

    async def welcome(self, on_assigned: Rebalanced) -> None:
        """Announce what has come. If `on_assigned` fails, it stays unannounced, and the next call tries again."""
        async with self._moving:
            coming = {one: self._held[one].fence for one in self.coming()}
            if coming:
                await on_assigned(frozenset(coming))
                self._announced |= coming

    async def set_asleep(self, asleep: bool) -> None:
        async with self._line.use() as connection:
            for topic in self._topics:
                await self._leases(connection, topic).set_asleep(asleep)

    async def leave(self) -> None:
        """Give everything back at once. If the database is out of reach, the leases run out by themselves."""
        self._leaving = True
        self._hurry.set()
        while self._tasks:
            await asyncio.wait(set(self._tasks))
        await self._revoke(frozenset(self._announced))
        try:
            async with self._line.use() as connection:
                for topic in self._topics:
                    await self._leases(connection, topic).leave()
            await self._tell_others()
        except LogUnavailable:
            pass
        finally:
            self._held.clear()
            await self._line.close()

    async def _keep(self) -> None:
        interval = self._lease.total_seconds() / HEARTBEATS_PER_LEASE
        pause = interval
        while not self._leaving:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._hurry.wait()
            self._hurry.clear()
            try:
                if not self._leaving:
                    await self._beat()
                pause = interval
            except LogUnavailable:
                # Nothing is delivered from a lease that has run out, and the reader's own calls say what is wrong.
                pause = min(interval, AFTER_FAILURE_S)
            except Exception as error:
                self.failed, pause = error, AFTER_FAILURE_S

    async def _beat(self) -> None:
        for topic in self._topics:
            async with self._line.use() as connection:
                standing = await self._leases(connection, topic).heartbeat()
            self._settle(topic, standing)

    def _settle(self, topic: str, standing: Standing) -> None:
        """Take a heartbeat's answer into the books. No await in here: books and answer must be of one moment."""
        for one in [one for one in self._held if one.topic == topic]:
            del self._held[one]
        self._held |= {TopicPartition(topic, unit): lease for unit, lease in standing.held.items()}
        # A higher fence than the announced one: somebody else had it in between, what our reader knows is out of date.
        lost = {one for one, fence in self._announced.items() if one.topic == topic and not self._holds(one, fence)}
        surplus = {TopicPartition(topic, unit) for unit in standing.surplus}
        # Both beside the heartbeats: `on_revoked` may wait for a handler to end, and leases must not run out meanwhile.
        if lost - self._going:
            self._beside(self._mourn(frozenset(lost - self._going)))
        for one in surplus - lost - self._going:
            self._beside(self._give_up(one))
        if self.coming():
            self._woken()

    def _holds(self, where: TopicPartition, fence: int) -> bool:
        return where in self._held and self._held[where].fence == fence

    async def _mourn(self, lost: frozenset[TopicPartition]) -> None:
        self._going |= lost
        try:
            await self._revoke(lost)
        finally:
            self._going -= lost
            self._woken()

    async def _give_up(self, where: TopicPartition) -> None:
        self._going.add(where)
        try:
            await self._revoke(frozenset([where]))
            lease = self._held.get(where)
            if lease is not None:
                async with self._line.use() as connection:
                    await self._leases(connection, where.topic).release(lease)
                self._held.pop(where, None)
                await self._tell_others()
        except LogUnavailable:
            pass  # the next heartbeat renews it and finds it too many again
        finally:
            self._going.discard(where)

    async def _revoke(self, going: frozenset[TopicPartition]) -> None:
        async with self._moving:
            going &= self._announced.keys()
            try:
                if going and self._on_revoked is not None:
                    await self._on_revoked(going)
            except Exception as error:
                self.failed = error  # nobody waits for this task: the next poll raises it
            finally:
                for one in going:
                    del self._announced[one]

    def _beside(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell_others(self) -> None:
        async with self._line.use() as connection:
            for scope in self._scopes.values():
                await connection.fetchval("SELECT pg_notify($1, $2)", CHANNEL, scope)

    async def _listen(self, connection: Connection) -> None:
        await connection.add_listener(CHANNEL, self._heard)

    def _heard(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        if payload in self._scopes:
            self._woken()
        elif payload in self._scopes.values():
            self._hurry.set()

    def _leases(self, connection: Connection, topic: str) -> Leases:
        scope = self._scopes[topic]
        return Leases(connection, scope=scope, member=self._member, lease=self._lease, schema=self._schema)
