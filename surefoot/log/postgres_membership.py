"""Belonging to a group of the Postgres log: which partitions are ours, by lease, and for how long.

A background task renews the leases, takes what is ours to take, and gives up what is above our share, after `on_revoked`
was called for it. Partitions that come are handed out by `welcome`, called by the reader's own task. Members tell each
other about comings and goings, so that shares move at once and not at the next heartbeat.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta

from surefoot.database.connection import Connection
from surefoot.database.leases import Lease, Leases, Standing, declare_units
from surefoot.errors import LogUnavailable
from surefoot.log.port import Rebalanced, TopicPartition
from surefoot.log.postgres_line import Line
from surefoot.log.postgres_publisher import CHANNEL
from surefoot.log.postgres_reader import lease_scope

HEARTBEATS_PER_LEASE = 3


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
        self._announced: set[TopicPartition] = set()
        self._giving_up: dict[TopicPartition, asyncio.Task[None]] = {}
        self._moving = asyncio.Lock()
        self._hurry = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self.failed: Exception | None = None

    async def join(self) -> None:
        async with self._line.use() as connection:
            for topic, partitions in self._topics.items():
                await declare_units(connection, scope=self._scopes[topic], units=partitions, schema=self._schema)
        await self._beat()
        await self._tell_others()
        self._keeper = asyncio.create_task(self._keep())

    def owned(self) -> dict[TopicPartition, Lease]:
        """What was announced as ours and is still ours by the clock."""
        return {one: self._held[one] for one in self._announced if one in self._held and self._held[one].is_valid()}

    def announced(self) -> frozenset[TopicPartition]:
        return frozenset(self._announced)

    def coming(self) -> frozenset[TopicPartition]:
        return frozenset(one for one in self._held if one not in self._announced and one not in self._giving_up)

    async def welcome(self, on_assigned: Rebalanced) -> None:
        """Announce what has come. If `on_assigned` fails, it stays unannounced, and the next call tries again."""
        async with self._moving:
            coming = self.coming()
            if coming:
                await on_assigned(coming)
                self._announced |= coming & self._held.keys()

    async def set_asleep(self, asleep: bool) -> None:
        async with self._line.use() as connection:
            for topic in self._topics:
                await self._leases(connection, topic).set_asleep(asleep)

    async def leave(self) -> None:
        """Give everything back at once. If the database is out of reach, the leases run out by themselves."""
        tasks = [task for task in (self._keeper, *self._giving_up.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._revoked(self._announced.copy())
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
        while True:
            try:
                async with asyncio.timeout(interval):
                    await self._hurry.wait()
            except TimeoutError:
                pass
            self._hurry.clear()
            try:
                await self._beat()
            except LogUnavailable:
                # Nothing is delivered from a lease that has run out; the reader's own calls say what is wrong.
                interval_left = min(interval, 1.0)
                await asyncio.sleep(interval_left)
                self._hurry.set()

    async def _beat(self) -> None:
        for topic in self._topics:
            async with self._line.use() as connection:
                standing = await self._leases(connection, topic).heartbeat()
            await self._settle(topic, standing)

    async def _settle(self, topic: str, standing: Standing) -> None:
        found = {TopicPartition(topic, unit): lease for unit, lease in standing.held.items()}
        known = {one for one in self._held if one.topic == topic}
        # A higher fence: somebody else had it in between, so what we know of it is out of date.
        lost = {one for one in known if one not in found or found[one].fence != self._held[one].fence}
        news = found.keys() - (known - lost)
        for one in lost:
            del self._held[one]
        if lost & self._announced:
            await self._revoked(lost & self._announced)
        self._held.update(found)
        surplus = {TopicPartition(topic, unit) for unit in standing.surplus}
        for one in sorted(surplus - self._giving_up.keys(), reverse=True):
            # Beside the heartbeats: `on_revoked` may wait for a handler to end, and the lease must not run out meanwhile.
            self._giving_up[one] = asyncio.create_task(self._give_up(one))
        if news - surplus:
            self._woken()

    async def _give_up(self, where: TopicPartition) -> None:
        try:
            if where in self._announced:
                await self._revoked({where})
            lease = self._held.pop(where, None)
            if lease is not None:
                async with self._line.use() as connection:
                    await self._leases(connection, where.topic).release(lease)
                await self._tell_others()
        except LogUnavailable:
            pass  # it is not renewed any more in our books, and runs out by itself
        finally:
            self._giving_up.pop(where, None)

    async def _revoked(self, going: set[TopicPartition]) -> None:
        async with self._moving:
            going &= self._announced
            try:
                if going and self._on_revoked is not None:
                    await self._on_revoked(frozenset(going))
            except Exception as error:
                self.failed = error  # nobody waits for this task: the next poll raises it
            finally:
                self._announced -= going

    async def _tell_others(self) -> None:
        async with self._line.use() as connection:
            for scope in self._scopes.values():
                await connection.fetchval("SELECT pg_notify($1, $2)", CHANNEL, scope)

    async def _listen(self, connection: Connection) -> None:
        await connection.add_listener(CHANNEL, self._heard)

    def _heard(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        if payload == "":
            self._woken()
        elif payload in self._scopes.values():
            self._hurry.set()

    def _leases(self, connection: Connection, topic: str) -> Leases:
        scope = self._scopes[topic]
        return Leases(connection, scope=scope, member=self._member, lease=self._lease, schema=self._schema)
