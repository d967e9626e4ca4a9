"""Fixtures for tests of the dead-letter service. A test module imports those that it needs."""

from collections.abc import AsyncIterator, Iterator

import pytest

from surefoot.database.connection import Connection, connect
from surefoot.database.embedded import EmbeddedPostgres
from tests.conftest import _database
from tests.support.dlq.housekeeping import Kept
from tests.support.dlq.served_harness import Ground, all_parts, ground_at, running


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    """As the service itself connects."""
    connection = await connect(database_url, name="test")
    yield connection
    await connection.close()


@pytest.fixture
def alerts() -> Kept:
    return Kept()


@pytest.fixture(scope="module")
def ground(
    postgres_server: EmbeddedPostgres, _template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    """The service, a relay and a consumer, running for all tests of the module."""
    with (
        _database(postgres_server, template=_template) as url,
        ground_at(url, tmp_path_factory.mktemp("dlq")) as ground,
        running(ground, all_parts(ground)),
    ):
        ground.wait_until_served()
        yield ground
