"""Every kind of bad record in one topic, between good events: each is one dead letter, and nothing else suffers."""

import uuid
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

import asyncpg
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from surefoot.consumer import Consumer
from surefoot.consumer_runtime.plan import Bad, read
from surefoot.events import new_event
from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import EventLog, Record, StoredRecord, TopicPartition, record_bytes
from surefoot.log.postgres.log import PostgresLog
from surefoot.testing.kafka import Broker
from tests.support.bad_records import CASES, bent_records
from tests.support.consumer.effects import effects, have_effect
from tests.support.consumer.failures import letters, parked, raw_headers, worked_off
from tests.support.consumer.processes import consumer_running, create_topics, publish_records, record_of
from tests.support.event_types import ThingHappened, ThingPaid, things_on
from tests.support.relay.processes import relay_running, statuses
from tests.support.waiting import eventually

PARTITIONS = 8
GENERATED = 100
LARGEST = 400_000


@dataclass(frozen=True, slots=True)
class Expected:
    record: Record
    reason: str | None
    """None: it was made by chance, and nobody has said what it is."""
    identified: bool | None


@pytest.fixture
async def kafka_log(kafka: Broker, topic_name: str) -> AsyncIterator[KafkaLog]:
    log = KafkaLog(KafkaSettings(bootstrap_servers=kafka.address, session_timeout=timedelta(seconds=6)))
    await create_topics(log, topic_name)
    yield log
    await log.close()


@pytest.mark.twin
async def test_bad_records_become_dead_letters_and_good_ones_have_their_effect(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await all_bad_ones_die(database_url, connection, log, topic)
    async with relay_running(database_url, log):

        async def all_sent() -> bool:
            return await statuses(connection) == {"PUBLISHED": len(CASES) + GENERATED}

        await eventually(all_sent, what="every letter is taken by its topic")


@pytest.mark.kafka
async def test_the_same_on_kafka(
    database_url: str, connection: asyncpg.Connection, kafka_log: KafkaLog, topic_name: str
) -> None:
    with things_on(topic_name):
        await all_bad_ones_die(database_url, connection, kafka_log, topic_name)


async def all_bad_ones_die(url: str, connection: asyncpg.Connection, log: EventLog, topic: str) -> None:
    consumer = Consumer(f"bad-{uuid.uuid4().hex[:8]}")
    consumer.on(ThingHappened)(have_effect)
    consumer.on(ThingPaid)(have_effect)
    bad = [Expected(case.record, case.reason, case.identified) for case in CASES] + made_by_chance(consumer)
    batches: dict[TopicPartition, list[Record]] = {}
    expected: dict[tuple[int, int], Expected] = {}
    for n, one in enumerate(bad):
        records = batches.setdefault(TopicPartition(topic, n % PARTITIONS), [])
        expected[n % PARTITIONS, len(records)] = one
        good = record_of(new_event(ThingHappened(thing_id=f"good-{n % PARTITIONS}", number=n)))
        records += [one.record, good]
    await publish_records(log, batches)

    async with consumer_running(consumer, url, log):
        await worked_off(connection, 2 * len(bad))

    for partition in range(PARTITIONS):
        wanted = list(range(partition, len(bad), PARTITIONS))
        assert await effects(connection, f"good-{partition}") == wanted
    assert len(await effects(connection)) == len(bad)
    await check_parked(connection, expected)
    await check_letters(connection, expected)


async def check_parked(connection: asyncpg.Connection, expected: dict[tuple[int, int], Expected]) -> None:
    rows = await connection.fetch("SELECT partition, log_offset FROM surefoot.parked_events")
    assert {tuple(row) for row in rows} == expected.keys()
    places = sorted(expected)
    for place, row in zip(places, await parked(connection), strict=True):
        one = expected[place]
        assert row["state"] == "DEAD"
        assert (row["value"], row["record_key"]) == (one.record.value, one.record.key)
        assert raw_headers(row) == list(one.record.headers)
        assert row["last_error"]
        if one.reason is not None:
            assert row["reason"] == one.reason
            assert (row["source"] != "surefoot:record") == one.identified, row["event_id"]


async def check_letters(connection: asyncpg.Connection, expected: dict[tuple[int, int], Expected]) -> None:
    found = await letters(connection)
    places = [(int(one["surefoot-origin-partition"]), int(one["surefoot-origin-offset"])) for one in found]
    assert Counter(places) == dict.fromkeys(expected, 1)
    reasons = {(row["event_id"], row["source"]): row["reason"] for row in await parked(connection)}
    for place, letter in zip(places, found, strict=True):
        one = expected[place]
        assert letter["body"] == one.record.value
        assert letter["surefoot-reason"] == (one.reason or letter["surefoot-reason"])
        assert letter["surefoot-reason"] == reasons[letter["surefoot-event-id"], letter["surefoot-event-source"]]


def made_by_chance(consumer: Consumer) -> list[Expected]:
    """Records that were damaged by chance and are bad now, each with an id and a key of its own."""
    found: list[Expected] = []

    @settings(
        max_examples=6 * GENERATED,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(bent_records())
    def collect(record: Record) -> None:
        if len(found) < GENERATED:
            record = renamed(record, f"b-{len(found)}".encode())
            stored = StoredRecord("test.things", 0, 0, 0, *record)
            if record_bytes(record) < LARGEST and isinstance(read(stored, consumer), Bad):
                found.append(Expected(record, None, None))

    collect()
    assert len(found) == GENERATED
    return found


def renamed(record: Record, name: bytes) -> Record:
    """The same under another id and key: all of them are bent from one good record."""
    headers = tuple((header, None if raw is None else raw.replace(b"e-1", name)) for header, raw in record.headers)
    key = None if record.key is None else record.key.replace(b"e-1", name)
    return Record(key, None if record.value is None else record.value.replace(b"e-1", name), headers)
