"""Fixtures of the dead-letter tests: a database with a table of effects, the Postgres log, a topic with its dead-letter
topic, a relay, a consumer that can be told to fail and be mended."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from surefoot.log.postgres.log import PostgresLog
from surefoot.relay.runtime import Relay
from tests.support.consumer.controls import Mendable
from tests.support.consumer.fixtures import connection, log, topic
from tests.support.relay.processes import relay_running

__all__ = ["connection", "log", "topic"]


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
