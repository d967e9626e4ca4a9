"""The ground of the dead-letter service as fixtures, on either log; a test module asks for them by
`pytest_plugins = ["tests.support.dlq.crash_fixtures"]`.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.postgres.log import PostgresLog
from surefoot.testing.kafka_node import LocalKafka
from tests.support.dlq import crash_harness as dlq_ground
from tests.support.dlq.crash_harness import DlqGround


@pytest.fixture
async def dlq(database_url: str, topic_name: str, tmp_path: Path) -> AsyncIterator[DlqGround]:
    async with dlq_ground.laid(database_url, PostgresLog(database_url), None, topic_name, tmp_path) as ground:
        yield ground


@pytest.fixture
async def kafka_dlq(
    own_broker: LocalKafka, database_url: str, topic_name: str, tmp_path: Path
) -> AsyncIterator[DlqGround]:
    log = KafkaLog(KafkaSettings(bootstrap_servers=own_broker.address))
    async with dlq_ground.laid(database_url, log, own_broker.address, topic_name, tmp_path) as ground:
        yield ground
