"""Wallets: `debit`, `credit` and `transfer`, each in a transaction of its own, tried again where that can help.

    ledger = Ledger(create_async_engine(url))
    await ledger.debit("wallet-1", Money(Decimal("19.99"), "EUR"), operation_id="order-7:pay")

The same operation id twice changes nothing twice, and gets the first outcome again. Within a transaction of your own,
use `services.ledger.moves.make`.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from services.ledger.moves import Move, make
from services.ledger.outcome import Outcome, Refused, UnknownAccount, reason_of
from surefoot.consumer import Retry
from surefoot.events import Money
from surefoot.events.money import CurrencyMismatch

RETRY = Retry(attempts=6, first=timedelta(milliseconds=10), longest=timedelta(milliseconds=200))
LOCK_TIMEOUT = timedelta(seconds=1)
Sleep = Callable[[float], Awaitable[None]]
Chance = Callable[[], float]

_OPEN = text("""
    INSERT INTO ledger.accounts (account_id, currency, cap) VALUES (:account_id, :currency, :cap)
    ON CONFLICT (account_id) DO UPDATE SET account_id = excluded.account_id
    RETURNING currency, cap
""")
_BALANCE = text("SELECT balance, currency FROM ledger.accounts WHERE account_id = :account_id")
_FREEZE = text("UPDATE ledger.accounts SET frozen = :frozen WHERE account_id = :account_id RETURNING 1")
_LIMIT_LOCKS = text(f"SET LOCAL lock_timeout = {int(LOCK_TIMEOUT.total_seconds() * 1000)}")


class Ledger:
    def __init__(
        self, engine: AsyncEngine, *, retry: Retry = RETRY, sleep: Sleep = asyncio.sleep, chance: Chance = random.random
    ) -> None:
        """`retry` bounds how often CONFLICT and THROTTLED are tried again; the rests between are `sleep`'s."""
        self._engine = engine
        self._retry = retry
        self._sleep = sleep
        self._chance = chance

    async def debit(self, account_id: str, amount: Money, *, operation_id: str) -> Outcome:
        """Take from the account what it has; INSUFFICIENT if it has less."""
        return await self._move(Move(operation_id, account_id, None, amount))

    async def credit(self, account_id: str, amount: Money, *, operation_id: str) -> Outcome:
        """Give to the account what it may hold; CAP_EXCEEDED if that is less."""
        return await self._move(Move(operation_id, None, account_id, amount))

    async def transfer(self, source: str, target: str, amount: Money, *, operation_id: str) -> Outcome:
        """From one account to another: both change, or neither."""
        return await self._move(Move(operation_id, source, target, amount))

    async def open(self, account_id: str, currency: str, *, cap: Money | None = None) -> None:
        """Open an account with nothing in it. Opening it again changes nothing."""
        if cap is not None and cap.currency != currency:
            raise CurrencyMismatch(f"An account in {currency} cannot have a cap of {cap}.")
        Money.minor(0, currency)  # refuses what is no currency
        given = {"account_id": account_id, "currency": currency, "cap": None if cap is None else cap.minor_units}
        async with self._engine.begin() as tx:
            known = (await tx.execute(_OPEN, given)).one()
        if known.currency != currency:
            raise CurrencyMismatch(f"The account {account_id} is there already, in {known.currency}.")

    async def balance(self, account_id: str) -> Money:
        async with self._engine.connect() as connection:
            row = (await connection.execute(_BALANCE, {"account_id": account_id})).one_or_none()
        if row is None:
            raise UnknownAccount(f"There is no account {account_id}: open it first.")
        return Money.minor(row.balance, row.currency)

    async def freeze(self, account_id: str) -> None:
        """Nothing is changed until it is released: every change raises AccountFrozen."""
        await self._set_frozen(account_id, True)

    async def release(self, account_id: str) -> None:
        await self._set_frozen(account_id, False)

    async def _set_frozen(self, account_id: str, frozen: bool) -> None:
        async with self._engine.begin() as tx:
            if (await tx.execute(_FREEZE, {"account_id": account_id, "frozen": frozen})).one_or_none() is None:
                raise UnknownAccount(f"There is no account {account_id}: open it first.")

    async def _move(self, move: Move) -> Outcome:
        failures = 0
        while True:
            outcome = await self._once(move)
            if not isinstance(outcome, Refused) or not outcome.is_retriable:
                return outcome
            failures += 1
            rest = self._retry.rest(failures, self._chance())
            if rest is None:
                return outcome
            await self._sleep(rest.total_seconds())

    async def _once(self, move: Move) -> Outcome:
        try:
            async with self._engine.begin() as tx:
                await tx.execute(_LIMIT_LOCKS)
                return await make(tx, move)
        except Exception as error:
            reason = reason_of(error)
            if reason is None:
                raise
            return Refused(reason)
