"""One phase of a claim: its work and the record that it was done are one transaction, which ends with the fence."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from surefoot.consumer.failures import sqlstate_of
from surefoot.failpoints import failpoint
from surefoot.idempotency.store.claims import fence_lost, under
from surefoot.idempotency.store.history import json_text, lines
from surefoot.idempotency.store.statements import Statements
from surefoot.idempotency.store.transaction import OpenTransaction, Tx
from surefoot.idempotency.values import Claim, Note, PhaseMisuse

DUPLICATE = "23505"


class PhaseUnit:
    """Set `result` to what the phase returns, as JSON; add to `notes` what is to be in the history with it."""

    def __init__(self, claim: Claim, name: str, transaction: OpenTransaction) -> None:
        self.tx = Tx(transaction)
        self.result: Any = None
        self.notes: list[Note] = []
        self._claim = claim
        self._name = name
        self._transaction = transaction

    async def commit(self, sql: Statements) -> None:
        result = json_text(self.result, what=f"The result of phase {self._name!r}")
        await self._transaction.write_work()
        done = Note("phase", {"name": self._name})
        try:
            row = await self._transaction.fetchrow(
                sql.phase, *under(self._claim), self._name, result, *lines(*self.notes, done)
            )
        except Exception as error:
            if sqlstate_of(error) == DUPLICATE:
                raise PhaseMisuse(
                    f"Phase {self._name!r} was done before: each phase of a request has a name of its own."
                ) from error
            raise
        if row is None:
            raise await self._transaction.why_not(fence_lost(self._claim))
        await self._transaction.commit()
        await failpoint("idempotency.phase_committed")


@asynccontextmanager
async def phase(transaction: OpenTransaction, sql: Statements, claim: Claim, name: str) -> AsyncIterator[PhaseUnit]:
    try:
        unit = PhaseUnit(claim, name, transaction)
        yield unit
        await unit.commit(sql)
    finally:
        await transaction.end()
