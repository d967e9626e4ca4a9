"""An orchestrator: a consumer whose handler is the saga engine, and timers beside it.

Start as many as you like. The log shares the partitions among their consumers; timers are everybody's, and each is
decided by whoever locks its saga.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import structlog

from surefoot.consumer import Retry
from surefoot.consumer_runtime.runtime import ConsumerRuntime
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.database.connection import DRIVER_ERRORS, close_quietly, connect, explain
from surefoot.errors import ConfigurationError
from surefoot.log.port import EventLog
from surefoot.orchestrator.deciding import Deciding, consumer_of
from surefoot.orchestrator.evidence import Witness
from surefoot.orchestrator.housekeeping import Housekeeping
from surefoot.orchestrator.metrics import OUTAGES
from surefoot.orchestrator.registry import Registry
from surefoot.orchestrator.settings import OrchestratorSettings
from surefoot.orchestrator.store import SESSION_SETTINGS, Store
from surefoot.orchestrator.timers import Timers
from surefoot.saga import Saga
from surefoot.service import Outage

log = structlog.get_logger("surefoot.orchestrator")
SHORTEST_PAUSE = timedelta(milliseconds=100)
END_WITHIN_S = 5.0
"""How long timers and housekeeping may take to end what they are at, when we are to stop."""
CLOSE_WITHIN_S = 3.0
"""Longer than a connection takes to close."""


class OrchestratorRuntime:
    def __init__(
        self,
        sagas: Sequence[Saga],
        database_url: str,
        event_log: EventLog,
        settings: OrchestratorSettings,
        consumer_settings: ConsumerSettings,
        *,
        retry: Retry | None = None,
    ) -> None:
        self.registry = Registry(sagas)
        self._url = database_url
        self._settings = settings
        self.store = Store(self.registry, settings.db_schema)
        self.consumer = consumer_of(self.registry, Deciding(self.registry, self.store), name=settings.name, retry=retry)
        self._runtime = ConsumerRuntime(
            self.consumer, database_url, event_log, consumer_settings, session_settings=SESSION_SETTINGS
        )
        witness = Witness(settings.name, self.registry, event_log, settings.db_schema)
        outages = (self._outage("the database"), self._outage("the event log"))
        self._timers = Timers(self.registry, self.store, witness, database_url, settings, outages)
        self._house = Housekeeping(database_url, settings)
        self._stopping = asyncio.Event()

    @property
    def name(self) -> str:
        return self._runtime.name

    def stop(self) -> None:
        self._stopping.set()
        self._runtime.stop()

    async def run(self) -> None:
        """Until stopped. Raises only what waiting cannot mend."""
        await check_definitions(self._url, self.registry, self.store)
        beside = [
            asyncio.create_task(self._timers.keep(self._stopping)),
            asyncio.create_task(self._house.keep(self._stopping)),
        ]
        for task in beside:
            task.add_done_callback(lambda _: self.stop())
        ending = asyncio.create_task(self._end(beside))
        try:
            await self._runtime.run()
        finally:
            self.stop()
            await ending
        for task in beside:
            if not task.cancelled():
                task.result()

    async def _end(self, beside: Sequence[asyncio.Task[None]]) -> None:
        """From the stop on, while the consumer ends as well: neither waits for the other."""
        await self._stopping.wait()
        await end(beside)

    def _outage(self, what: str) -> Outage:
        longest = timedelta(seconds=3)
        return Outage(f"saga timers: {what}", OUTAGES, shortest=SHORTEST_PAUSE, longest=longest)


async def end(tasks: Sequence[asyncio.Task[None]]) -> None:
    """They end by themselves, unless the database has fallen silent: then they are cut off. What they had begun is
    rolled back, and done by whoever comes next."""
    _, late = await asyncio.wait(tasks, timeout=END_WITHIN_S)
    if late:
        log.warning("stopped without an answer of the database", waited_s=END_WITHIN_S)
    while late:  # each time whatever is waited for is given up: a statement, the rollback, the connection's end
        for task in late:
            task.cancel()
        _, late = await asyncio.wait(late, timeout=CLOSE_WITHIN_S)


async def check_definitions(url: str, registry: Registry, store: Store) -> None:
    """A saga ends on the version it began with: that version has to be here, and as it was."""
    connection = await connect(url, name="surefoot orchestrator starts")
    try:
        under_way = await connection.fetch(store.sql.under_way)
        for row in under_way:
            registry.definition(row[0], row[1])
        known = [(*place, definition.fingerprint) for place, definition in registry.definitions.items()]
        columns = [list(column) for column in zip(*known, strict=True)]
        await connection.execute(store.sql.know, *columns)
        changed = {(row[0], row[1]) for row in await connection.fetch(store.sql.changed, *columns)}
        used = {(row[0], row[1]): row[2] for row in under_way}
        for saga_type, version in sorted(changed & used.keys()):
            raise ConfigurationError(
                f"The definition of {saga_type} version {version} was changed, and {used[saga_type, version]} saga(s) "
                "that began with the old one are under way. Put the old one back, and give the changed one a new "
                "version."
            )
        await connection.execute(store.sql.adopt, *columns)
    except DRIVER_ERRORS as error:
        raise explain(error, url) from error
    finally:
        await close_quietly(connection)
