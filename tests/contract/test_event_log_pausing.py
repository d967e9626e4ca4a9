"""What every event log promises whoever pauses partitions: one suite, run against Kafka and the Postgres log."""

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from surefoot.log.port import EventLog, Publisher, Subscription, TopicPartition
from tests.support.event_log.adapters import Adapter
from tests.support.event_log.members import Member, member, plain, read, shares
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow


def of(one: Member, where: TopicPartition) -> list[bytes | None]:
    return [record.value for record in one.got if record.partition == where.partition]


async def until_read(subscription: Subscription, wanted: set[bytes]) -> set[bytes | None]:
    """Poll until these values have come; all that came."""
    got: set[bytes | None] = set()

    async def came() -> bool:
        found = await subscription.poll(timeout=timedelta(milliseconds=100))
        got.update(record.value for records in found.values() for record in records)
        return wanted <= got

    await eventually(came, what=f"{wanted} read")
    return got


@pytest.fixture
def paused(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


@pytest.fixture
def other(topic: str) -> TopicPartition:
    return TopicPartition(topic, 1)


class TestPausing:
    async def test_a_paused_partition_gives_nothing_until_it_is_resumed_and_then_everything(
        self, event_log: EventLog, topic: str, publisher: Publisher, paused: TopicPartition, other: TopicPartition
    ) -> None:
        async with member(event_log, f"{topic}.group", topic) as one:
            await shares([one], [4])
            one.joined.pause([paused])
            await publisher.publish(paused, plain(b"0", b"1"))
            for count in range(1, 4):  # each is read after one more look at all that is wanted
                await publisher.publish(other, plain(b"x"))
                await read(one, count)
            assert of(one, paused) == []

            one.joined.resume([paused])
            await read(one, 5)

        assert of(one, paused) == [b"0", b"1"]

    async def test_pausing_in_the_midst_neither_skips_nor_repeats(
        self, event_log: EventLog, topic: str, publisher: Publisher, paused: TopicPartition, other: TopicPartition
    ) -> None:
        values = [b"%02d" % n for n in range(40)]
        await publisher.publish(paused, plain(*values))
        async with member(event_log, f"{topic}.group", topic) as one:
            seen: list[bytes | None] = []

            async def a_few_more() -> int:
                found = await one.joined.poll(max_records=7, timeout=timedelta(milliseconds=100))
                seen.extend(record.value for record in found.get(paused, []))
                return sum(len(records) for records in found.values())

            while len(seen) < len(values):
                before = len(seen)
                await eventually(a_few_more, what="the next records")
                assert len(seen) > before
                one.joined.pause([paused])
                assert await a_few_more() == 0
                one.joined.resume([paused])

        assert seen == values

    async def test_a_pause_counts_for_a_poll_that_is_waiting_already(
        self, event_log: EventLog, topic: str, publisher: Publisher, paused: TopicPartition, other: TopicPartition
    ) -> None:
        async with member(event_log, f"{topic}.group", topic) as one:
            await shares([one], [4])
            waiting = asyncio.create_task(one.joined.poll(timeout=timedelta(seconds=20)))
            await asyncio.sleep(0)
            one.joined.pause([paused])
            await publisher.publish(paused, plain(b"not yet"))
            await publisher.publish(other, plain(b"now"))

            found = await waiting

        assert {where: [record.value for record in records] for where, records in found.items()} == {other: [b"now"]}

    async def test_resuming_wakes_a_poll_that_is_waiting(
        self, event_log: EventLog, topic: str, publisher: Publisher, paused: TopicPartition
    ) -> None:
        await publisher.publish(paused, plain(b"0"))
        async with member(event_log, f"{topic}.group", topic) as one:
            await read(one, 1)
            one.joined.pause(one.has)
            await publisher.publish(paused, plain(b"1"))
            waiting = asyncio.create_task(one.joined.poll(timeout=timedelta(minutes=5)))
            done, _ = await asyncio.wait([waiting], timeout=1)
            assert not done

            one.joined.resume([paused])
            async with asyncio.timeout(60):
                found = await waiting

        assert [record.value for record in found[paused]] == [b"1"]

    async def test_polling_with_everything_paused_waits_for_the_timeout(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        for partition in range(4):
            await publisher.publish(TopicPartition(topic, partition), plain(b"x"))
        async with member(event_log, f"{topic}.group", topic) as one:
            await shares([one], [4])
            one.joined.pause(one.has)
            started = time.monotonic()

            assert await one.joined.poll(timeout=timedelta(milliseconds=600)) == {}

            assert 0.59 <= time.monotonic() - started < 30

    @pytest.mark.slow
    async def test_whoever_polls_stays_a_member_however_long_all_is_paused(
        self, adapter: Adapter, topic: str, publisher: Publisher, paused: TopicPartition
    ) -> None:
        short = timedelta(seconds=1.5)
        log = adapter.open(lease=short, patience=short)
        async with member(log, f"{topic}.group", topic) as one:
            await shares([one], [4])
            one.joined.pause(one.has)
            await publisher.publish(paused, plain(b"0"))
            deadline = time.monotonic() + 3 * short.total_seconds()
            while time.monotonic() < deadline:
                assert await one.poll() == []

            one.joined.resume(one.has)
            await read(one, 1)
            assert one.told == ["assigned"]
        await log.close()

    async def test_a_seek_in_a_paused_partition_is_where_it_goes_on(
        self, event_log: EventLog, topic: str, publisher: Publisher, paused: TopicPartition
    ) -> None:
        await publisher.publish(paused, plain(b"0", b"1", b"2"))
        async with member(event_log, f"{topic}.group", topic) as one:
            await read(one, 3)
            one.joined.pause([paused])
            await one.joined.seek(paused, 2)
            assert await one.poll() == []

            one.joined.resume([paused])

            assert [record.value for record in await read(one, 4)][3:] == [b"2"]


class TestWhosePauseItIs:
    async def test_a_partition_that_is_not_ours_is_passed_over(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        group = f"{topic}.group"
        async with member(event_log, group, topic) as one, member(event_log, group, topic) as two:
            await shares([one, two], [2, 2])
            theirs, nobodys = next(iter(two.has)), [TopicPartition(topic, 99), TopicPartition("no.such.topic", 0)]

            one.joined.pause([theirs, *nobodys])
            one.joined.resume([theirs, *nobodys])
            one.joined.pause([theirs, *nobodys])
            await publisher.publish(theirs, plain(b"x"))

            assert [record.value for record in await read(two, 1)] == [b"x"]

    async def test_a_partition_that_comes_back_is_not_paused_any_more(
        self, event_log: EventLog, topic: str, publisher: Publisher
    ) -> None:
        group = f"{topic}.group"
        async with member(event_log, group, topic) as one:
            await shares([one], [4])
            one.joined.pause(one.has)
            async with member(event_log, group, topic) as two:
                await shares([one, two], [2, 2])
                gone = set(two.has)
            await shares([one], [4])
            for where in gone:
                await publisher.publish(where, plain(b"x"))

            assert {record.partition for record in await read(one, 2)} == {where.partition for where in gone}

    async def test_a_partition_can_be_paused_as_it_comes(
        self, event_log: EventLog, topic: str, publisher: Publisher, paused: TopicPartition, other: TopicPartition
    ) -> None:
        await publisher.publish(paused, plain(b"later"))
        await publisher.publish(other, plain(b"first"))

        async def pause_one(_: frozenset[TopicPartition]) -> None:
            subscription.pause([paused, other])
            subscription.resume([other])

        subscription = await event_log.subscribe(f"{topic}.group", [topic], on_assigned=pause_one)
        try:
            assert await until_read(subscription, {b"first"}) == {b"first"}
            assert await subscription.poll(timeout=timedelta(milliseconds=300)) == {}
            subscription.resume([paused])
            assert await until_read(subscription, {b"later"}) == {b"later"}
        finally:
            await subscription.close()

    async def test_a_pause_by_an_on_assigned_that_failed_is_forgotten(
        self, event_log: EventLog, topic: str, publisher: Publisher, paused: TopicPartition
    ) -> None:
        await publisher.publish(paused, plain(b"0"))

        def pause_and_fail() -> None:
            subscription.pause([paused])
            raise RuntimeError("the database is down")

        steps: list[Callable[[], None]] = [pause_and_fail]

        async def fragile(_: frozenset[TopicPartition]) -> None:
            if steps:
                steps.pop()()

        subscription = await event_log.subscribe(f"{topic}.group", [topic], on_assigned=fragile)
        try:
            with pytest.raises(RuntimeError, match="down"):
                await subscription.poll()
            assert await until_read(subscription, {b"0"}) == {b"0"}
        finally:
            await subscription.close()
