"""What only Kafka can do to us: refuse a batch by itself, fall silent, die and come back."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError
from aiokafka.producer import message_accumulator
from aiokafka.record import default_records

from surefoot.errors import LogUnavailable
from surefoot.log.kafka.aiokafka_typed import new_admin, new_topic
from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.publisher import KafkaPublisher
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import Acknowledged, Record, Refused, TopicPartition, TopicSpec
from surefoot.testing.kafka import Broker, LocalKafka
from tests.support.event_log.members import DAY, member, plain, read, stored
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

PATIENCE = timedelta(seconds=2)


@pytest.fixture
async def log(kafka: Broker) -> AsyncIterator[KafkaLog]:
    log = KafkaLog(KafkaSettings(bootstrap_servers=kafka.address))
    yield log
    await log.close()


@pytest.fixture
async def publisher(log: KafkaLog) -> AsyncIterator[KafkaPublisher]:
    publisher = await log.publisher()
    yield publisher
    await publisher.close()


async def administer(address: str, *, create: Any = None, alter: Any = None) -> None:
    admin = new_admin(KafkaSettings(bootstrap_servers=address))
    await admin.start()
    try:
        if create is not None:
            await admin.create_topics([create])
        if alter is not None:
            await cast(Any, admin).alter_configs([alter])
    finally:
        await admin.close()


async def accepted_until_refused(address: str, topic: str, value: bytes) -> int:
    """A limit is lowered a moment before the broker goes by it: send until it does; how many got through."""
    async with AIOKafkaProducer(bootstrap_servers=address) as producer:
        for accepted in range(10_000):
            try:
                await producer.send_and_wait(topic, value, partition=0)
            except MessageSizeTooLargeError:
                return accepted
    raise AssertionError(f"{topic} still takes {len(value)} bytes")


class TestRefusedByTheBroker:
    @pytest.fixture
    async def compacted(self, kafka: Broker, log: KafkaLog, topic_name: str) -> str:
        """A topic that takes no record without a key: the broker says so, nothing on our side can know."""
        configs = {"cleanup.policy": "compact", "max.message.bytes": "100000"}
        made = new_topic(topic_name, partitions=4, replication_factor=1, configs=configs)
        await administer(kafka.address, create=made)
        await log.create([TopicSpec(topic_name, 4, DAY, 1)])  # it exists: only waits for its leaders
        return topic_name

    async def test_the_culprit_is_found_and_what_is_before_it_is_stored(
        self, log: KafkaLog, publisher: KafkaPublisher, compacted: str
    ) -> None:
        records = [*plain(b"0", b"1"), Record(None, b"2", []), *plain(b"3")]

        outcome = await publisher.publish(TopicPartition(compacted, 0), records)

        assert isinstance(outcome, Refused)
        assert (outcome.index, outcome.reason) == (2, "rejected")
        assert "InvalidRecord" in outcome.sentence
        assert await stored(log, compacted) == [b"0", b"1"]

    async def test_the_partition_and_its_neighbours_go_on_afterwards(
        self, log: KafkaLog, publisher: KafkaPublisher, compacted: str
    ) -> None:
        async def lane(partition: int) -> None:
            for n in range(20):
                assert await publisher.publish(TopicPartition(compacted, partition), plain(b"%d" % n)) == Acknowledged(
                    1
                )

        lanes = asyncio.gather(*(lane(partition) for partition in (1, 2, 3)))
        for _ in range(5):
            bad = [Record(None, b"bad", [])]
            assert isinstance(await publisher.publish(TopicPartition(compacted, 0), bad), Refused)
            assert await publisher.publish(TopicPartition(compacted, 0), plain(b"good")) == Acknowledged(1)
        await lanes

        assert await stored(log, compacted, 0) == [b"good"] * 5
        for partition in (1, 2, 3):
            assert await stored(log, compacted, partition) == [b"%d" % n for n in range(20)]

    async def test_a_limit_lowered_behind_our_back_is_found_out(
        self, kafka: Broker, log: KafkaLog, publisher: KafkaPublisher, topic_name: str
    ) -> None:
        await log.create([TopicSpec(topic_name, 1, DAY, 100_000)])
        where = TopicPartition(topic_name, 0)
        await publisher.publish(where, plain(b"warm"))
        lowered = ConfigResource(ConfigResourceType.TOPIC, topic_name, {"max.message.bytes": "5000"})
        await administer(kafka.address, alter=lowered)
        small, large = b"." * 1_000, b"." * 10_000
        probes = await accepted_until_refused(kafka.address, topic_name, large)

        # Small ones that make one batch above the new limit, then one that is above it alone.
        outcome = await publisher.publish(where, plain(*[small] * 20, large, small))

        assert isinstance(outcome, Refused)
        assert (outcome.index, outcome.reason) == (20, "too_large")
        assert await stored(log, topic_name) == [b"warm", *[large] * probes, *[small] * 20]


class Misnamed(str):
    def encode(self, *_: object) -> bytes:
        return b"\xff name"  # no UTF-8


async def test_a_header_name_that_is_not_utf8_stops_nobody(
    log: KafkaLog, publisher: KafkaPublisher, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.create([TopicSpec(topic_name, 1, DAY, 100_000)])
    slow_writer = default_records._DefaultRecordBatchBuilderPy  # the fast one takes no name but a plain str
    monkeypatch.setattr(message_accumulator, "DefaultRecordBatchBuilder", slow_writer)
    headers = [("ce_id", b"1"), (Misnamed(), b"\xff"), ("null", None)]
    records = [*plain(b"0"), Record(b"\xff", b"1", headers), *plain(b"2")]
    assert await publisher.publish(TopicPartition(topic_name, 0), records) == Acknowledged(3)

    async with member(log, f"{topic_name}.group", topic_name) as one:
        before, misnamed, after = await read(one, 3)

    assert (before.value, after.value) == (b"0", b"2")
    assert (misnamed.key, misnamed.value) == (b"\xff", b"1")
    assert list(misnamed.headers) == [("ce_id", b"1"), ("\\xff name", b"\xff"), ("null", None)]


class TestOutage:
    @pytest.fixture
    def node(self) -> Iterator[LocalKafka]:
        """A broker of this test's own, to be mistreated."""
        with LocalKafka() as node:
            yield node

    @pytest.fixture
    async def log(self, node: LocalKafka) -> AsyncIterator[KafkaLog]:
        settings = KafkaSettings(
            bootstrap_servers=node.address, request_timeout=PATIENCE, session_timeout=timedelta(seconds=2)
        )
        log = KafkaLog(settings)
        await log.create([TopicSpec("things", 2, DAY, 100_000)])
        yield log
        await log.close()

    @pytest.fixture
    async def publisher(self, log: KafkaLog) -> AsyncIterator[KafkaPublisher]:
        publisher = await log.publisher()
        yield publisher
        await publisher.close()

    async def until_published(self, publisher: KafkaPublisher, value: bytes) -> None:
        async def published() -> bool:
            try:
                return await publisher.publish(TopicPartition("things", 0), plain(value)) == Acknowledged(1)
            except LogUnavailable:
                return False

        await eventually(published, what="Kafka takes records again")

    async def test_a_frozen_broker_is_unavailable_within_the_timeout_and_usable_when_it_thaws(
        self, node: LocalKafka, log: KafkaLog, publisher: KafkaPublisher
    ) -> None:
        where = TopicPartition("things", 0)
        await publisher.publish(where, plain(b"before"))
        node.freeze()
        try:
            with pytest.raises(LogUnavailable, match="did not answer within 2 s"):
                async with asyncio.timeout(30):  # a busy machine takes longer than those two seconds
                    await publisher.publish(where, plain(b"lost or not"))
        finally:
            node.thaw()

        await self.until_published(publisher, b"after")

        values = await stored(log, "things")
        assert values[0] == b"before"
        assert b"after" in values

    async def test_a_killed_broker_is_unavailable_and_usable_when_it_is_back(
        self, node: LocalKafka, log: KafkaLog, publisher: KafkaPublisher
    ) -> None:
        where = TopicPartition("things", 0)
        acknowledged = [b"%d" % n for n in range(50)]
        await publisher.publish(where, plain(*acknowledged))
        node.kill()

        with pytest.raises(LogUnavailable):
            await publisher.publish(where, plain(b"lost"))
        await asyncio.to_thread(node.start)
        await self.until_published(publisher, b"after")

        values = await stored(log, "things")
        assert values[:50] == acknowledged
        assert b"after" in values

    async def test_a_publisher_whose_broker_is_gone_can_be_closed(
        self, node: LocalKafka, publisher: KafkaPublisher
    ) -> None:
        await publisher.publish(TopicPartition("things", 0), plain(b"x"))
        node.kill()
        call = asyncio.create_task(publisher.publish(TopicPartition("things", 0), plain(b"lost")))
        await asyncio.sleep(0)

        async with asyncio.timeout(30):
            await publisher.close()

        with pytest.raises(LogUnavailable):
            await call

    @pytest.mark.crowd
    async def test_a_reader_outlives_its_broker(
        self, node: LocalKafka, log: KafkaLog, publisher: KafkaPublisher
    ) -> None:
        where = TopicPartition("things", 0)
        await publisher.publish(where, plain(b"before"))
        subscription = await log.subscribe("group", ["things"])
        seen: list[bytes | None] = []

        async def poll() -> list[bytes | None]:
            found = await subscription.poll(timeout=timedelta(milliseconds=200))
            seen.extend(record.value for record in found.get(where, []))
            return seen

        try:
            await eventually(poll, what="the first record")
            node.kill()
            for _ in range(3):
                await poll()
            with pytest.raises(LogUnavailable):
                await subscription.commit({where: 1})
            await asyncio.to_thread(node.start)
            await self.until_published(publisher, b"after")

            async def after() -> bool:
                return b"after" in await poll()

            await eventually(after, what="the record written after the outage")

            async def committed() -> bool:
                try:
                    await subscription.commit({where: 1})
                except LogUnavailable:
                    return False
                return True

            await eventually(committed, what="a commit is accepted again")
        finally:
            await subscription.close()

    async def test_no_broker_at_all_is_a_sentence(self, log: KafkaLog, node: LocalKafka) -> None:
        node.stop()
        with pytest.raises(LogUnavailable, match=node.address):
            await log.describe(["things"])
        with pytest.raises(LogUnavailable, match=node.address):
            await log.subscribe("group", ["things"])


