"""Closing an engine whose server may have fallen silent: it says goodbye, and does not wait for an answer for ever."""

import asyncio
from weakref import WeakSet

from sqlalchemy.event import listen
from sqlalchemy.ext.asyncio import AsyncEngine

from surefoot.database.connection import Connection


class Disposal:
    """Made with the engine: it remembers the connections that the engine opens."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._drivers: WeakSet[Connection] = WeakSet()
        listen(engine.sync_engine, "connect", lambda made, _: self._drivers.add(made.driver_connection))

    async def dispose(self, within_s: float) -> None:
        """Close all connections; after so many seconds, by cutting them."""
        closing = asyncio.create_task(self._engine.dispose())
        await asyncio.wait([closing], timeout=within_s)
        if not closing.done():
            for driver in list(self._drivers):
                driver.terminate()  # which ends the wait for an answer
        await closing
