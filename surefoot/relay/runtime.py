"""A relay: lanes, heartbeat, listener and housekeeping, started together and stopped together.

Every part that talks to the database survives its loss: it connects again, as long as it takes. `stop` lets each lane
finish its round, gives the shards back, and leaves.

While events come, lanes poll by themselves, a few milliseconds apart, and writers send no notifications. That holds for
every lane as long as one of them finds something: no writer rings for the others. When all have found nothing for a
while the relay says that it sleeps, and a lane waits for the bell or for the longest pause, whichever is first.

A notification in every transaction would put all commits of the server in a queue. So a sleeping relay hangs out a
sign, one column of a row that writers read anyway, and writers ring only while the sign is out. The sign is shared: a
relay that wakes takes it in, one that still sleeps hangs it out again with its next heartbeat. Ringing is for speed
only: a relay looks by itself after its longest pause at the latest.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import Awaitable, Callable
from datetime import timedelta

import structlog

from surefoot.database.connection import (
    Connection,
    close_quietly,
    connect,
    explain,
    is_database_error,
    is_outage,
    prepared,
)
from surefoot.database.leases import Leases
from surefoot.database.schema import checked_schema
from surefoot.errors import LogUnavailable
from surefoot.log.port import EventLog, Publisher
from surefoot.relay.housekeeping import keep_house
from surefoot.relay.lane import Lane, Ownership
from surefoot.relay.metrics import DATABASE_OUTAGES, LOG_OUTAGES
from surefoot.relay.plan import next_pause
from surefoot.relay.settings import RelaySettings
from surefoot.relay.store import SESSION_SETTINGS, RelayStore
from surefoot.service import Outage
from surefoot.telemetry.alerts import Alerts

Works = Callable[[], None]
log = structlog.get_logger("surefoot.relay")
SCOPE = "outbox"
PROBE = "surefoot.probe"


def relay_name() -> str:
    """Says where it runs and is never used twice."""
    return f"relay-{socket.gethostname()[:24]}-{os.getpid()}-{secrets.token_hex(3)}"


class Relay:
    def __init__(
        self, database_url: str, event_log: EventLog, settings: RelaySettings, name: str | None = None
    ) -> None:
        self.name = name or relay_name()
        self._url = database_url
        self._log = event_log
        self._settings = settings
        self._stopping = asyncio.Event()
        self._lanes_done = asyncio.Event()
        self._pacer = Pacer(
            lanes=settings.lanes,
            shortest=settings.poll_min,
            longest=settings.poll_max,
            say_asleep=lambda asleep: self._doorbell.set_asleep(asleep),
        )
        self._doorbell = Doorbell(
            self._pacer.wake, schema=settings.db_schema, lease=settings.lease, heartbeat=settings.heartbeat
        )
        self._ownership = Ownership(lanes=settings.lanes, on_gain=self._pacer.wake)
        self._alerts = Alerts(settings.alert_webhook)

    def stop(self) -> None:
        """Finish the rounds under way, then end `run`."""
        self._stopping.set()
        self._pacer.wake()

    async def run(self) -> None:
        """Relay until stopped. Raises only what waiting cannot mend: a database without our tables, a bad URL."""
        publisher = await self._log.publisher()
        try:
            await self._until_the_log_answers(publisher)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._surviving(self._heartbeat, self._lanes_done))
                group.create_task(self._surviving(self._listen, self._stopping))
                group.create_task(keep_house(self._url, self._log, self._ownership, self._settings, self._stopping))
                async with asyncio.TaskGroup() as working:
                    for number in range(self._settings.lanes):
                        working.create_task(self._lane(number, publisher))
                self._lanes_done.set()  # only now: a lane's last round still needs its leases
        finally:
            await publisher.close()
            await self._alerts.close()

    async def _until_the_log_answers(self, publisher: Publisher) -> None:
        """A relay that cannot publish takes no shards, and a wrong address shows before an event waits."""
        outage = Outage("the event log", LOG_OUTAGES, **self._settings.outage_pauses)
        while not self._stopping.is_set():
            try:
                await publisher.topic(PROBE)
            except LogUnavailable as error:
                await outage.wait(error, self._stopping)
            else:
                outage.over()
                return

    async def _lane(self, number: int, publisher: Publisher) -> None:
        lane = Lane(
            number,
            settings=self._settings,
            ownership=self._ownership,
            publisher=publisher,
            notify=self._alerts.raise_alert,
        )

        async def work(connection: Connection, works: Works) -> None:
            store = await RelayStore.open(connection, self._settings.db_schema)
            while not self._stopping.is_set():
                done = await lane.round(store)
                works()
                if not done.full:
                    await self._pacer.rest(number, done.found)

        await self._surviving(work, self._stopping, SESSION_SETTINGS)

    async def _heartbeat(self, connection: Connection, works: Works) -> None:
        leases = Leases(
            connection, scope=SCOPE, member=self.name, lease=self._settings.lease, schema=self._settings.db_schema
        )
        await self._ownership.run(leases, self._settings.heartbeat, self._lanes_done, works)
        await leases.leave()

    async def _listen(self, connection: Connection, works: Works) -> None:
        await self._doorbell.listen(connection, self._stopping, works)

    async def _surviving(
        self,
        work: Callable[[Connection, Works], Awaitable[None]],
        until: asyncio.Event,
        session_settings: dict[str, str] | None = None,
    ) -> None:
        """Run `work` on a connection of its own; when the database goes away, connect and run it again.

        An outage is over when the work works, not when a connection could be made: a database that takes connections
        and fails every statement would be asked thousands of times a second."""
        outage = Outage("the database", DATABASE_OUTAGES, **self._settings.outage_pauses)
        while not until.is_set():
            connection: Connection | None = None
            try:
                connection = await self._connect(session_settings)
                await work(connection, outage.over)
                return
            except Exception as error:
                if not is_outage(error):
                    raise (explain(error, self._url) if is_database_error(error) else error) from error
                await outage.wait(error, until)
            finally:
                if connection is not None:
                    await close_quietly(connection)

    async def _connect(self, session_settings: dict[str, str] | None) -> Connection:
        timeout = self._settings.lock_timeout
        return await connect(
            self._url,
            name=self.name,
            lock_timeout=timeout,
            transaction_timeout=timeout,
            command_timeout=self._settings.lease,
            settings=session_settings,
        )


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
