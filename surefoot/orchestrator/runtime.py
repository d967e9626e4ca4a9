"""An orchestrator: a consumer whose handler is the saga engine, and timers beside it.

Start as many as you like. The log shares the partitions among their consumers; timers are everybody's, and each is
decided by whoever locks its saga.
"""

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
from surefoot.orchestrator.registry import Registry
from surefoot.orchestrator.settings import OrchestratorSettings
from surefoot.orchestrator.store import SESSION_SETTINGS, Store
from surefoot.orchestrator.timers import Timers
from surefoot.saga import Saga
from surefoot.service import CutOff, Together

log = structlog.get_logger("surefoot.orchestrator")
END_WITHIN = timedelta(seconds=5)
"""How long timers and housekeeping may take to end, when we are to stop. It is enough unless the database is silent."""


class OrchestratorRuntime(Together):
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
        self.store = Store(self.registry, settings.db_schema)
        self.consumer = consumer_of(self.registry, Deciding(self.registry, self.store), name=settings.name, retry=retry)
        runtime = ConsumerRuntime(
            self.consumer, database_url, event_log, consumer_settings, session_settings=SESSION_SETTINGS
        )
        self.name = runtime.name
        witness = Witness(settings.name, self.registry, event_log, settings.db_schema)
        timers = Timers(self.registry, self.store, witness, database_url, settings)
        house = Housekeeping(database_url, settings)
        super().__init__(runtime, CutOff(timers, house, after=END_WITHIN, when_late=_tell_late))

    async def run(self) -> None:
        """Until stopped. Raises only what waiting cannot mend."""
        await check_definitions(self._url, self.registry, self.store)
        await super().run()


def _tell_late() -> None:
    log.warning("stopped without an answer of the database", waited_s=END_WITHIN.total_seconds())


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
