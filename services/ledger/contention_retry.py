"""Trying again what lost against somebody else: after 50, 100 and 200 ms, plus a jitter of up to as much.

CONFLICT and THROTTLED are tried again, INSUFFICIENT and CAP_EXCEEDED are answers. Each attempt that lost is counted.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from services.ledger.metrics import REFUSED
from services.ledger.moves import Executor, Move, make
from services.ledger.outcome import Contended, Outcome, Refused, reason_of
from surefoot.consumer import Retry

# A rest is between half and all of what Retry doubles: 50 to 100 ms, 100 to 200 ms, 200 to 400 ms.
RETRY = Retry(attempts=4, first=timedelta(milliseconds=100), longest=timedelta(milliseconds=400))


@dataclass(frozen=True, slots=True)
class ContentionRetry:
    """`retry` bounds how often it is tried; the rests between are `sleep`'s, their jitter is `chance`'s."""

    retry: Retry = RETRY
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    async def insist(self, once: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Try until it is done or answered. `once` must leave nothing behind when it raises."""
        failures = 0
        while True:
            outcome = await _typed(once)
            if not isinstance(outcome, Refused) or not outcome.is_retriable:
                return outcome
            failures += 1
            rest = self.retry.rest(failures, self.chance())
            if rest is None:
                return outcome
            await self.sleep(rest.total_seconds())


CONTENTION_RETRY = ContentionRetry()


async def make_patiently(tx: Executor, move: Move, retry: ContentionRetry = CONTENTION_RETRY) -> Outcome:
    """`make` within the caller's transaction, in a savepoint, so that the transaction outlives a conflict.

    The rests are taken with the caller's transaction open. What it has locked itself stays locked: a deadlock over that
    comes back as CONFLICT after the last attempt, and is the caller's to try again as a whole."""

    async def once() -> Outcome:
        async with tx.begin_nested():
            return await make(tx, move)

    return await retry.insist(once)


async def _typed(once: Callable[[], Awaitable[Outcome]]) -> Outcome:
    try:
        return await once()
    except Contended as lost:
        return Refused(lost.reason)
    except Exception as error:  # before the move or after it: no connection was free, or the commit was refused
        reason = reason_of(error)
        if reason is None:
            raise
        REFUSED.labels(reason).inc()
        return Refused(reason)
