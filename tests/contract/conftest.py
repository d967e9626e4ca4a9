"""The adapters of the event log, each held to the same contract."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from surefoot.log.kafka import KafkaLog
from surefoot.log.kafka_settings import KafkaSettings
from surefoot.log.port import EventLog, Publisher, TopicSpec
from surefoot.log.postgres import PostgresLog
from tests.contract.reading import DAY, LIMIT


@pytest.fixture(params=[pytest.param("kafka", marks=pytest.mark.kafka), "postgres"])
async def event_log(request: pytest.FixtureRequest) -> AsyncIterator[EventLog]:
    log: EventLog
    if request.param == "kafka":
        address = request.getfixturevalue("kafka").address
        log = KafkaLog(KafkaSettings(bootstrap_servers=address, session_timeout=timedelta(seconds=3)))
    else:
        log = PostgresLog(request.getfixturevalue("database_url"), lease=timedelta(seconds=3))
    yield log
    await log.close()


@pytest.fixture
async def topic(event_log: EventLog, topic_name: str) -> str:
    """A topic of four partitions."""
    await event_log.create([TopicSpec(topic_name, partitions=4, retention=DAY, max_record_bytes=LIMIT)])
    return topic_name


@pytest.fixture
async def publisher(event_log: EventLog) -> AsyncIterator[Publisher]:
    publisher = await event_log.publisher()
    yield publisher
    await publisher.close()
