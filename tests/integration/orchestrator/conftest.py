"""Fixtures of the orchestrator's tests: a database with a table of effects, the Postgres log, the trips' topics."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from surefoot.log.postgres import PostgresLog
from tests.consuming import create_topics
from tests.orchestrating import Stage
from tests.trips import EFFECTS, Agency


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
def agency() -> Agency:
    return Agency()
