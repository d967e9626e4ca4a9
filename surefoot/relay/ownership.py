"""Which shards this relay owns right now, renewed by a heartbeat of its own.

A lane takes a snapshot of its leases at the start of a round; a shard is let go only between two rounds of its lane.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import structlog

from surefoot.database.connection import is_database_error
from surefoot.database.leases import Lease, Leases
from surefoot.relay.metrics import HEARTBEAT, LEASES_LOST, SHARDS_OWNED

log = structlog.get_logger("surefoot.relay")


class Ownership:
    def __init__(self, *, lanes: int, on_gain: Callable[[], None]) -> None:
        self._leases: dict[int, Lease] = {}
        self._rounds = [asyncio.Lock() for _ in range(lanes)]
        self._on_gain = on_gain
        self._letting_go: dict[int, asyncio.Task[None]] = {}
        self._going: set[int] = set()

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
        held = {unit: lease for unit, lease in standing.held.items() if unit not in self._going}
        gained = sorted(held.keys() - self._leases.keys())
        gone = sorted(self._leases.keys() - held.keys())
        self._leases = held
        for unit in standing.surplus - self._letting_go.keys():
            # Beside the heartbeats: a lane may be waiting for the log, and the other leases must not run out meanwhile.
            task = asyncio.create_task(self._let_go(unit, leases))
            self._letting_go[unit] = task
            task.add_done_callback(partial(self._forget_letting_go, unit))
        if gained:
            self._on_gain()
        if gained or gone:
            log.info("shards", owned=len(self._leases), gained=gained, gone=gone, relays=standing.members)
        SHARDS_OWNED.set(len(self._leases))
        HEARTBEAT.set_to_current_time()

    async def _let_go(self, unit: int, leases: Leases) -> None:
        async with self._rounds[unit % len(self._rounds)]:
            lease = self._leases.pop(unit, None)
            self._going.add(unit)
        try:
            if lease is not None:
                await leases.release(lease)
                log.info("let a shard go to another relay", shard=unit)
        except Exception as error:
            if not is_database_error(error):
                raise  # else: the next heartbeat finds it too many again
        finally:
            self._going.discard(unit)

    def _forget_letting_go(self, unit: int, _: object) -> None:
        self._letting_go.pop(unit, None)

    async def settled(self) -> None:
        """Wait for shards on their way out."""
        if self._letting_go:
            await asyncio.wait(set(self._letting_go.values()))

    async def run(self, leases: Leases, every: timedelta, stopping: asyncio.Event, beaten: Callable[[], None]) -> None:
        while not stopping.is_set():
            await self.beat(leases)
            beaten()
            try:
                await asyncio.wait_for(stopping.wait(), every.total_seconds())
            except TimeoutError:
                continue
        await self.settled()
