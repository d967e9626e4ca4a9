"""What every event log promises a reader (`surefoot.log.port`): one suite, run against Kafka and the Postgres log."""

import asyncio
from datetime import timedelta

import pytest

from surefoot.errors import LeaseLost
from surefoot.log.port import EventLog, Publisher, TopicPartition
from tests.support.event_log.members import member, plain, read, shares
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow


class TestReading:
    async def test_a_group_goes_on_after_what_it_committed(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        where, group = TopicPartition(topic, 0), f"{topic}.group"
        await publisher.publish(where, plain(b"0", b"1", b"2", b"3"))

        async with member(event_log, group, topic) as one:
            await read(one, 4)
            assert await one.joined.committed(where) is None
            await one.joined.commit({where: 3})
            assert await one.joined.committed(where) == 3
        async with member(event_log, group, topic) as two:
            assert [record.value for record in await read(two, 1)] == [b"3"]

    async def test_what_was_read_but_not_committed_is_read_again(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        group = f"{topic}.group"
        await publisher.publish(TopicPartition(topic, 0), plain(b"0"))

        async with member(event_log, group, topic) as one:
            await read(one, 1)
        async with member(event_log, group, topic) as two:
            assert [record.value for record in await read(two, 1)] == [b"0"]

    async def test_groups_do_not_know_of_each_other(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        where = TopicPartition(topic, 0)
        await publisher.publish(where, plain(b"0", b"1"))

        async with member(event_log, f"{topic}.a", topic) as one, member(event_log, f"{topic}.b", topic) as two:
            await read(one, 2)
            await one.joined.commit({where: 2})
            assert [record.value for record in await read(two, 2)] == [b"0", b"1"]
            assert await two.joined.committed(where) is None

    async def test_seeking_back_reads_again(self, event_log: EventLog, topic: str, publisher: Publisher) -> None:
        where = TopicPartition(topic, 0)
        await publisher.publish(where, plain(b"0", b"1", b"2"))

        async with member(event_log, f"{topic}.group", topic) as one:
            await read(one, 3)
            await one.joined.seek(where, 1)
            values = [record.value for record in await read(one, 5)]

        assert values == [b"0", b"1", b"2", b"1", b"2"]

    async def test_a_seek_in_on_assigned_decides_what_is_read_first(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        where = TopicPartition(topic, 0)
        await publisher.publish(where, plain(b"0", b"1", b"2"))

        async def start_at_two(partitions: frozenset[TopicPartition]) -> None:
            if where in partitions:
                await subscription.seek(where, 2)

        async def values() -> list[bytes | None]:
            found = await subscription.poll()
            return [record.value for record in found.get(where, [])]

        subscription = await event_log.subscribe(f"{topic}.group", [topic], on_assigned=start_at_two)
        try:
            assert await eventually(values, what="a record") == [b"2"]
        finally:
            await subscription.close()

    async def test_a_failing_on_assigned_fails_the_poll_and_is_tried_again(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        await publisher.publish(TopicPartition(topic, 0), plain(b"0"))
        failures = [RuntimeError("the database is down"), RuntimeError("still down")]

        async def fragile(_: frozenset[TopicPartition]) -> None:
            if failures:
                raise failures.pop()

        subscription = await event_log.subscribe(f"{topic}.group", [topic], on_assigned=fragile)
        try:
            for _ in range(2):
                with pytest.raises(RuntimeError, match="down"):
                    await subscription.poll()
                assert subscription.assigned() == frozenset()

            async def records() -> object:
                return await subscription.poll()

            assert await eventually(records, what="the record, once on_assigned works")
        finally:
            await subscription.close()

    async def test_records_written_while_a_reader_waits_reach_it(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        async with member(event_log, f"{topic}.group", topic) as one:
            await shares([one], [4])
            waiting = asyncio.create_task(one.joined.poll(timeout=timedelta(seconds=20)))
            await publisher.publish(TopicPartition(topic, 1), plain(b"late"))

            found = await waiting

        assert [record.value for record in found[TopicPartition(topic, 1)]] == [b"late"]

    async def test_a_poll_takes_no_more_than_it_was_asked_for(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        for partition in range(4):
            await publisher.publish(TopicPartition(topic, partition), plain(*[b"x"] * 20))

        async with member(event_log, f"{topic}.group", topic) as one:
            seen = 0
            while seen < 80:
                found = await one.joined.poll(max_records=7)
                assert sum(len(records) for records in found.values()) <= 7
                seen += sum(len(records) for records in found.values())


class TestSharing:
    async def test_two_members_share_and_each_record_goes_to_one(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        group = f"{topic}.group"
        async with member(event_log, group, topic) as one, member(event_log, group, topic) as two:
            await shares([one, two], [2, 2])
            assert not one.has & two.has
            for partition in range(4):
                await publisher.publish(TopicPartition(topic, partition), plain(*[b"%d" % partition] * 10))

            async def all_read() -> bool:
                await asyncio.gather(one.poll(), two.poll())
                return len(one.got) + len(two.got) >= 40

            await eventually(all_read, what="40 records read by both")

        assert len(one.got) + len(two.got) == 40
        assert len(one.got) == 20

    async def test_one_that_joins_gets_its_share_and_one_that_leaves_gives_it_back(
        self, event_log: EventLog, topic: str
    ) -> None:
        group = f"{topic}.group"
        async with member(event_log, group, topic) as one:
            await shares([one], [4])
            assert one.told == ["assigned"]
            async with member(event_log, group, topic) as two:
                await shares([one, two], [2, 2])
                assert "revoked" in one.told
                assert one.joined.assigned() == one.has
                assert two.joined.assigned() == two.has
            assert two.has == set()  # told on leaving, too

            await shares([one], [4])
            assert one.told[-1] == "assigned"

    async def test_a_long_poll_notices_partitions_that_come_meanwhile(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        group = f"{topic}.group"
        async with member(event_log, group, topic) as one:
            async with member(event_log, group, topic) as two:
                await shares([one, two], [2, 2])
                theirs = {where.partition for where in two.has}
                polling = asyncio.create_task(one.poll(timedelta(seconds=60)))
                for partition in theirs:
                    await publisher.publish(TopicPartition(topic, partition), plain(b"for whoever owns it"))
            async with asyncio.timeout(20):
                records = await polling

        assert {record.partition for record in records} <= theirs
        assert records

    async def test_a_member_that_lost_a_partition_cannot_commit_for_it(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        group = f"{topic}.group"
        for partition in range(4):
            await publisher.publish(TopicPartition(topic, partition), plain(b"x"))
        async with member(event_log, group, topic) as one:
            await read(one, 4)
            async with member(event_log, group, topic) as two:
                await shares([one, two], [2, 2])
                lost = next(iter(two.has))

                with pytest.raises(LeaseLost):
                    await one.joined.commit({lost: 1})

                assert await two.joined.committed(lost) is None
                await two.joined.commit({lost: 1})
                assert await two.joined.committed(lost) == 1

    async def test_a_member_cannot_seek_in_a_partition_of_another(self, event_log: EventLog, topic: str) -> None:
        group = f"{topic}.group"
        async with member(event_log, group, topic) as one, member(event_log, group, topic) as two:
            await shares([one, two], [2, 2])
            with pytest.raises(LeaseLost):
                await one.joined.seek(next(iter(two.has)), 0)

    async def test_the_new_owner_goes_on_where_the_old_one_committed(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        group = f"{topic}.group"
        for partition in range(4):
            await publisher.publish(TopicPartition(topic, partition), plain(b"old", b"new"))
        async with member(event_log, group, topic) as one:
            await read(one, 8)
            await one.joined.commit({TopicPartition(topic, partition): 1 for partition in range(4)})
        async with member(event_log, group, topic) as two, member(event_log, group, topic) as three:

            async def all_read() -> bool:
                await asyncio.gather(two.poll(), three.poll())
                return {record.partition for record in [*two.got, *three.got]} == {0, 1, 2, 3}

            await eventually(all_read, what="one record of each partition")
            assert {record.value for record in [*two.got, *three.got]} == {b"new"}


class TestReadingWithoutAGroup:
    async def test_it_starts_where_it_is_told(self, event_log: EventLog, topic: str, publisher: Publisher) -> None:
        where = TopicPartition(topic, 0)
        await publisher.publish(where, plain(b"0", b"1", b"2"))
        reader = await event_log.read(topic, {where: 1})

        async def found() -> object:
            return await reader.poll()

        try:
            records = await eventually(found, what="records")
        finally:
            await reader.close()

        assert isinstance(records, dict)
        assert [record.value for record in records[where]] == [b"1", b"2"]
