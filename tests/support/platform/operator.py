"""A person who takes back orders that are just being paid: the one way by which money that was taken, or may have been,
has to come back. The provider itself only ever declines, and then there is nothing to give back.
"""

import asyncio

from orchestrator.sagas import sagas
from surefoot.database.connection import close_quietly, connect, is_database_error
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.orchestrator.operators import operate
from surefoot.orchestrator.registry import Registry
from surefoot.orchestrator.store import Store
from surefoot.saga import NotNow
from surefoot.saga.stimulus import Operated

LOOK_S = 0.5
_BEING_PAID = """
    SELECT saga_id::text FROM surefoot.saga_instances
    WHERE saga_type = 'order_placement' AND status = 'RUNNING' AND current_step IN ('capture_payment', 'confirm_order')
    ORDER BY updated_at LIMIT 1"""


class Operator:
    def __init__(self, url: str, orders: int) -> None:
        self.taken_back: set[str] = set()
        """Sagas. Of one whose answer was lost nobody knows whether it was decided."""
        self._url = url
        self._orders = orders
        self._store = Store(Registry(sagas), DEFAULT_SCHEMA)

    async def work(self) -> None:
        """Until so many orders are taken back, or cancelled. Whatever is away is tried again later."""
        while len(self.taken_back) < self._orders:
            try:
                await self._take_one_back()
            except Exception as error:
                if not is_database_error(error):
                    raise
            await asyncio.sleep(LOOK_S)  # a person needs their time

    async def _take_one_back(self) -> None:
        connection = await connect(self._url, name="surefoot tests: operator")
        try:
            saga_id = await connection.fetchval(_BEING_PAID)
            if saga_id is None:
                return
            self.taken_back.add(saga_id)
            decision = Operated("compensate", "Ada", "the buyer called")
            try:
                await operate(connection, self._store, saga_id, decision)
            except NotNow:  # it has gone on meanwhile
                self.taken_back.discard(saga_id)
        finally:
            await close_quietly(connection)
