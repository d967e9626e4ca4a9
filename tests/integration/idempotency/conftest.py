"""A store on a database of its own, and a connection to look into it."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from surefoot.idempotency.store import Store
from tests.support.idempotency.store_requests import SETTINGS


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    await connection.execute("CREATE TABLE effects (n int PRIMARY KEY)")
    yield connection
    await connection.close()


@pytest.fixture
async def store(database_url: str, connection: asyncpg.Connection) -> AsyncIterator[Store]:
    async with Store(database_url, SETTINGS) as store:
        yield store
