"""Keeps the store small and watched: answers expire, keys are reaped, the history is sealed, and people are told of
what is stuck. One per deployment is enough; several do not hurt each other."""

import time
from datetime import timedelta

import structlog

from surefoot.idempotency import metrics
from surefoot.idempotency.settings import IdempotencySettings
from surefoot.idempotency.store import Standing, Store
from surefoot.idempotency.upkeep.service import Upkeep
from surefoot.telemetry.alerts import Alert, Alerts

log = structlog.get_logger("surefoot.idempotency")
WATCH_EVERY = timedelta(seconds=5)
OLDEST_CALL_S = 5.0
SAY_EVERY_S = 60.0
"""As long as something is wrong, it is said so often."""
MOST_BATCHES = 200
"""Of one kind in one go: after that the others have their turn, and it goes on in the next."""


class Housekeeping(Upkeep):
    def __init__(self, store: Store, settings: IdempotencySettings, *, alerts: Alerts | None = None) -> None:
        every = WATCH_EVERY, settings.reap_every
        super().__init__("housekeeping", metrics.HOUSEKEEPING_OUTAGES, shortest=min(every), longest=max(every))
        self._store = store
        self._settings = settings
        self._alerts = alerts or Alerts()
        self._said_at: dict[str, float] = {}
        self._clean_at = 0.0

    async def round(self) -> timedelta:
        await self.watch()
        if time.monotonic() >= self._clean_at:
            await self.clean()
            self._clean_at = time.monotonic() + self._settings.reap_every.total_seconds()
        self.store_away.over()
        return min(WATCH_EVERY, self._settings.reap_every)

    async def clean(self) -> None:
        """Everything whose time has come, in batches."""
        batch = self._settings.reap_batch
        for _ in range(MOST_BATCHES):
            expired, reaped = await self._store.expire(batch), await self._store.reap(batch)
            metrics.REAPED.inc(reaped)
            if (expired < batch and reaped < batch) or self.stopping.is_set():
                break
        for _ in range(MOST_BATCHES):
            if await self._store.seal() == 0 or self.stopping.is_set():
                break
        await self._store.prune_history(self._settings.keep_history, batch)

    async def watch(self) -> Standing:
        """Set the gauges, and tell people of what is wrong."""
        standing = await self._store.standing()
        metrics.STUCK.set(standing.stuck)
        metrics.OLDEST_PENDING_S.set(standing.oldest_pending_s)
        if standing.stuck:
            await self._say(
                "idempotency_stuck",
                f"{standing.stuck} request(s) in flight are more than a minute past their lease, and nobody goes on "
                "with them. Does a completer run, and can it reach the app? See: surefoot idempotency stuck.",
            )
        if standing.oldest_pending_s > OLDEST_CALL_S:
            await self._say(
                "idempotency_pending_call",
                f"A provider was called {standing.oldest_pending_s:.0f} s ago and its answer is not known. Is the "
                "provider well? See: surefoot idempotency stuck.",
            )
        return standing

    async def _say(self, code: str, sentence: str) -> None:
        now = time.monotonic()
        if now - self._said_at.get(code, -SAY_EVERY_S) >= SAY_EVERY_S:
            self._said_at[code] = now
            await self._alerts.raise_alert(Alert(code, sentence))
