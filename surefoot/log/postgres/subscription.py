"""Reading from the Postgres log as a member of a group.

Polls a few milliseconds apart while records come, less and less often when none do, and then sleeps until a writer
notifies (or the maximum interval has passed). No transaction is open between two calls. Records come only from
partitions that were announced by `on_assigned` and whose lease is valid.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from surefoot.errors import LeaseLost, LogUnavailable
from surefoot.log.port import Rebalanced, StoredRecord, TopicPartition
from surefoot.log.postgres.line import Line, read_records, read_statement
from surefoot.log.postgres.membership import GroupOffsets, Membership, lost_sentence

FIRST_PAUSE_S = 0.002
DROWSY_PAUSE_S = 0.05
"""When the pauses have grown to this, the reader says that it sleeps."""
BUSY_LOOKS = 16
"""When so many looks in a row have found something, it says that it is awake. Not at the first: where records come now
and then, it would say the one and the other for each of them."""


class PostgresSubscription:
    def __init__(
        self,
        url: str,
        *,
        group: str,
        member: str,
        topics: Mapping[str, int],
        lease: timedelta,
        schema: str,
        max_poll_interval: timedelta,
        on_assigned: Rebalanced | None,
        on_revoked: Rebalanced | None,
    ) -> None:
        self._group = group
        self._member = member
        self._on_assigned = on_assigned
        self._longest_pause_s = max_poll_interval.total_seconds()
        self._line = Line(url, name=f"surefoot log reader {group}")
        self._offsets = GroupOffsets(group, schema)
        self._statement = read_statement(schema)
        self._woken = asyncio.Event()
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._pause_s = FIRST_PAUSE_S
        self._asleep = False
        self._busy_looks = 0
        self._turn = 0
        self._membership = Membership(
            url,
            group=group,
            member=member,
            topics=topics,
            lease=lease,
            schema=schema,
            on_revoked=on_revoked,
            woken=self._woken.set,
        )

    async def join(self) -> None:
        try:
            await self._membership.join()
        except BaseException:
            await self.close()
            raise

    def assigned(self) -> frozenset[TopicPartition]:
        return frozenset(self._membership.announced())

    async def poll(
        self, *, max_records: int = 500, timeout: timedelta = timedelta(seconds=1)
    ) -> Mapping[TopicPartition, Sequence[StoredRecord]]:
        deadline = time.monotonic() + timeout.total_seconds()
        while True:
            self._woken.clear()  # before looking: what comes after the look sets it again
            self._raise_failure()
            if self._membership.coming():
                await self._membership.welcome(self._arrive)
            found = await self._read(max_records)
            if found:
                self._pause_s = DROWSY_PAUSE_S if self._asleep else FIRST_PAUSE_S
                self._busy_looks += 1
                if self._busy_looks >= BUSY_LOOKS:
                    with contextlib.suppress(LogUnavailable):  # what was read is in hand; the next look finds it away
                        await self._need_no_bell()
                return found
            self._busy_looks = 0
            left = deadline - time.monotonic()
            if left <= 0:
                return {}
            await self._rest(left)

    async def commit(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        fences = self._membership.announced()
        lost = [where for where in next_offsets if where not in fences]
        if lost:
            raise LeaseLost(lost_sentence(self._group, lost))
        if next_offsets:
            wanted = {where: (offset, fences[where]) for where, offset in next_offsets.items()}
            async with self._line.use() as connection:
                await self._offsets.commit(connection, self._member, wanted)

    async def committed(self, where: TopicPartition) -> int | None:
        async with self._line.use() as connection:
            return await self._offsets.committed(connection, where)

    async def seek(self, where: TopicPartition, offset: int) -> None:
        if where not in self._ours():
            raise LeaseLost(f"{where.topic}/{where.partition} is not assigned to us (any more): nothing to seek in.")
        self._positions[where] = offset
        self._woken.set()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused |= self._ours().intersection(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused.difference_update(partitions)
        self._woken.set()

    async def close(self) -> None:
        try:
            await self._membership.leave()
        finally:
            await self._line.close()
        self._raise_failure()

    async def _arrive(self, coming: frozenset[TopicPartition]) -> None:
        for where in coming:
            async with self._line.use() as connection:
                self._positions[where] = await self._offsets.start(connection, where)
        self._paused -= coming  # in an earlier time with us, or by an `on_assigned` that failed
        if self._on_assigned is not None:
            await self._on_assigned(coming)

    def _ours(self) -> frozenset[TopicPartition]:
        return self._membership.coming().union(self._membership.announced())

    def _wanted(self) -> set[TopicPartition]:
        return self._membership.owned().keys() - self._paused

    async def _read(self, max_records: int) -> dict[TopicPartition, list[StoredRecord]]:
        owned = sorted(self._wanted())
        if not owned:
            return {}
        # Each time another partition is first, so that a busy one does not starve the others.
        self._turn = (self._turn + 1) % len(owned)
        asked = {where: self._positions[where] for where in owned[self._turn :] + owned[: self._turn]}
        async with self._line.use() as connection:
            found = await read_records(connection, self._statement, asked, max_records)
        # Meanwhile a partition may have been taken from us, or the caller may have paused it or sought elsewhere.
        still = self._wanted()
        kept = {one: found[one] for one in found if one in still and self._positions[one] == asked[one]}
        for where, records in kept.items():
            self._positions[where] = records[-1].offset + 1
        return kept

    async def _rest(self, left_s: float) -> None:
        pause_s = self._pause_s
        announced = self._membership.announced().keys()
        if announced and announced <= self._paused:
            # Nothing is wanted: `resume` wakes us, or what comes. Writers need not, so let them notify nobody.
            await self._need_no_bell()
            pause_s = self._longest_pause_s
        elif self._pause_s >= DROWSY_PAUSE_S and not self._asleep:
            # Then one more look at once, and one after a short pause: a writer that asked who sleeps just before this
            # notifies nobody, and commits a moment later.
            await self._membership.set_asleep(True)
            self._asleep = True
            return
        try:
            async with asyncio.timeout(min(left_s, pause_s)):
                await self._woken.wait()
        except TimeoutError:
            self._pause_s = min(self._pause_s * 2, self._longest_pause_s)

    async def _need_no_bell(self) -> None:
        if self._asleep:
            self._asleep = False
            await self._membership.set_asleep(False)

    def _raise_failure(self) -> None:
        failed, self._membership.failed = self._membership.failed, None
        if failed is not None:
            raise failed
