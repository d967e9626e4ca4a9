"""A relay: lanes, heartbeat, listener and housekeeping, started together and stopped together.

Every part that talks to the database survives its loss: it connects again, as long as it takes. `stop` lets each lane
finish its round, gives the shards back, and leaves.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import Awaitable, Callable

import structlog

from surefoot.database.connection import (
    Connection,
    close_quietly,
    connect,
    explain,
    is_database_error,
    is_outage,
)
from surefoot.database.leases import Leases
from surefoot.errors import LogUnavailable
from surefoot.log.port import EventLog, Publisher
from surefoot.relay.housekeeping import keep_house
from surefoot.relay.lane import Lane
from surefoot.relay.metrics import DATABASE_OUTAGES, LOG_OUTAGES
from surefoot.relay.ownership import Ownership
from surefoot.relay.pacer import Doorbell, Pacer
from surefoot.relay.settings import RelaySettings
from surefoot.relay.store import SESSION_SETTINGS, RelayStore
from surefoot.telemetry.alerts import Alerts
from surefoot.telemetry.outage import Outage

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
