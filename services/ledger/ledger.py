"""`debit`, `credit` and `transfer`, each in a transaction of its own, tried again where that can help.

    ledger = Ledger(create_async_engine(url))
    await ledger.debit("wallet-1", Money(Decimal("19.99"), "EUR"), operation_id="order-7:pay")

The same operation id twice changes nothing twice, and gets the first outcome again. Within a transaction of your own,
use `make` or `make_patiently`.
"""

from datetime import timedelta

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from services.ledger import statements
from services.ledger.account import open_account
from services.ledger.account_statement import MOST_LINES, Line, statement_of
from services.ledger.contention_retry import CONTENTION_RETRY, ContentionRetry
from services.ledger.move import ACCOUNT, Move, check_account, check_name
from services.ledger.moves import execute, make
from services.ledger.outcome import Outcome, UnknownAccount
from services.ledger.statement import Statement
from surefoot.events import Money

LOCK_TIMEOUT = timedelta(seconds=2)
"""Longer than the database takes to find a deadlock (1 s): that is a CONFLICT, and is over at once for one of both."""
_LIMIT_LOCKS = text(f"SET LOCAL lock_timeout = {int(LOCK_TIMEOUT.total_seconds() * 1000)}")


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
