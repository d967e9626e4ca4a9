"""What a relay does beside relaying: removes what is past its retention, and measures how old the oldest waiting row
is.

The owner of shard 0 removes; each relay measures its own shards. Deletes are small and each its own transaction.
"""

import asyncio

import structlog

from surefoot.database.connection import close_quietly, connect, is_database_error
from surefoot.errors import LogUnavailable
from surefoot.log.port import EventLog
from surefoot.relay.lane import Ownership
from surefoot.relay.metrics import OLDEST_UNPUBLISHED, REMOVED
from surefoot.relay.settings import RelaySettings
from surefoot.relay.store import SESSION_SETTINGS, Housekeeping

log = structlog.get_logger("surefoot.relay")
DELETE_ROWS = 2000


async def keep_house(
    url: str, event_log: EventLog, ownership: Ownership, settings: RelaySettings, stopping: asyncio.Event
) -> None:
    while not stopping.is_set():
        try:
            await asyncio.wait_for(stopping.wait(), settings.housekeeping.total_seconds())
        except TimeoutError:
            try:
                await _once(url, event_log, ownership, settings, stopping)
            except LogUnavailable:
                continue  # the lanes tell of it
            except Exception as error:
                if not is_database_error(error):
                    raise


async def _once(
    url: str, event_log: EventLog, ownership: Ownership, settings: RelaySettings, stopping: asyncio.Event
) -> None:
    connection = await connect(
        url,
        name="relay-housekeeping",
        lock_timeout=settings.lock_timeout,
        command_timeout=settings.lease,
        settings=SESSION_SETTINGS,
    )
    try:
        store = Housekeeping(connection, settings.db_schema)
        ages = await store.oldest_ages(ownership.units())
        OLDEST_UNPUBLISHED.set(max(ages.values(), default=0.0))
        if 0 not in ownership.units():
            return
        removed = DELETE_ROWS
        while removed == DELETE_ROWS and not stopping.is_set():
            removed = await store.remove_published(older_than=settings.retention, at_most=DELETE_ROWS)
            REMOVED.inc(removed)
        await event_log.expire()
    finally:
        await close_quietly(connection)
