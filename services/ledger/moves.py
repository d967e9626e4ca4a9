"""Making a move within the caller's transaction.

    outcome = await make(session, Move("order-7:pay", "wallet-1", "shop", Money(Decimal("19.99"), "EUR")))

Who comes second with the same operation id waits for the first one's commit, changes nothing, and gets the first one's
outcome. If the database lets somebody else go first, `Contended` is raised: the transaction is to be tried again as a
whole then. `make_patiently` does so with the move alone, in a savepoint: after 50, 100 and 200 ms, plus a jitter of up
to as much. CONFLICT and THROTTLED are tried again, INSUFFICIENT and CAP_EXCEEDED are answers.

Every refusal is counted by its reason, those that are tried again included.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any, get_args

from prometheus_client import Counter
from sqlalchemy import CursorResult, Row, TextClause, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from services.ledger import statements
from services.ledger.move import (
    AccountFrozen,
    Contended,
    Done,
    Move,
    OperationReused,
    Outcome,
    Reason,
    Refused,
    UnknownAccount,
    reason_of,
)
from services.ledger.statements import Statement
from surefoot.consumer import Retry
from surefoot.events import Money
from surefoot.events.money import CurrencyMismatch

Executor = AsyncSession | AsyncConnection
REFUSED = Counter(
    "surefoot_ledger_refused_total", "Attempts to move money that were refused, those tried again included.", ["reason"]
)
for _reason in get_args(Reason):
    REFUSED.labels(_reason)  # from the start, at 0: an increase is seen from the first on
# A rest is between half and all of what Retry doubles: 50 to 100 ms, 100 to 200 ms, 200 to 400 ms.
RETRY = Retry(attempts=4, first=timedelta(milliseconds=100), longest=timedelta(milliseconds=400))


async def execute(tx: Executor, statement: Statement) -> CursorResult[Any]:
    """Say it to the database, within the transaction that `tx` is in."""
    result = await tx.execute(_clause(statement.sql), dict(statement.parameters))
    assert isinstance(result, CursorResult)
    return result


async def make(tx: Executor, move: Move) -> Outcome:
    """Make the move, or say why not, within the transaction that `tx` is in."""
    try:
        row = (await execute(tx, statements.move(move))).one()
    except DBAPIError as error:
        reason = reason_of(error)
        if reason is None:
            raise
        REFUSED.labels(reason).inc()
        raise Contended(reason) from error
    if row.outcome == "DONE":
        return Done(Money.minor(row.balance, move.amount.currency))
    if row.outcome is not None:
        REFUSED.labels(row.outcome).inc()
        return Refused(row.outcome)
    first = (await execute(tx, statements.first_outcome(move))).one_or_none()
    if first is None:
        raise _complaint(move, row)
    return _first_outcome(move, first)


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


def _first_outcome(move: Move, first: Row[Any]) -> Outcome:
    known = (first.source, first.target, first.amount, first.currency)
    if known != (move.giver, move.taker, move.amount.minor_units, move.amount.currency):
        raise OperationReused(
            f"{move.operation_id} was the id of another move, of {Money.minor(first.amount, first.currency)}: each "
            "move needs an id of its own."
        )
    if first.outcome == "DONE":
        return Done(Money.minor(first.balance_after, first.currency))
    return Refused(first.outcome)


def _complaint(move: Move, row: Row[Any]) -> Exception:
    """Why nothing can be decided about the move: no money that comes or goes would help."""
    for account_id in move.inside:
        if account_id not in row.found:
            return UnknownAccount(f"There is no account {account_id}: open it first.")
    for sentence in row.foreign_ones:
        return CurrencyMismatch(f"The account {sentence}, and {move.amount} is not: convert it first.")
    for account_id in row.frozen:
        return AccountFrozen(f"The account {account_id} is frozen: nothing is changed until it is released.")
    return AssertionError(f"{move.operation_id} was neither made nor refused, and was not known.")


@lru_cache(maxsize=64)
def _clause(sql: str) -> TextClause:
    return text(sql)
