"""What every event log tells about how far a group has got: one suite, run against Kafka and the Postgres log."""

import pytest

from surefoot.errors import LogUnavailable
from surefoot.log.port import EventLog, Publisher, TopicPartition, TopicSpec
from tests.support.event_log.adapters import Adapter
from tests.support.event_log.members import DAY, LIMIT, member, plain, read, shares

NOBODY_THERE = {"kafka": "127.0.0.1:1", "postgres": "postgresql://nobody@127.0.0.1:1/nothing"}


async def test_they_are_what_the_group_committed_and_nothing_where_it_never_did(
    event_log: EventLog, topic: str, publisher: Publisher
) -> None:
    group = f"{topic}.group"
    for partition in range(4):
        await publisher.publish(TopicPartition(topic, partition), plain(b"0", b"1", b"2"))

    async with member(event_log, group, topic) as one:
        await read(one, 12)
        assert await event_log.group_offsets(group, topic) == {}  # read, and not committed
        await one.joined.commit({TopicPartition(topic, 1): 3, TopicPartition(topic, 2): 0})
        assert await event_log.group_offsets(group, topic) == {TopicPartition(topic, 1): 3, TopicPartition(topic, 2): 0}
        await one.joined.commit({TopicPartition(topic, 2): 2})
        assert await event_log.group_offsets(group, topic) == {TopicPartition(topic, 1): 3, TopicPartition(topic, 2): 2}


async def test_they_stay_when_the_members_are_gone_and_another_log_is_asked(
    adapter: Adapter, event_log: EventLog, topic: str, publisher: Publisher
) -> None:
    where, group = TopicPartition(topic, 3), f"{topic}.group"
    await publisher.publish(where, plain(b"0", b"1"))
    async with member(event_log, group, topic) as one:
        await read(one, 2)
        await one.joined.commit({where: 2})

    another = adapter.open()
    try:
        assert await another.group_offsets(group, topic) == {where: 2}
    finally:
        await another.close()


async def test_an_unknown_group_or_topic_has_none(event_log: EventLog, topic: str) -> None:
    assert await event_log.group_offsets(f"{topic}.nobody", topic) == {}
    assert await event_log.group_offsets(f"{topic}.nobody", f"{topic}.not") == {}


async def test_groups_and_topics_are_not_mixed_up(event_log: EventLog, topic: str, publisher: Publisher) -> None:
    other = f"{topic}.other"
    await event_log.create([TopicSpec(other, partitions=1, retention=DAY, max_record_bytes=LIMIT)])
    for where in (TopicPartition(topic, 0), TopicPartition(other, 0)):
        await publisher.publish(where, plain(b"0", b"1"))

    a, b = f"{topic}.a", f"{topic}.b"
    for group, which, offset in ((a, topic, 1), (b, topic, 2), (b, other, 0)):
        async with member(event_log, group, which) as one:
            await read(one, 2)
            await one.joined.commit({TopicPartition(which, 0): offset})

    assert await event_log.group_offsets(a, topic) == {TopicPartition(topic, 0): 1}
    assert await event_log.group_offsets(a, other) == {}
    assert await event_log.group_offsets(b, topic) == {TopicPartition(topic, 0): 2}
    assert await event_log.group_offsets(b, other) == {TopicPartition(other, 0): 0}


async def test_asking_takes_no_partition_from_the_members(
    event_log: EventLog, topic: str, publisher: Publisher
) -> None:
    group = f"{topic}.group"
    for partition in range(4):
        await publisher.publish(TopicPartition(topic, partition), plain(b"x"))

    async with member(event_log, group, topic) as one:
        await shares([one], [4])
        for _ in range(5):
            assert await event_log.group_offsets(group, topic) == {}
        await read(one, 4)
        await one.joined.commit({TopicPartition(topic, partition): 1 for partition in range(4)})
        assert one.told == ["assigned"]
        async with member(event_log, group, topic) as two:
            await shares([one, two], [2, 2])  # a third member, a silent one, would have its share
            assert set((await event_log.group_offsets(group, topic)).values()) == {1}


async def test_a_log_that_is_out_of_reach_says_so_and_not_that_nothing_was_committed(adapter: Adapter) -> None:
    log = adapter._replace(address=NOBODY_THERE[adapter.name]).open()
    try:
        with pytest.raises(LogUnavailable):
            await log.group_offsets("group", "topic")
    finally:
        await log.close()
