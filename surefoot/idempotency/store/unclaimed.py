"""A transaction for the work of a request that has no key: nothing is claimed, and nothing is remembered of it."""

from surefoot.idempotency.store.transaction import OpenTransaction, Tx


class Unclaimed:
    def __init__(self, transaction: OpenTransaction) -> None:
        self._transaction = transaction
        self.tx = Tx(transaction)

    async def commit(self) -> None:
        await self._transaction.write_work()
        await self._transaction.execute("SELECT 1")  # fails in an aborted transaction, where COMMIT would not
        await self._transaction.commit()

    async def release(self) -> None:
        """Roll back what was not committed. A second time nothing happens."""
        await self._transaction.end()