async def test_the_failpoint_strikes_when_the_record_is_sent_and_not_yet_acknowledged(
    kafka: Broker, log: KafkaLog, topic_name: str
) -> None:
    await log.create([TopicSpec(topic_name, 1, DAY, 100_000)])
    script = f"""
import asyncio
from surefoot.log.kafka.log import KafkaLog, KafkaSettings
from surefoot.log.port import Record, TopicPartition

async def main():
    log = KafkaLog(KafkaSettings(bootstrap_servers="{kafka.address}"))
    publisher = await log.publisher()
    for value in (b"0", b"1", b"2"):
        print((await publisher.publish(TopicPartition("{topic_name}", 0), [Record(b"k", value, [])])).count, flush=True)

asyncio.run(main())
"""
    environment = {**os.environ, "SUREFOOT_FAILPOINTS": "log.sent=kill@2"}
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == -9, done.stderr
    assert done.stdout == "1\n"

    async def both() -> bool:
        return await stored(log, topic_name) == [b"0", b"1"]

    await eventually(both, what="the record that was sent but never acknowledged")


@pytest.mark.parametrize("compression", ["gzip", "lz4", "snappy", "zstd"])
async def test_what_others_have_compressed_is_read(
    compression: str, kafka: Broker, log: KafkaLog, topic_name: str
) -> None:
    await log.create([TopicSpec(topic_name, 1, DAY, 100_000)])
    producer = AIOKafkaProducer(bootstrap_servers=kafka.address, compression_type=compression)
    await producer.start()
    try:
        await producer.send_and_wait(topic_name, b"x" * 5000, partition=0)
    finally:
        await producer.stop()
    assert await stored(log, topic_name) == [b"x" * 5000]
