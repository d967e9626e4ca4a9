"""Readers that sleep are woken; writers notify nobody while nobody sleeps."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from surefoot.log.port import TopicPartition, TopicSpec
from surefoot.log.postgres.log import PostgresLog
from surefoot.log.postgres.publisher import PostgresPublisher
from surefoot.log.postgres.subscription import BUSY_LOOKS
from tests.support.event_log.members import plain
from tests.support.waiting import eventually

WHERE = TopicPartition("things", 0)


@pytest.fixture
async def heard(database_url: str) -> AsyncIterator[list[str]]:
    """The notifications that writers send."""
    heard: list[str] = []
    listener = await asyncpg.connect(database_url)
    await listener.add_listener("surefoot_log", lambda *said: heard.append(said[3]))
    yield heard
    await listener.close()


async def test_writers_notify_nobody_while_nobody_sleeps(
    publisher: PostgresPublisher, heard: list[str], connection: Any
) -> None:
    await publisher.publish(WHERE, plain(b"0"))
    await connection.execute("SELECT pg_notify('surefoot_log', 'end of test')")

    async def ended() -> bool:
        return "end of test" in heard

    await eventually(ended, what="the last notification")
    assert heard == ["end of test"]


async def test_a_sleeping_reader_is_woken_long_before_its_next_look(
    database_url: str, publisher: PostgresPublisher, heard: list[str], connection: Any
) -> None:
    patient = PostgresLog(database_url, max_poll_interval=timedelta(minutes=5))
    subscription = await patient.subscribe("group", ["things"])
    try:
        reading = asyncio.create_task(subscription.poll(timeout=timedelta(minutes=5)))

        async def asleep() -> bool:
            return bool(await connection.fetchval("SELECT bool_and(asleep) FROM surefoot.lease_members"))

        await eventually(asleep, what="the reader sleeps")
        await publisher.publish(WHERE, plain(b"wake up"))
        async with asyncio.timeout(10):
            found = await reading

        assert [record.value for record in found[WHERE]] == [b"wake up"]

        async def notified() -> bool:
            return WHERE.topic in heard

        await eventually(notified, what="the listener of this test hears it too, on a connection of its own")
    finally:
        await subscription.close()
        await patient.close()


async def test_a_reader_that_has_paused_everything_asks_for_no_notifications(
    database_url: str, publisher: PostgresPublisher, connection: Any
) -> None:
    patient = PostgresLog(database_url, max_poll_interval=timedelta(minutes=5))
    subscription = await patient.subscribe("group", ["things"])
    try:
        reading = asyncio.create_task(subscription.poll(timeout=timedelta(minutes=5)))

        async def asleep() -> bool:
            return bool(await connection.fetchval("SELECT bool_or(asleep) FROM surefoot.lease_members"))

        async def awake() -> bool:
            return not await asleep()

        await eventually(asleep, what="the reader sleeps")
        subscription.pause(subscription.assigned())
        await publisher.publish(WHERE, plain(b"0"))  # the last one that notifies
        await eventually(awake, what="the reader says that it need not be woken")

        subscription.resume([WHERE])
        async with asyncio.timeout(10):
            found = await reading
        assert [record.value for record in found[WHERE]] == [b"0"]
    finally:
        await subscription.close()
        await patient.close()


async def test_a_reader_says_that_it_is_awake_once_it_is_busy(
    database_url: str, publisher: PostgresPublisher, connection: Any
) -> None:
    """Not for each record that comes now and then: it would write the one and the other for each of them."""
    patient = PostgresLog(database_url, max_poll_interval=timedelta(minutes=5))
    subscription = await patient.subscribe("group", ["things"])
    try:

        async def asleep() -> bool:
            return bool(await connection.fetchval("SELECT bool_or(asleep) FROM surefoot.lease_members"))

        reading = asyncio.create_task(subscription.poll(timeout=timedelta(minutes=5)))
        await eventually(asleep, what="the reader sleeps")
        await publisher.publish(WHERE, plain(b"now and then"))
        await reading
        assert await asleep()
        await publisher.publish(WHERE, plain(*[b"one of many"] * BUSY_LOOKS))
        for _ in range(BUSY_LOOKS):
            assert await subscription.poll(max_records=1)
        assert not await asleep()
    finally:
        await subscription.close()
        await patient.close()


async def test_a_reader_of_other_topics_is_left_alone(
    database_url: str, publisher: PostgresPublisher, heard: list[str], connection: Any
) -> None:
    patient = PostgresLog(database_url, max_poll_interval=timedelta(minutes=5))
    await patient.create([TopicSpec("others", 1, timedelta(days=1), 1 << 20)])
    subscription = await patient.subscribe("group", ["others"])
    try:
        reading = asyncio.create_task(subscription.poll(timeout=timedelta(minutes=5)))

        async def asleep() -> bool:
            return bool(await connection.fetchval("SELECT bool_and(asleep) FROM surefoot.lease_members"))

        await eventually(asleep, what="the reader sleeps")
        await publisher.publish(WHERE, plain(b"not for it"))
        await publisher.publish(TopicPartition("others", 0), plain(b"for it"))
        async with asyncio.timeout(10):
            await reading

        async def notified() -> bool:
            return "others" in heard

        await eventually(notified, what="the listener of this test hears it too, on a connection of its own")
        assert [one for one in heard if not one.startswith("log/")] == ["others"]
    finally:
        await subscription.close()
        await patient.close()


async def test_what_was_read_is_given_also_if_the_log_goes_away_while_the_reader_says_that_it_is_awake(
    database_url: str, publisher: PostgresPublisher, connection: Any
) -> None:
    await connection.execute("""
        CREATE FUNCTION go_away() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'terminating' USING ERRCODE = '57P01'; END $$;
        CREATE TRIGGER go_away BEFORE UPDATE ON surefoot.lease_members FOR EACH ROW
            WHEN (OLD.asleep AND NOT NEW.asleep) EXECUTE FUNCTION go_away()""")
    patient = PostgresLog(database_url, max_poll_interval=timedelta(minutes=5))
    subscription = await patient.subscribe("group", ["things"])
    try:

        async def asleep() -> bool:
            return bool(await connection.fetchval("SELECT bool_or(asleep) FROM surefoot.lease_members"))

        reading = asyncio.create_task(subscription.poll(timeout=timedelta(minutes=5)))
        await eventually(asleep, what="the reader sleeps")
        await publisher.publish(WHERE, plain(*(b"%d" % n for n in range(40))))
        found = [*(await reading)[WHERE]]
        while len(found) < 40:
            found += (await subscription.poll(max_records=1))[WHERE]
        for n in range(40, 60):  # one at a time, so that it is busy
            await publisher.publish(WHERE, plain(b"%d" % n))
            found += (await subscription.poll(timeout=timedelta(minutes=5)))[WHERE]
        assert [record.value for record in found] == [b"%d" % n for n in range(60)]
        assert await asleep()  # it could not say so
    finally:
        await subscription.close()
        await patient.close()
