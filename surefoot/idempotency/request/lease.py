"""Keeps a claim's lease alive while its request is worked on.

A timer, not a task: most requests are over before the first renewal, and should not pay for it.
"""

import asyncio

import structlog

from surefoot.idempotency.settings import IdempotencySettings
from surefoot.idempotency.store import Store
from surefoot.idempotency.values import Claim, FenceLost, StoreAway

log = structlog.get_logger("surefoot.idempotency")


class Lease:
    """Starts when it is made: the claim has just been committed."""

    def __init__(self, store: Store, claim: Claim, settings: IdempotencySettings) -> None:
        self._store = store
        self._claim = claim
        self._every_s = settings.renew_every.total_seconds()
        self._lease_s = settings.lease.total_seconds()
        self._loop = asyncio.get_running_loop()
        self._known_at = self._loop.time()
        self._is_lost = False
        self._renewing: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(self._every_s, self._begin_renewing)

    async def check(self) -> None:
        """FenceLost unless the claim is surely ours now: asked before anything that cannot be taken back.

        A process that was stopped for a while wakes up with its timers overdue, and must not believe what it knew."""
        if not self._is_lost and self._loop.time() - self._known_at > self._lease_s / 2:
            await self._renew()
        if self._is_lost:
            raise FenceLost

    def stop(self) -> None:
        self._timer.cancel()
        if self._renewing is not None:
            self._renewing.cancel()

    def _begin_renewing(self) -> None:
        self._renewing = self._loop.create_task(self._renew_on_time())

    async def _renew_on_time(self) -> None:
        try:
            await self._renew()
        except StoreAway:
            log.warning("a lease could not be renewed: the store is away")
        if not self._is_lost:
            self._timer = self._loop.call_later(self._every_s, self._begin_renewing)

    async def _renew(self) -> None:
        asked_at = self._loop.time()
        if await self._store.renew(self._claim):
            self._known_at = asked_at
        else:
            self._is_lost = True
