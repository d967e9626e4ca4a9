"""Which shards this relay owns right now, renewed by a heartbeat of its own.

A lane takes a snapshot of its leases at the start of a round; a shard is let go only between two rounds of its lane.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import structlog

from outbox_publisher.metrics import HEARTBEAT, LEASES_LOST, SHARDS_OWNED
from surefoot.database.leases import Lease, Leases

log = structlog.get_logger("surefoot.relay")


class Ownership:
    def __init__(self, *, lanes: int, on_gain: Callable[[], None]) -> None:
        self._leases: dict[int, Lease] = {}
        self._rounds = [asyncio.Lock() for _ in range(lanes)]
        self._on_gain = on_gain

    def round(self, lane: int) -> asyncio.Lock:
        """Held by a lane during a round."""
        return self._rounds[lane]

    def of_lane(self, lane: int) -> dict[int, Lease]:
        """The valid leases of a lane's shards."""
        return {
            unit: lease for unit, lease in self._leases.items() if unit % len(self._rounds) == lane and lease.is_valid()
        }

    def units(self) -> list[int]:
        return sorted(self._leases)

    def lost(self, unit: int, fence: int) -> None:
        """A mark was refused: somebody else owns this shard."""
        held = self._leases.get(unit)
        if held is not None and held.fence == fence:
            del self._leases[unit]
            LEASES_LOST.inc()
            log.warning("lost a shard to another relay; what it had sent may be sent again", shard=unit, fence=fence)

    async def beat(self, leases: Leases, *, acquire: bool = True) -> None:
        """One heartbeat: renew, take, and let go what is above our share."""
        standing = await leases.heartbeat(acquire=acquire)
        gained = sorted(standing.held.keys() - self._leases.keys())
        gone = sorted(self._leases.keys() - standing.held.keys())
        self._leases = dict(standing.held)
        for unit in sorted(standing.surplus):
            async with self._rounds[unit % len(self._rounds)]:
                lease = self._leases.pop(unit, None)
            if lease is not None:
                await leases.release(lease)
                gone.append(unit)
        if gained:
            self._on_gain()
        if gained or gone:
            log.info("shards", owned=len(self._leases), gained=gained, gone=gone, relays=standing.members)
        SHARDS_OWNED.set(len(self._leases))
        HEARTBEAT.set_to_current_time()

    async def run(self, leases: Leases, every: timedelta, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            await self.beat(leases)
            try:
                await asyncio.wait_for(stopping.wait(), every.total_seconds())
            except TimeoutError:
                continue
