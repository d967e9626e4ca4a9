"""Changing ledger within the caller's transaction.

The operation's id is claimed first: who comes second with the same id waits for the first one's commit, changes
nothing, and gets the first one's outcome. A single balance is changed by one conditional statement, so that nobody can
come in between; two are locked in the order of their names before they are. Errors of the database are raised, and
`reason_of` says what they mean: the transaction is to be tried again as a whole then.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from services.ledger.outcome import (
    Account,
    Done,
    InvalidMove,
    OperationReused,
    Outcome,
    Overtaken,
    Reason,
    Refused,
    UnknownAccount,
    refusal,
)
from surefoot.errors import FloatMoney
from surefoot.events import Money

Executor = AsyncSession | AsyncConnection

_CLAIM = """
    INSERT INTO ledger.operations (operation_id, source, target, amount, currency, outcome)
    VALUES (:operation_id, :source, :target, :amount, :currency, 'DONE')
    ON CONFLICT (operation_id) DO NOTHING RETURNING operation_id
"""
# FROM claimed, and no EXISTS: when the row had to be waited for, Postgres looks at the condition again, and would not
# find what this statement itself has inserted.
_CHANGE = text(f"""
    WITH claimed AS ({_CLAIM}),
    moved AS (
        UPDATE ledger.accounts AS account SET balance = account.balance + :change
        FROM claimed
        WHERE account.account_id = :account AND account.currency = :currency AND NOT account.frozen
          AND account.balance + :change >= 0
          AND (:change < 0 OR account.cap IS NULL OR account.balance + :change <= account.cap)
        RETURNING account.account_id, account.balance
    ),
    written AS (
        INSERT INTO ledger.entries (operation_id, account_id, change, balance_after)
        SELECT claimed.operation_id, moved.account_id, :change, moved.balance FROM moved, claimed
    )
    SELECT (SELECT count(*) FROM claimed) AS claimed, (SELECT balance FROM moved) AS balance
""")
_CLAIM_ALONE = text(_CLAIM)
_LOCK = text("""
    SELECT * FROM ledger.accounts WHERE account_id IN (:source, :target) ORDER BY account_id FOR UPDATE
""")
_TRANSFER = text("""
    WITH changes AS (
        SELECT account_id, CASE account_id WHEN :source THEN - CAST(:amount AS bigint) ELSE :amount END AS change
        FROM ledger.accounts WHERE account_id IN (:source, :target)
    ),
    moved AS (
        UPDATE ledger.accounts AS account SET balance = account.balance + changes.change
        FROM changes WHERE account.account_id = changes.account_id
        RETURNING account.account_id, changes.change, account.balance
    ),
    written AS (
        INSERT INTO ledger.entries (operation_id, account_id, change, balance_after)
        SELECT CAST(:operation_id AS text), account_id, change, balance FROM moved ORDER BY account_id
    )
    SELECT balance FROM moved WHERE account_id = :source
""")
_ACCOUNT = text("SELECT * FROM ledger.accounts WHERE account_id = :account")
_REFUSE = text("UPDATE ledger.operations SET outcome = :reason WHERE operation_id = :operation_id")
_FIRST = text("""
    SELECT operation.*, entry.balance_after FROM ledger.operations AS operation
    LEFT JOIN ledger.entries AS entry
        ON entry.operation_id = operation.operation_id
        AND entry.account_id = coalesce(operation.source, operation.target)
    WHERE operation.operation_id = :operation_id
""")


@dataclass(frozen=True, slots=True)
class Move:
    """Money from one account to another; or, with one of them alone, into or out of the books."""

    operation_id: str
    source: str | None
    target: str | None
    amount: Money

    def __post_init__(self) -> None:
        amount: object = self.amount
        if isinstance(amount, float):
            raise FloatMoney
        if not isinstance(amount, Money):
            raise InvalidMove(
                f"The amount of {self.operation_id} is a {type(self.amount).__name__}: give "
                'Money(Decimal("19.99"), "EUR").'
            )
        if self.amount.minor_units <= 0:
            raise InvalidMove(f"{self.operation_id} is to move {self.amount}: only more than nothing can be moved.")
        if self.source == self.target:
            raise InvalidMove(f"{self.operation_id} is to move money from {self.source} to itself.")

    @property
    def columns(self) -> dict[str, Any]:
        return {
            "operation_id": self.operation_id,
            "source": self.source,
            "target": self.target,
            "amount": self.amount.minor_units,
            "currency": self.amount.currency,
        }


async def make(tx: Executor, move: Move) -> Outcome:
    """Make the move, or say why not, within the transaction that `tx` is in."""
    if move.source is not None and move.target is not None:
        return await _transfer(tx, move)
    sign, account = (1, move.target) if move.source is None else (-1, move.source)
    change = {"account": account, "change": sign * move.amount.minor_units}
    row = (await tx.execute(_CHANGE, {**move.columns, **change})).one()
    if not row.claimed:
        return await _first_outcome(tx, move)
    if row.balance is not None:
        return Done(Money.minor(row.balance, move.amount.currency))
    found = (await tx.execute(_ACCOUNT, {"account": account})).one_or_none()
    known = _account(found, account)
    reason = refusal(move.amount, *((known, None) if sign < 0 else (None, known)))
    if reason is None:
        raise Overtaken
    return await _refuse(tx, move, reason)


async def _transfer(tx: Executor, move: Move) -> Outcome:
    if (await tx.execute(_CLAIM_ALONE, move.columns)).one_or_none() is None:
        return await _first_outcome(tx, move)
    locked = {row.account_id: row for row in await tx.execute(_LOCK, {"source": move.source, "target": move.target})}
    source = _account(locked.get(move.source), move.source)
    target = _account(locked.get(move.target), move.target)
    reason = refusal(move.amount, source, target)
    if reason is not None:
        return await _refuse(tx, move, reason)
    left = (await tx.execute(_TRANSFER, move.columns)).scalar_one()
    return Done(Money.minor(left, move.amount.currency))


async def _refuse(tx: Executor, move: Move, reason: Reason) -> Refused:
    await tx.execute(_REFUSE, {"operation_id": move.operation_id, "reason": reason})
    return Refused(reason)


async def _first_outcome(tx: Executor, move: Move) -> Outcome:
    first = (await tx.execute(_FIRST, {"operation_id": move.operation_id})).one()
    known = {name: getattr(first, name) for name in move.columns}
    if known != move.columns:
        raise OperationReused(
            f"{move.operation_id} was the id of another change, of {Money.minor(first.amount, first.currency)}: each "
            "change needs an id of its own."
        )
    if first.outcome == "DONE":
        return Done(Money.minor(first.balance_after, first.currency))
    return Refused(first.outcome)


def _account(row: Row[Any] | None, account_id: str | None) -> Account:
    if row is None:
        raise UnknownAccount(f"There is no account {account_id}: open it first.")
    return Account(row.account_id, row.currency, row.balance, row.cap, row.frozen)
