"""Fixtures of the dead-letter tests: a database with a table of effects, the Postgres log, a topic with its dead-letter
topic, a relay, a consumer that can be told to fail and be mended."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from outbox_publisher.runtime import Relay
from surefoot.log.postgres import PostgresLog
from tests.integration.consumers.conftest import EFFECTS
from tests.support.consumer.controls import Mendable
from tests.support.consumer.processes import create_topics
from tests.support.event_types import things_on
from tests.support.relay.processes import relay_running


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


@pytest.fixture
async def relay(database_url: str, log: PostgresLog, topic: str) -> AsyncIterator[Relay]:
    async with relay_running(database_url, log) as relay:
        yield relay


@pytest.fixture
def shop() -> Mendable:
    """The consumer `warehouse`. It refuses the numbers in `broken`; take them out to mend it."""
    return Mendable()


# The fast tests have none of these: most run a service, a consumer or the command line, and there are many.
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.slow)
