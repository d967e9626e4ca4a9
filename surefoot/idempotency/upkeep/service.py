"""What the parts that look after a store share."""

import asyncio
from datetime import timedelta

from surefoot.idempotency.values import StoreAway
from surefoot.service import Counts, LoopService, Outage


class Upkeep(LoopService):
    """A loop that waits for a store that is away."""

    def __init__(self, name: str, counter: Counts, *, shortest: timedelta, longest: timedelta) -> None:
        super().__init__(name)
        self.store_away = Outage("The store of idempotency keys", counter, shortest=shortest, longest=longest)

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Until `stop()` is called, or `stop` is set, an event of yours."""
        if stop is not None:
            self.stopping = stop
        await super().run()

    async def outage_of(self, error: Exception) -> Outage:
        if not isinstance(error, StoreAway):
            raise error
        return self.store_away
