"""The sagas' ground as fixtures, on either log; a test module asks for them by
`pytest_plugins = ["tests.support.saga.crash_fixtures"]`.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.postgres.log import PostgresLog
from surefoot.testing.kafka import Broker
from tests.support.saga import crash_harness as saga_ground
from tests.support.saga.crash_harness import Ground


@pytest.fixture
async def kafka_stage(kafka: Broker, database_url: str, tmp_path: Path) -> AsyncIterator[Ground]:
    log = KafkaLog(KafkaSettings(bootstrap_servers=kafka.address))
    async with saga_ground.laid(database_url, log, kafka.address, tmp_path) as ground:
        yield ground


@pytest.fixture
async def postgres_stage(database_url: str, tmp_path: Path) -> AsyncIterator[Ground]:
    async with saga_ground.laid(database_url, PostgresLog(database_url), None, tmp_path) as ground:
        yield ground
