"""Fixtures for tests that run a consumer: a database with a table of effects, the Postgres log, a topic. A conftest
imports them.
"""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.effects import EFFECTS
from tests.support.consumer.processes import create_topics
from tests.support.event_types import things_on


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
    """With its dead-letter topic, and those that the platform answers on."""
    await create_topics(log, topic_name, "saga.replies", "dlq.outcomes")
    with things_on(topic_name):
        yield topic_name
