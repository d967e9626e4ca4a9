"""Fixtures of the services' tests: a database with their tables, the Postgres log with the platform's topics."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from schemas import catalogue
from services.settings import Service
from services.tables import create_tables
from surefoot.cli.topics import declared
from surefoot.database.address import sqlalchemy_url
from surefoot.database.embedded import EmbeddedPostgres
from surefoot.log.postgres.log import PostgresLog
from tests.conftest import _database, _execute, _url

SERVICES: tuple[Service, ...] = ("checkout", "order", "warehouse", "shipping", "returns", "notification", "flow")


@pytest.fixture(scope="session")
def _shop_template(postgres_server: EmbeddedPostgres, _template: str) -> str:
    """A database with everybody's tables to copy from: making them for each test would take most of its time."""
    name = "shop_template"
    _execute(postgres_server, f"CREATE DATABASE {name} TEMPLATE {_template}")
    with ThreadPoolExecutor(1) as apart:  # a fixture may be asked for from within a test's event loop
        apart.submit(asyncio.run, _create_all(_url(postgres_server, name))).result()
    return name


async def _create_all(url: str) -> None:
    for service in SERVICES:
        await create_tables(url, service)


@pytest.fixture
def shop_url(postgres_server: EmbeddedPostgres, _shop_template: str) -> Iterator[str]:
    """A database of this test's own with the tables of these services."""
    with _database(postgres_server, template=_shop_template) as url:
        yield url


@pytest.fixture
async def engine(shop_url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(sqlalchemy_url(shop_url), pool_size=12)
    yield engine
    await engine.dispose()


@pytest.fixture
async def session(engine: AsyncEngine) -> AsyncIterator[AsyncSession]:
    async with AsyncSession(engine) as session:
        yield session


@pytest.fixture
async def connection(shop_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(shop_url)
    yield connection
    await connection.close()


@pytest.fixture
async def log(shop_url: str) -> AsyncIterator[PostgresLog]:
    """The Postgres log in the same database, with every topic of the platform."""
    log = PostgresLog(shop_url)
    await log.create(declared(catalogue))
    yield log
    await log.close()


# Each takes little, and together they take their time: the fast tests have none of them.
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.slow)
