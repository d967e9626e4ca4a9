"""Intake and answers on Kafka. The broker is shared, and the service reads every dead-letter topic there is: so these
tests look at their own topic only, and their events have ids of their own."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from structlog.testing import capture_logs

from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import TopicPartition, key_hash, partition_of
from surefoot.testing.kafka import Broker
from tests.support.consumer.processes import create_topics
from tests.support.dlq.letters import count, letter_record, put, there_are
from tests.support.dlq.outcomes import asked, items, letters_in, say
from tests.support.dlq.service import all_read, intake_running, outcomes_running
from tests.support.event_log.adapters import forget_in_kafka
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
async def kafka_log(kafka: Broker, topic_name: str) -> AsyncIterator[KafkaLog]:
    log = KafkaLog(KafkaSettings(bootstrap_servers=kafka.address))
    await create_topics(log, topic_name, "dlq.outcomes")
    yield log
    await log.close()


async def test_letters_are_taken_in_once_also_from_a_topic_that_is_made_later(
    database_url: str, connection: asyncpg.Connection, kafka_log: KafkaLog, topic_name: str
) -> None:
    ours = f"topic LIKE '{topic_name}%'"
    letters = [letter_record(f"{topic_name}-{n}", topic=topic_name, key=f"k-{n}") for n in range(50)]
    await put(kafka_log, topic_name + ".dlq", *letters, *letters)
    async with intake_running(database_url, kafka_log, group=topic_name):
        await there_are(connection, 50, ours)
        await create_topics(kafka_log, topic_name + ".later")
        await put(kafka_log, topic_name + ".later.dlq", letter_record(f"{topic_name}-50", topic=topic_name + ".later"))
        await put(kafka_log, topic_name + ".dlq", letters[0], letter_record(f"{topic_name}-51", topic=topic_name))
        await there_are(connection, 52, ours)
        await all_read(kafka_log, topic_name + ".dlq", group=topic_name)
    assert await count(connection, f"{ours} AND deaths = 1") == 52


async def test_of_letters_that_kafka_removed_before_they_were_read_it_is_told(
    database_url: str, connection: asyncpg.Connection, kafka: Broker, kafka_log: KafkaLog, topic_name: str
) -> None:
    ours, dlq = f"topic = '{topic_name}'", topic_name + ".dlq"
    await put(kafka_log, dlq, letter_record(f"{topic_name}-1", topic=topic_name))
    async with intake_running(database_url, kafka_log, group=topic_name):
        await there_are(connection, 1, ours)
        await all_read(kafka_log, dlq, group=topic_name)
    await put(kafka_log, dlq, *(letter_record(f"{topic_name}-{n}", topic=topic_name) for n in (2, 3, 4)))
    await forget_in_kafka(kafka.address, TopicPartition(dlq, partition_of(key_hash(b"t-1"), 8)), 3)
    with capture_logs() as lines:
        async with intake_running(database_url, kafka_log, group=topic_name):
            await there_are(connection, 1, f"{ours} AND event_id = '{topic_name}-4'")
    assert await count(connection, ours) == 2
    told = [line for line in lines if "removed from the log" in line["event"] and dlq in line["at"]]
    assert [line["offsets"] for line in told] == ["1 to 2"]


async def test_answers_are_heard(
    database_url: str, connection: asyncpg.Connection, kafka_log: KafkaLog, topic_name: str
) -> None:
    await letters_in(connection, database_url, kafka_log, "e-1", "e-2")
    job = await asked(connection, "replay", "e-1", "e-2")
    await say(kafka_log, job.answer(0, "done"), job.answer(1, "failed_again"), job.answer(0, "failed_again"))

    async def answered() -> bool:
        return await items(connection) == [(1, "ANSWERED", "done"), (2, "ANSWERED", "failed_again")]

    async with outcomes_running(database_url, kafka_log, group=topic_name):
        await eventually(answered, what="both are answered")
    assert await count(connection, "status = 'REPLAYED'") == 1
