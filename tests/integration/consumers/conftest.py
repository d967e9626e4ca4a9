"""Fixtures of the consumer tests: a database with a table of effects, the Postgres log, a topic."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from surefoot.log.postgres import PostgresLog
from tests.support.consumer.processes import create_topics
from tests.support.event_types import things_on

HERE = Path(__file__).parent
EFFECTS = """
    CREATE TABLE effects (n bigint GENERATED ALWAYS AS IDENTITY, event_id text, key text, number int);
"""


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    await connection.execute(EFFECTS)
    yield connection
    await connection.close()


@pytest.fixture
async def log(database_url: str) -> AsyncIterator[PostgresLog]:
    log = PostgresLog(database_url)
    yield log
    await log.close()


@pytest.fixture
async def topic(log: PostgresLog, topic_name: str) -> AsyncIterator[str]:
    await create_topics(log, topic_name, "saga.replies", "dlq.outcomes")
    with things_on(topic_name):
        yield topic_name


# The fast tests have one of each kind from here; each of the others starts a consumer, and there are many.
ALSO_FAST = ("test_once.py",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE and item.path.name not in ALSO_FAST:
            item.add_marker(pytest.mark.slow)
