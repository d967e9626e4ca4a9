"""What a relay does beside relaying: removes what is past its retention, and measures how old the oldest waiting row
is.

The owner of shard 0 removes; each relay measures its own shards. Deletes are small and each its own transaction.
"""

from datetime import timedelta

from surefoot.database.connection import close_quietly, connect, is_database_error
from surefoot.errors import LogUnavailable
from surefoot.log.port import EventLog
from surefoot.relay.lane import Ownership
from surefoot.relay.metrics import OLDEST_UNPUBLISHED, REMOVED
from surefoot.relay.settings import RelaySettings
from surefoot.relay.store import SESSION_SETTINGS, Housekeeping
from surefoot.service import LoopService

DELETE_ROWS = 2000


class Housekeeper(LoopService):
    def __init__(self, url: str, event_log: EventLog, ownership: Ownership, settings: RelaySettings) -> None:
        super().__init__("relay-housekeeping", rest_first=settings.housekeeping)
        self._url = url
        self._log = event_log
        self._ownership = ownership
        self._settings = settings

    async def round(self) -> timedelta:
        try:
            await self._once()
        except Exception as error:
            if not isinstance(error, LogUnavailable) and not is_database_error(error):
                raise  # else: the lanes tell of it
        return self._settings.housekeeping

    async def _once(self) -> None:
        connection = await connect(
            self._url,
            name=self.name,
            lock_timeout=self._settings.lock_timeout,
            command_timeout=self._settings.lease,
            settings=SESSION_SETTINGS,
        )
        try:
            store = Housekeeping(connection, self._settings.db_schema)
            ages = await store.oldest_ages(self._ownership.units())
            OLDEST_UNPUBLISHED.set(max(ages.values(), default=0.0))
            if 0 not in self._ownership.units():
                return
            removed = DELETE_ROWS
            while removed == DELETE_ROWS and not self.stopping.is_set():
                removed = await store.remove_published(older_than=self._settings.retention, at_most=DELETE_ROWS)
                REMOVED.inc(removed)
            await self._log.expire()
        finally:
            await close_quietly(connection)
