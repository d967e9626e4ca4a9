"""The consumers' ground as fixtures, on either log; a test module asks for them by
`pytest_plugins = ["tests.support.consumer.crash_fixtures"]`.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.postgres.log import PostgresLog
from surefoot.testing.kafka import Broker
from tests.support.consumer import crash_harness as consumer_ground
from tests.support.consumer.crash_harness import Ground


@pytest.fixture
async def kafka_ground(kafka: Broker, database_url: str, topic_name: str, tmp_path: Path) -> AsyncIterator[Ground]:
    log = KafkaLog(KafkaSettings(bootstrap_servers=kafka.address))
    async with consumer_ground.laid(database_url, log, kafka.address, topic_name, tmp_path) as ground:
        yield ground


@pytest.fixture
async def postgres_ground(database_url: str, topic_name: str, tmp_path: Path) -> AsyncIterator[Ground]:
    async with consumer_ground.laid(database_url, PostgresLog(database_url), None, topic_name, tmp_path) as ground:
        yield ground
