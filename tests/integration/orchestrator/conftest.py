"""Fixtures of the orchestrator's tests: a database with a table of effects, the Postgres log, the trips' topics."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.processes import create_topics
from tests.support.saga.orchestrators import Stage
from tests.support.saga.stored_sagas import Ground, ground_at
from tests.support.saga.trips import EFFECTS, Agency


@pytest.fixture
async def stage(database_url: str) -> AsyncIterator[Stage]:
    connection = await asyncpg.connect(database_url)
    await connection.execute(EFFECTS)
    log = PostgresLog(database_url)
    await create_topics(log, "trip.events", "trip.commands", "saga.replies", "dlq.outcomes")
    yield Stage(database_url, connection, log)
    await log.close()
    await connection.close()


@pytest.fixture
async def ground(database_url: str) -> AsyncIterator[Ground]:
    async with ground_at(database_url) as ground:
        yield ground


@pytest.fixture
def agency() -> Agency:
    return Agency()


# The fast tests have one file from here; each of the others runs an orchestrator, or the command line.
HERE = Path(__file__).parent
ALSO_FAST = ("test_deciding.py",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE and item.path.name not in ALSO_FAST:
            item.add_marker(pytest.mark.slow)
