"""What a world of the model stands on: a store, in memory or in Postgres, and a clock that can be moved."""

from datetime import datetime, timedelta
from typing import Any, Protocol

from tests.support.idempotency_model.worker import Worker


class Ground(Protocol):
    """What the store stands on: its verbs, and a clock that can be moved."""

    store: Any

    def now(self) -> datetime: ...

    async def advance(self, by: timedelta, workers: list[Worker]) -> None: ...

    async def quiet(self, workers: list[Worker]) -> None:
        """Wait until nobody but these holds the key's lock: what was only looked at is given back a little later."""
