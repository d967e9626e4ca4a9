"""When lanes rest, how long, and when the relay says that it sleeps.

While events come, lanes poll by themselves, a few milliseconds apart, and writers send no notifications. That holds for
every lane as long as one of them finds something: nobody rings for the others. When all have found nothing for a while
the relay says that it sleeps, and a lane waits for the bell or for the longest pause, whichever is first.

A notification in every transaction would put all commits of the server in a queue. So a sleeping relay hangs out a
sign, one column of a row that writers read anyway, and writers ring only while the sign is out. The sign is shared: a
relay that wakes takes it in, one that still sleeps hangs it out again with its next heartbeat. Ringing is for speed
only: a relay looks by itself after its longest pause at the latest.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from surefoot.database.connection import Connection, prepared
from surefoot.database.schema import checked_schema
from surefoot.relay.plan import next_pause

AWAKE = timedelta(milliseconds=4)
"""Longest pause of a lane that nobody rings for."""


class Pacer:
    def __init__(
        self, *, lanes: int, shortest: timedelta, longest: timedelta, say_asleep: Callable[[bool], None]
    ) -> None:
        self._shortest = shortest
        self._awake_most = max(shortest, min(AWAKE, longest))
        self._longest = longest
        self._say_asleep = say_asleep
        self._pauses = [shortest] * lanes
        self._rested = [timedelta(0)] * lanes
        """Since a lane last found something."""
        self._bells = [asyncio.Event() for _ in range(lanes)]
        self._asleep = False

    def wake(self) -> None:
        """Something was written, or we are to stop: every lane looks at once."""
        for bell in self._bells:
            bell.set()

    async def rest(self, lane: int, found: int) -> None:
        """Rest after a round that was not full."""
        pause = self.pause(lane, found)
        bell = self._bells[lane]
        try:
            await asyncio.wait_for(bell.wait(), pause.total_seconds())
        except TimeoutError:
            return
        bell.clear()

    def pause(self, lane: int, found: int) -> timedelta:
        """How long this lane rests now; and whether the relay sleeps with it."""
        pause = next_pause(self._pauses[lane], found=found, shortest=self._shortest, longest=self._awake_most)
        self._pauses[lane] = pause
        self._rested[lane] = timedelta(0) if found else self._rested[lane] + pause
        asleep = all(rested >= self._longest for rested in self._rested)
        if asleep != self._asleep:
            self._asleep = asleep
            self._say_asleep(asleep)
        return self._longest if asleep else pause


CHANNEL = "surefoot_outbox"


class Doorbell:
    def __init__(self, ring: Callable[[], None], *, schema: str, lease: timedelta, heartbeat: timedelta) -> None:
        self._ring = ring
        self._schema = checked_schema(schema)
        self._lease = lease
        self._heartbeat = heartbeat
        self._asleep = False
        self._changed = asyncio.Event()

    def set_asleep(self, asleep: bool) -> None:
        """Hang the sign out, or take it in. It is done by `listen`, a moment later."""
        self._asleep = asleep
        self._changed.set()

    async def listen(self, connection: Connection, stopping: asyncio.Event, works: Callable[[], None]) -> None:
        """Hear the bell and keep the sign, until stopped."""
        await connection.add_listener(CHANNEL, lambda *_: self._ring())
        (sign,) = await prepared(
            connection,
            f"UPDATE {self._schema}.outbox_settings SET asleep_until = now() + $1::interval "
            "WHERE $1::interval > interval '0' OR asleep_until > now()",
        )
        out = False
        while not stopping.is_set():
            self._changed.clear()
            asleep = self._asleep
            await sign.fetch(self._lease if asleep else timedelta(0))
            works()
            if asleep and not out:
                self._ring()  # one more look by every lane: what was committed before the sign was out
            out = asleep
            await self._until_changed(stopping)

    async def _until_changed(self, stopping: asyncio.Event) -> None:
        waiting = [asyncio.create_task(self._changed.wait()), asyncio.create_task(stopping.wait())]
        # Also while awake: that the connection still answers is found out only by using it.
        await asyncio.wait(waiting, timeout=self._heartbeat.total_seconds(), return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
