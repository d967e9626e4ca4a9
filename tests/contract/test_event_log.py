"""What every event log promises a writer (`surefoot.log.port`): one suite, run against Kafka and the Postgres log."""

import asyncio
from datetime import timedelta

import pytest

from surefoot.errors import ConfigurationError
from surefoot.log.port import Acknowledged, EventLog, Publisher, Record, Refused, TopicPartition, TopicSpec
from tests.support.event_log.adapters import Forget
from tests.support.event_log.members import DAY, LIMIT, member, plain, read, stored


class TestPublishing:
    async def test_bytes_are_read_back_as_they_were_written(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        where = TopicPartition(topic, 2)
        headers = [("ce_id", b"1"), ("trace", b"\x00\xff"), ("ce_id", b"2"), ("empty", b""), ("größe", b"x")]
        written = [Record(b"order-1", b'{"n": 1}', headers), Record(b"\x00\xff", b"\xfe\x00", [])]

        assert await publisher.publish(where, written) == Acknowledged(2)

        async with member(event_log, f"{topic}.group", topic) as one:
            first, second = await read(one, 2)
        assert (first.topic, first.partition, first.offset) == (topic, 2, 0)
        assert (first.key, first.value, list(first.headers)) == (b"order-1", b'{"n": 1}', headers)
        assert (second.key, second.value, list(second.headers)) == (b"\x00\xff", b"\xfe\x00", [])
        assert second.offset == 1
        assert first.timestamp_ms > 1_600_000_000_000

    async def test_no_key_and_no_value_are_not_the_same_as_empty_ones(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        written = [Record(None, b"v", []), Record(b"k", None, []), Record(b"", b"", []), Record(None, None, [])]

        await publisher.publish(TopicPartition(topic, 0), written)

        async with member(event_log, f"{topic}.group", topic) as one:
            records = await read(one, 4)
        assert [(record.key, record.value) for record in records] == [
            (None, b"v"),
            (b"k", None),
            (b"", b""),
            (None, None),
        ]

    async def test_a_header_without_a_value_is_not_the_same_as_an_empty_one(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        headers = [("nothing", None), ("empty", b"")]

        assert await publisher.publish(TopicPartition(topic, 0), [Record(b"k", b"v", headers)]) == Acknowledged(1)

        async with member(event_log, f"{topic}.group", topic) as one:
            [record] = await read(one, 1)
        assert list(record.headers) == headers

    async def test_order_within_a_partition_is_the_order_of_publishing(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        async def lane(partition: int) -> None:
            for batch in range(5):
                values = [f"{partition}-{batch * 20 + n}".encode() for n in range(20)]
                await publisher.publish(TopicPartition(topic, partition), plain(*values))

        await asyncio.gather(*(lane(partition) for partition in range(4)))

        for partition in range(4):
            assert await stored(event_log, topic, partition) == [f"{partition}-{n}".encode() for n in range(100)]

    async def test_calls_for_one_partition_do_not_mix(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        where = TopicPartition(topic, 0)
        large = LIMIT - 100  # two of them are more than a batch of this topic holds

        await asyncio.gather(*(publisher.publish(where, plain(*([bytes([n]) * large] * 4))) for n in range(5)))

        values = [value[0] for value in await stored(event_log, topic) if value is not None]
        runs = [value for n, value in enumerate(values) if n == 0 or values[n - 1] != value]
        assert len(values) == 20
        assert len(runs) == 5

    async def test_more_than_one_request_can_hold(self, event_log: EventLog, topic: str, publisher: Publisher) -> None:
        values = [b"%06d" % n + b"." * 900 for n in range(5_000)]

        assert await publisher.publish(TopicPartition(topic, 0), plain(*values)) == Acknowledged(5_000)

        assert await stored(event_log, topic) == values

    async def test_nothing_to_publish_is_done_at_once(self, topic: str, publisher: Publisher) -> None:
        assert await publisher.publish(TopicPartition(topic, 0), []) == Acknowledged(0)

    async def test_a_cancelled_call_leaves_the_publisher_usable(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        where = TopicPartition(topic, 0)
        await publisher.publish(where, plain(b"before"))
        call = asyncio.create_task(publisher.publish(where, plain(*[b"perhaps"] * 3_000)))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

        assert await publisher.publish(where, plain(b"after")) == Acknowledged(1)

        values = await stored(event_log, topic)
        assert values[0] == b"before"
        assert values[-1] == b"after"


class TestRefusing:
    def records(self, size: int) -> list[Record]:
        headers = [("name", b"1234")]
        return [Record(b"key", b"." * (size - 3 - 8), headers)]

    async def test_a_record_exactly_at_the_limit_is_taken(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        assert await publisher.publish(TopicPartition(topic, 0), self.records(LIMIT)) == Acknowledged(1)
        assert len(await stored(event_log, topic)) == 1

    async def test_a_record_at_the_limit_with_many_headers_is_taken(self, topic: str, publisher: Publisher) -> None:
        headers = [(f"header-{n:02}", b"." * 100) for n in range(60)]
        filled = 60 * (9 + 100)
        record = Record(b"key", b"." * (LIMIT - 3 - filled), headers)

        assert await publisher.publish(TopicPartition(topic, 0), [record]) == Acknowledged(1)

    async def test_one_byte_more_is_refused_with_a_sentence(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        outcome = await publisher.publish(TopicPartition(topic, 0), self.records(LIMIT + 1))

        assert isinstance(outcome, Refused)
        assert (outcome.index, outcome.reason) == (0, "too_large")
        assert "100,001 bytes" in outcome.sentence
        assert "100,000" in outcome.sentence
        assert await stored(event_log, topic) == []

    async def test_those_before_a_refused_one_are_sent_and_none_after_it(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        records = [*plain(b"1", b"2"), *self.records(LIMIT + 1), *plain(b"4", b"5")]

        outcome = await publisher.publish(TopicPartition(topic, 0), records)

        assert isinstance(outcome, Refused)
        assert (outcome.index, outcome.reason) == (2, "too_large")
        assert await stored(event_log, topic) == [b"1", b"2"]

    async def test_the_publisher_works_after_a_refusal(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        where = TopicPartition(topic, 0)
        for n in range(3):
            assert await publisher.publish(where, plain(b"%d" % n)) == Acknowledged(1)
            assert isinstance(await publisher.publish(where, self.records(LIMIT + 1)), Refused)

        assert await stored(event_log, topic) == [b"0", b"1", b"2"]

    async def test_an_unknown_topic_is_refused_at_once(self, topic_name: str, publisher: Publisher) -> None:
        async with asyncio.timeout(20):
            outcome = await publisher.publish(TopicPartition(topic_name, 0), plain(b"x"))

        assert isinstance(outcome, Refused)
        assert (outcome.index, outcome.reason) == (0, "unknown_topic")
        assert topic_name in outcome.sentence

    async def test_an_unknown_partition_is_refused(self, topic: str, publisher: Publisher) -> None:
        outcome = await publisher.publish(TopicPartition(topic, 4), plain(b"x"))

        assert isinstance(outcome, Refused)
        assert (outcome.index, outcome.reason) == (0, "unknown_topic")

    async def test_a_topic_that_was_unknown_can_be_used_once_it_is_made(
        self, event_log: EventLog, topic_name: str, publisher: Publisher
    ) -> None:
        where = TopicPartition(topic_name, 0)
        assert isinstance(await publisher.publish(where, plain(b"x")), Refused)

        await event_log.create([TopicSpec(topic_name, 1, DAY, LIMIT)])

        assert await publisher.publish(where, plain(b"x")) == Acknowledged(1)


class TestTopics:
    async def test_all_topics_are_named_as_soon_as_they_are_created(self, event_log: EventLog, topic_name: str) -> None:
        before = await event_log.topics()

        await event_log.create([TopicSpec(topic_name, 1, DAY, LIMIT), TopicSpec(f"{topic_name}.dlq", 2, DAY, LIMIT)])

        assert {topic_name, f"{topic_name}.dlq"}.isdisjoint(before)
        assert {topic_name, f"{topic_name}.dlq"} <= await event_log.topics()

    async def test_a_created_topic_is_described_as_it_was_wanted(self, event_log: EventLog, topic_name: str) -> None:
        wanted = TopicSpec(topic_name, partitions=3, retention=timedelta(days=30), max_record_bytes=54_321)

        await event_log.create([wanted])

        assert await event_log.describe([topic_name, f"{topic_name}.not"]) == {topic_name: wanted}

    async def test_a_topic_can_be_kept_for_ever(self, event_log: EventLog, topic_name: str) -> None:
        wanted = TopicSpec(topic_name, partitions=1, retention=timedelta.max, max_record_bytes=LIMIT)

        await event_log.create([wanted])

        assert await event_log.describe([topic_name]) == {topic_name: wanted}
        assert await event_log.expire() == 0

    async def test_creating_again_changes_nothing(self, event_log: EventLog, topic: str, publisher: Publisher) -> None:
        await publisher.publish(TopicPartition(topic, 0), plain(b"x"))

        await event_log.create([TopicSpec(topic, partitions=9, retention=2 * DAY, max_record_bytes=1_000)])

        assert (await event_log.describe([topic]))[topic] == TopicSpec(topic, 4, DAY, LIMIT)
        assert await stored(event_log, topic) == [b"x"]

    async def test_a_publisher_knows_the_topic(self, topic: str, publisher: Publisher) -> None:
        assert await publisher.topic(topic) == TopicSpec(topic, 4, DAY, LIMIT)
        assert await publisher.topic(f"{topic}.not") is None

    async def test_end_offsets_are_where_the_next_record_goes(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        await publisher.publish(TopicPartition(topic, 1), plain(b"a", b"b", b"c"))
        await publisher.publish(TopicPartition(topic, 3), plain(b"d"))

        ends = await event_log.end_offsets(topic)

        assert {where.partition: end for where, end in ends.items()} == {0: 0, 1: 3, 2: 0, 3: 1}

    async def test_first_offsets_are_where_the_oldest_records_are(
        self, event_log: EventLog, topic: str, publisher: Publisher, forget: Forget
    ) -> None:
        await publisher.publish(TopicPartition(topic, 1), plain(b"a", b"b", b"c"))
        await publisher.publish(TopicPartition(topic, 3), plain(b"d"))
        assert set((await event_log.first_offsets(topic)).values()) == {0}

        await forget(TopicPartition(topic, 1), 2)
        await forget(TopicPartition(topic, 3), 1)  # all that it has

        firsts, ends = await event_log.first_offsets(topic), await event_log.end_offsets(topic)
        assert {where.partition: first for where, first in firsts.items()} == {0: 0, 1: 2, 2: 0, 3: 1}
        assert {where.partition: end for where, end in ends.items()} == {0: 0, 1: 3, 2: 0, 3: 1}

    async def test_a_topic_that_does_not_exist_has_no_offsets(self, event_log: EventLog, topic_name: str) -> None:
        assert await event_log.first_offsets(topic_name) == {}
        assert await event_log.end_offsets(topic_name) == {}

    async def test_nobody_can_read_a_topic_that_does_not_exist(self, event_log: EventLog, topic_name: str) -> None:
        with pytest.raises(ConfigurationError, match=topic_name):
            await event_log.subscribe("group", [topic_name])
