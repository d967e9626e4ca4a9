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
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial

from surefoot.database.connection import Connection, connect, prepared
from surefoot.database.leases import Leases
from surefoot.database.schema import checked_schema
from surefoot.errors import LogUnavailable
from surefoot.log.port import EventLog, Publisher
from surefoot.relay.housekeeping import Housekeeper
from surefoot.relay.lane import NO_HEARTBEAT_YET, Lane, Ownership
from surefoot.relay.metrics import DATABASE_OUTAGES, LOG_OUTAGES
from surefoot.relay.plan import next_pause
from surefoot.relay.settings import RelaySettings
from surefoot.relay.store import SESSION_SETTINGS, RelayStore
from surefoot.service import NO_REST, DatabaseService, Outage, Together, rest
from surefoot.telemetry.alerts import Alerts
from surefoot.telemetry.health import Finding

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
        self._parts = Together()
        self._log_away = Outage("the event log", LOG_OUTAGES, **settings.outage_pauses)
        self._alerts = Alerts(settings.alert_webhook)

    def stop(self) -> None:
        """Finish the rounds under way, then end `run`."""
        self._stopping.set()
        self._parts.stop()

    def readiness(self) -> Iterable[Finding]:
        return [self._log_away.finding("log"), NO_HEARTBEAT_YET, *self._parts.readiness()]

    async def run(self) -> None:
        """Relay until stopped. Raises only what waiting cannot mend: a database without our tables, a bad URL."""
        publisher = await self._log.publisher()
        try:
            await self._until_the_log_answers(publisher)
            if not self._stopping.is_set():
                self._parts = self._parts_on(publisher)
                await self._parts.run()
        finally:
            await publisher.close()
            await self._alerts.close()

    async def _until_the_log_answers(self, publisher: Publisher) -> None:
        """A relay that cannot publish takes no shards, and a wrong address shows before an event waits."""
        while not self._stopping.is_set():
            try:
                await publisher.topic(PROBE)
            except LogUnavailable as error:
                await self._log_away.wait(error, self._stopping)
            else:
                self._log_away.over()
                return

    def _parts_on(self, publisher: Publisher) -> Together:
        settings, notify = self._settings, self._alerts.raise_alert
        pacer = Pacer(
            lanes=settings.lanes,
            shortest=settings.poll_min,
            longest=settings.poll_max,
            say_asleep=lambda asleep: doorbell.set_asleep(asleep),
        )
        doorbell = Doorbell(self.name, self._url, settings, pacer.wake)
        ownership = Ownership(lanes=settings.lanes, on_gain=pacer.wake)
        heartbeat = Heartbeat(self.name, self._url, settings, ownership)
        lanes = [
            Rounds(
                self.name,
                self._url,
                settings,
                Lane(number, settings=settings, ownership=ownership, publisher=publisher, notify=notify),
                pacer,
                number,
            )
            for number in range(settings.lanes)
        ]
        return Together(Lanes(heartbeat, lanes), doorbell, Housekeeper(self._url, self._log, ownership, settings))


class Part(DatabaseService):
    """A part of a relay, on a connection of its own."""

    def __init__(
        self, relay: str, url: str, settings: RelaySettings, session_settings: dict[str, str] | None = None
    ) -> None:
        connecting = partial(
            connect,
            url,
            name=relay,
            lock_timeout=settings.lock_timeout,
            transaction_timeout=settings.lock_timeout,
            command_timeout=settings.lease,
            settings=session_settings,
        )
        super().__init__(relay, url, connecting, Outage("the database", DATABASE_OUTAGES, **settings.outage_pauses))
        self.settings = settings


class Rounds(Part):
    """The rounds of a lane."""

    def __init__(self, relay: str, url: str, settings: RelaySettings, lane: Lane, pacer: "Pacer", number: int) -> None:
        super().__init__(relay, url, settings, SESSION_SETTINGS)
        self._lane = lane
        self._pacer = pacer
        self._number = number

    def stop(self) -> None:
        super().stop()
        self._pacer.wake()

    def readiness(self) -> Iterable[Finding]:
        return [*super().readiness(), *self._lane.readiness()]

    async def begin(self, connection: Connection) -> None:
        self._store = await RelayStore.open(connection, self.settings.db_schema)

    async def round(self) -> timedelta:
        await self.connected()
        done = await self._lane.round(self._store)
        self.database_away.over()
        if not done.full:
            await self._pacer.rest(self._number, done.found)
        return NO_REST


class Heartbeat(Part):
    """Renews the leases on shards; when it is stopped, gives them back."""

    def __init__(self, relay: str, url: str, settings: RelaySettings, ownership: Ownership) -> None:
        super().__init__(relay, url, settings)
        self._ownership = ownership

    def readiness(self) -> Iterable[Finding]:
        return [*super().readiness(), self._ownership.finding(self.settings.lease)]

    async def begin(self, connection: Connection) -> None:
        lease, schema = self.settings.lease, self.settings.db_schema
        self._leases = Leases(connection, scope=SCOPE, member=self.name, lease=lease, schema=schema)

    async def round(self) -> timedelta:
        await self.connected()
        await self._ownership.beat(self._leases)
        self.database_away.over()
        await rest(self.stopping, self.settings.heartbeat)
        if self.stopping.is_set():
            await self._ownership.settled()
            await self._leases.leave()
        return NO_REST


class Lanes(Together):
    """The lanes, and the heartbeat that they need until the last of them has ended: a lane's last round still needs
    its leases."""

    def __init__(self, heartbeat: Heartbeat, lanes: Sequence[Rounds]) -> None:
        super().__init__(*lanes)
        self._heartbeat = heartbeat

    def readiness(self) -> Iterable[Finding]:
        return [*self._heartbeat.readiness(), *super().readiness()]

    async def run(self) -> None:
        beating = asyncio.create_task(self._heartbeat.run())
        beating.add_done_callback(lambda _: self.stop())
        try:
            await super().run()
        finally:
            self._heartbeat.stop()
            await beating


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


class Doorbell(Part):
    """Hears the bell, and keeps the sign."""

    def __init__(self, relay: str, url: str, settings: RelaySettings, ring: Callable[[], None]) -> None:
        super().__init__(relay, url, settings)
        self._ring = ring
        self._asleep = False
        self._is_out = False
        self._changed = asyncio.Event()

    def stop(self) -> None:
        super().stop()
        self._changed.set()

    def set_asleep(self, asleep: bool) -> None:
        """Hang the sign out, or take it in. The next round does it, a moment later."""
        self._asleep = asleep
        self._changed.set()

    async def begin(self, connection: Connection) -> None:
        await connection.add_listener(CHANNEL, lambda *_: self._ring())
        (self._sign,) = await prepared(
            connection,
            f"UPDATE {checked_schema(self.settings.db_schema)}.outbox_settings SET asleep_until = now() + $1::interval "
            "WHERE $1::interval > interval '0' OR asleep_until > now()",
        )
        self._is_out = False

    async def round(self) -> timedelta:
        self._changed.clear()
        asleep = self._asleep
        await self.connected()
        await self._sign.fetch(self.settings.lease if asleep else timedelta(0))
        self.database_away.over()
        if asleep and not self._is_out:
            self._ring()  # one more look by every lane: what was committed before the sign was out
        self._is_out = asleep
        # Also while awake: that the connection still answers is found out only by using it.
        await rest(self._changed, self.settings.heartbeat)
        return NO_REST
