"""The same on Kafka, whose retention really removes records and whose topics really end earlier than we remember."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.structs import TopicPartition as KafkaPartition

from surefoot.consumer_runtime.partitions import From, PositionLost
from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import TopicPartition
from surefoot.testing.kafka import Broker
from tests.integration.consumers.test_positions import A, run_once, stored, things
from tests.support.consumer.effects import effects
from tests.support.consumer.processes import create_topics, publish
from tests.support.event_types import things_on

pytestmark = pytest.mark.kafka


@pytest.fixture
async def kafka_log(kafka: Broker, topic_name: str) -> AsyncIterator[KafkaLog]:
    log = KafkaLog(KafkaSettings(bootstrap_servers=kafka.address))
    await create_topics(log, topic_name)
    with things_on(topic_name):
        yield log
    await log.close()


async def test_records_that_kafka_removed_before_they_were_read_stop_the_consumer(
    kafka: Broker, kafka_log: KafkaLog, database_url: str, connection: asyncpg.Connection, topic_name: str
) -> None:
    await publish(kafka_log, *things(1, 2))
    await run_once(database_url, kafka_log)
    await publish(kafka_log, *things(3, 4, 5))
    await remove_before(kafka, topic_name, 4)
    with pytest.raises(PositionLost, match=rf"2 offset\(s\) were removed .* say --from {topic_name}/{A}:4"):
        await run_once(database_url, kafka_log)
    assert await effects(connection) == [1, 2]
    await run_once(database_url, kafka_log, From(where=TopicPartition(topic_name, A), offset=4))
    assert await effects(connection) == [1, 2, 5]
    assert await stored(connection, topic_name) == 5


async def test_a_position_beyond_the_end_stops_the_consumer_and_from_start_mends_it(
    kafka_log: KafkaLog, database_url: str, connection: asyncpg.Connection, topic_name: str
) -> None:
    await publish(kafka_log, *things(1, 2))
    await run_once(database_url, kafka_log)
    await connection.execute("UPDATE surefoot.consumer_partitions SET next_offset = 50 WHERE partition = $1", A)
    with pytest.raises(PositionLost, match=r"the log ends at 2: the topic was deleted and made anew"):
        await run_once(database_url, kafka_log)
    await run_once(database_url, kafka_log, From("start"))
    assert await effects(connection) == [1, 2]
    assert await stored(connection, topic_name) == 2


async def remove_before(kafka: Broker, topic: str, offset: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.address)
    await admin.start()
    try:
        await admin.delete_records({KafkaPartition(topic, A): RecordsToDelete(before_offset=offset)})
    finally:
        await admin.close()
