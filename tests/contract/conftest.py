"""The adapters of the event log, each held to the same contract."""

from collections.abc import AsyncIterator

import pytest

from surefoot.log.port import EventLog, Publisher, TopicPartition, TopicSpec
from tests.support.event_log.adapters import Adapter, Forget, forget_in_kafka, forget_in_postgres
from tests.support.event_log.members import DAY, LIMIT


@pytest.fixture(params=[pytest.param("kafka", marks=pytest.mark.kafka), "postgres"])
def adapter(request: pytest.FixtureRequest) -> Adapter:
    if request.param == "kafka":
        return Adapter("kafka", request.getfixturevalue("kafka").address)
    return Adapter("postgres", request.getfixturevalue("database_url"))


@pytest.fixture
async def event_log(adapter: Adapter) -> AsyncIterator[EventLog]:
    log = adapter.open()
    yield log
    await log.close()


@pytest.fixture
def forget(adapter: Adapter, event_log: EventLog) -> Forget:
    async def forget(where: TopicPartition, before: int) -> None:
        if adapter.name == "kafka":
            await forget_in_kafka(adapter.address, where, before)
        else:
            await forget_in_postgres(event_log, adapter.address, where, before)

    return forget


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
