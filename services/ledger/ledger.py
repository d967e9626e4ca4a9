"""`debit`, `credit` and `transfer`, each in a transaction of its own, tried again where that can help; opening
accounts, and their statements, as a bank sends them.

    ledger = Ledger(create_async_engine(url))
    await ledger.debit("wallet-1", Money(Decimal("19.99"), "EUR"), operation_id="order-7:pay")

The same operation id twice changes nothing twice, and gets the first outcome again. Within a transaction of your own,
use `make` or `make_patiently`, `open_account` and `statement_of`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from services.ledger import statements
from services.ledger.move import ACCOUNT, InvalidMove, Move, Outcome, UnknownAccount, check_account, check_name
from services.ledger.moves import CONTENTION_RETRY, ContentionRetry, Executor, execute, make
from services.ledger.statements import Statement
from surefoot.events import Money
from surefoot.events.money import CurrencyMismatch

MOST_LINES = 1_000
LOCK_TIMEOUT = timedelta(seconds=2)
"""Longer than the database takes to find a deadlock (1 s): that is a CONFLICT, and is over at once for one of both."""
_LIMIT_LOCKS = text(f"SET LOCAL lock_timeout = {int(LOCK_TIMEOUT.total_seconds() * 1000)}")


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    at: datetime
    operation_id: str
    other: str
    """The account that it came from or went to."""
    change: Money
    """Below zero for what was given."""
    balance: Money | None
    """Right after it; None for the world outside, whose balance nobody keeps."""


class Ledger:
    def __init__(self, engine: AsyncEngine, *, retry: ContentionRetry = CONTENTION_RETRY) -> None:
        self._engine = engine
        self._retry = retry

    async def debit(self, account_id: str, amount: Money, *, operation_id: str) -> Outcome:
        """Take from the account what it has, out of the books; INSUFFICIENT if it has less."""
        return await self.make(Move(operation_id, account_id, None, amount))

    async def credit(self, account_id: str, amount: Money, *, operation_id: str) -> Outcome:
        """Give to the account what it may hold, from outside; CAP_EXCEEDED if that is less."""
        return await self.make(Move(operation_id, None, account_id, amount))

    async def transfer(self, source: str, target: str, amount: Money, *, operation_id: str) -> Outcome:
        """From one account to another: both change, or neither."""
        return await self.make(Move(operation_id, source, target, amount))

    async def make(self, move: Move) -> Outcome:
        async def once() -> Outcome:
            async with self._engine.begin() as tx:
                await tx.execute(_LIMIT_LOCKS)
                return await make(tx, move)

        return await self._retry.insist(once)

    async def open(self, account_id: str, currency: str, *, cap: Money | None = None) -> None:
        """Open an account with nothing in it. Opening it again changes nothing."""
        async with self._engine.begin() as tx:
            await open_account(tx, account_id, currency, cap=cap)

    async def balance(self, account_id: str) -> Money:
        check_name(ACCOUNT, account_id)
        async with self._engine.connect() as connection:
            row = (await execute(connection, statements.balance(account_id))).one_or_none()
        if row is None:
            raise UnknownAccount(f"There is no account {account_id}: open it first.")
        return Money.minor(row.balance, row.currency)

    async def statement_of(self, account_id: str, *, limit: int = MOST_LINES) -> tuple[Line, ...]:
        """The last so many lines of the account, the oldest first."""
        async with self._engine.connect() as connection:
            return await statement_of(connection, account_id, limit=limit)

    async def freeze(self, account_id: str) -> None:
        """Nothing is changed until it is released: every move raises AccountFrozen."""
        await self._set_frozen(account_id, statements.freeze(account_id))

    async def release(self, account_id: str) -> None:
        await self._set_frozen(account_id, statements.release(account_id))

    async def _set_frozen(self, account_id: str, statement: Statement) -> None:
        check_account(account_id)
        async with self._engine.begin() as tx:
            if (await execute(tx, statement)).one_or_none() is None:
                raise UnknownAccount(f"There is no account {account_id}: open it first.")


async def open_account(tx: Executor, account_id: str, currency: str, *, cap: Money | None = None) -> None:
    """An account with nothing in it. One that is there is left as it is, and nobody who uses it waits for this."""
    check_account(account_id)
    if cap is not None and cap.currency != currency:
        raise CurrencyMismatch(f"An account in {currency} cannot have a cap of {cap}.")
    nothing = Money.minor(0, currency)  # refuses what is no currency
    if cap is not None and cap < nothing:
        raise InvalidMove(f"An account cannot have a cap of {cap}: it would hold less than nothing.")
    await execute(tx, statements.open_account(account_id, currency, None if cap is None else cap.minor_units))
    known = (await execute(tx, statements.balance(account_id))).one()
    if known.currency != currency:
        raise CurrencyMismatch(f"The account {account_id} is there already, in {known.currency}.")


async def statement_of(tx: Executor, account_id: str, *, limit: int = MOST_LINES) -> tuple[Line, ...]:
    """The last so many lines, the oldest first."""
    check_name(ACCOUNT, account_id)
    rows = (await execute(tx, statements.lines(account_id, limit))).all()
    if not rows and (await execute(tx, statements.balance(account_id))).one_or_none() is None:
        raise UnknownAccount(f"There is no account {account_id}: open it first.")
    return tuple(
        Line(
            row.number,
            row.at,
            row.operation_id,
            row.other,
            Money.minor(row.change, row.currency),
            None if row.balance_after is None else Money.minor(row.balance_after, row.currency),
        )
        for row in rows
    )
