"""How a sleeping relay is woken: it hangs out a sign that somebody sleeps, and writers ring only while the sign is out.

A notification in every transaction would put all commits of the server in a queue. The sign is one column of the row
a writer reads anyway. It is shared: a relay that wakes takes it in, one that still sleeps hangs it out again with its
next heartbeat. Ringing is for speed only: a relay looks by itself after its longest pause at the latest.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from surefoot.database.connection import Connection, prepared
from surefoot.database.schema import checked_schema

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
