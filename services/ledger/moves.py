"""Making a move within the caller's transaction.

    outcome = await make(session, Move("order-7:pay", "wallet-1", "shop", Money(Decimal("19.99"), "EUR")))

Who comes second with the same operation id waits for the first one's commit, changes nothing, and gets the first one's
outcome. If the database lets somebody else go first, `Contended` is raised: the transaction is to be tried again as a
whole then. (`make_patiently` does so with the move alone, in a savepoint.) Every refusal is counted by its reason.
"""

from functools import lru_cache
from typing import Any

from sqlalchemy import CursorResult, Row, TextClause, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from services.ledger import statements
from services.ledger.metrics import REFUSED
from services.ledger.move import Move
from services.ledger.outcome import (
    AccountFrozen,
    Contended,
    Done,
    OperationReused,
    Outcome,
    Refused,
    UnknownAccount,
    reason_of,
)
from services.ledger.statement import Statement
from surefoot.events import Money
from surefoot.events.money import CurrencyMismatch

__all__ = ["Executor", "Move", "execute", "make"]

Executor = AsyncSession | AsyncConnection


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
