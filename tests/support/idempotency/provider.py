"""A provider for tests: it works once for each key, and remembers that in tables of its own, whoever is killed."""

import asyncio
from dataclasses import dataclass

from surefoot.database.connection import Pool, create_pool

SCHEMA = """
CREATE SCHEMA IF NOT EXISTS provider;
CREATE TABLE IF NOT EXISTS provider.charges (key text PRIMARY KEY, charge_id text NOT NULL, mark text NOT NULL,
    amount numeric NOT NULL);
CREATE TABLE IF NOT EXISTS provider.calls (number bigint GENERATED ALWAYS AS IDENTITY, key text NOT NULL,
    mark text NOT NULL);
"""
CHARGE = """
WITH called AS (INSERT INTO provider.calls (key, mark) VALUES ($1, $2))
INSERT INTO provider.charges (key, charge_id, mark, amount) VALUES ($1, 'ch_' || md5($1), $2, $3)
ON CONFLICT (key) DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class Charged:
    charge_id: str


class Refused(Exception):
    """The provider says no: nothing was charged."""

    def __init__(self, status: int) -> None:
        super().__init__(f"refused with {status}")
        self.status = status


class TableProvider:
    """`manner` says how it behaves: `answer`, `no_answer` (it charges and says nothing), `break` (it charges and the
    connection breaks), or a status that it refuses with."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def charge(self, mark: str, amount: float, manner: str, *, key: str) -> Charged:
        if manner.isdigit():
            raise Refused(int(manner))
        async with self._pool.acquire() as connection:
            await connection.execute(CHARGE, key, mark, amount)
            found = await connection.fetchval("SELECT charge_id FROM provider.charges WHERE key = $1", key)
        if manner == "no_answer":
            await asyncio.Event().wait()
        if manner == "break":
            raise ConnectionResetError("the provider went away")
        return Charged(found)

    async def count(self, mark: str) -> int:
        async with self._pool.acquire() as connection:
            return int(await connection.fetchval("SELECT count(*) FROM provider.charges WHERE mark = $1", mark))


async def open_pool(url: str) -> Pool:
    return await create_pool(url, name="reference provider", size=8)
