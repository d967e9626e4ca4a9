"""Where a consumer goes on: stored with each batch, resumed after a restart, and never jumping over what is gone."""

import asyncio

import asyncpg
import pytest

from surefoot.consumer import Consumer, Transaction
from surefoot.consumer_runtime.partitions import From, PositionLost
from surefoot.consumer_runtime.runtime import ConsumerRuntime
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.errors import ConfigurationError
from surefoot.events import Event
from surefoot.log.port import EventLog, TopicPartition, key_hash, partition_of
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.controls import settled_as
from tests.support.consumer.effects import effects, have_effect
from tests.support.consumer.processes import QUICK, consumer_running, publish
from tests.support.event_types import ThingHappened
from tests.support.waiting import eventually

A = partition_of(key_hash(b"a"), 8)


def warehouse() -> Consumer:
    consumer = Consumer("warehouse")
    consumer.on(ThingHappened)(have_effect)
    return consumer


async def run_once(url: str, log: EventLog, begin: From | None = None, consumer: Consumer | None = None) -> None:
    """Work off what is there, as `surefoot consume --once` does."""
    settings = ConsumerSettings(**QUICK)  # type: ignore[arg-type]
    await ConsumerRuntime(consumer or warehouse(), url, log, settings, begin=begin, once=True).run()


async def stored(connection: asyncpg.Connection, topic: str) -> int | None:
    found: int | None = await connection.fetchval(
        "SELECT next_offset FROM surefoot.consumer_partitions WHERE topic = $1 AND partition = $2", topic, A
    )
    return found


async def remove_all(connection: asyncpg.Connection, log: PostgresLog, topic: str) -> None:
    """Let the log's retention pass over everything in the topic."""
    await connection.execute("UPDATE surefoot.log_topics SET retention = interval '0' WHERE topic = $1", topic)
    await log.expire()
    await connection.execute("UPDATE surefoot.log_topics SET retention = interval '1 day' WHERE topic = $1", topic)


def things(*numbers: int) -> list[ThingHappened]:
    return [ThingHappened(thing_id="a", number=n) for n in numbers]


async def test_the_next_offset_is_stored_by_the_transaction_that_had_the_effects(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await publish(log, *things(1, 2, 3))
    await run_once(database_url, log)
    assert await stored(connection, topic) == 3
    where = ("warehouse", topic, A)
    by = await connection.fetchval(
        "SELECT xmin::text FROM surefoot.consumer_partitions WHERE (consumer, topic, partition) = ($1, $2, $3)", *where
    )
    assert {row[0] for row in await connection.fetch("SELECT xmin::text FROM effects")} == {by}


async def test_a_restart_goes_on_where_the_database_says_and_not_where_the_log_says(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await publish(log, *things(1, 2, 3))
    await run_once(database_url, log)
    await connection.execute("DELETE FROM surefoot.processed_events")  # so that dedup cannot hide a second reading
    await connection.execute("UPDATE surefoot.log_offsets SET next_offset = 0")
    await publish(log, *things(4))
    await run_once(database_url, log)
    assert await effects(connection) == [1, 2, 3, 4]


async def test_from_start_reads_all_again_and_nothing_happens_twice(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await publish(log, *things(1, 2, 3))
    await run_once(database_url, log)
    await connection.execute(
        "DELETE FROM surefoot.processed_events WHERE event_id IN (SELECT event_id FROM effects WHERE number = 2)"
    )
    await run_once(database_url, log, From("start"))
    assert await effects(connection) == [1, 2, 3, 2]  # only what the inbox had forgotten
    assert await stored(connection, topic) == 3


async def test_from_end_is_for_a_consumer_that_has_never_run(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await publish(log, *things(1, 2))
    await run_once(database_url, log, From("end"))
    assert await effects(connection) == []
    await publish(log, *things(3))
    await run_once(database_url, log)
    assert await effects(connection) == [3]
    with pytest.raises(ConfigurationError, match="would leave out what warehouse has not read yet"):
        await run_once(database_url, log, From("end"))


async def test_a_gap_stops_the_consumer_and_from_accepts_it(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await publish(log, *things(1, 2))
    await run_once(database_url, log)
    await publish(log, *things(3, 4, 5))
    await remove_all(connection, log, topic)
    await publish(log, *things(6))
    with pytest.raises(PositionLost, match=rf"3 offset\(s\) were removed .* say --from {topic}/{A}:5"):
        await run_once(database_url, log)
    assert await effects(connection) == [1, 2]

    await run_once(database_url, log, From(where=TopicPartition(topic, A), offset=5))
    assert await effects(connection) == [1, 2, 6]
    assert await stored(connection, topic) == 6


async def test_a_partition_that_was_emptied_before_it_was_first_read_has_nothing_left_to_read(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await publish(log, *things(1, 2))
    await remove_all(connection, log, topic)
    await run_once(database_url, log)
    assert await stored(connection, topic) == 2
    assert await effects(connection) == []
    await publish(log, *things(3))
    await run_once(database_url, log)
    assert await effects(connection) == [3]


async def test_what_is_removed_before_its_first_event_is_read_is_a_gap_for_a_consumer_that_has_run(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await run_once(database_url, log)
    await publish(log, *things(1, 2))
    await remove_all(connection, log, topic)
    with pytest.raises(PositionLost, match=rf"2 offset\(s\) were removed .* say --from {topic}/{A}:2"):
        await run_once(database_url, log)


async def test_what_is_removed_while_the_consumer_is_slow_stops_it_too(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer, begun, go_on = Consumer("warehouse"), asyncio.Event(), asyncio.Event()

    @consumer.on(ThingHappened)
    async def be_slow(event: Event[ThingHappened], tx: Transaction) -> None:
        begun.set()
        await go_on.wait()
        await have_effect(event, tx)

    await publish(log, *things(1))
    with pytest.raises(PositionLost, match=f"say --from {topic}/{A}:4"):
        async with consumer_running(consumer, database_url, log, batch_records=1, buffer_records=1) as runtime:
            await asyncio.wait_for(begun.wait(), 60)
            await publish(log, *things(2))

            async def is_full() -> bool:
                return any(worker.is_paused for worker in runtime.partitions.workers.values())

            await eventually(is_full, what="the second one fills the buffer")
            await publish(log, *things(3, 4))
            await remove_all(connection, log, topic)
            await publish(log, *things(5))
            go_on.set()

            async def has_ended() -> bool:
                return runtime._stopping.is_set()

            await eventually(has_ended, what="it stops by itself")
    assert await effects(connection) == [1, 2]


async def test_records_that_are_still_there_cannot_be_left_out(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await publish(log, *things(1))
    await run_once(database_url, log)
    await publish(log, *things(2, 3))
    with pytest.raises(
        ConfigurationError, match="would leave out records that are still there: warehouse goes on at 1"
    ):
        await run_once(database_url, log, From(where=TopicPartition(topic, A), offset=2))
    with pytest.raises(ConfigurationError, match="would leave out records that are still there"):
        await run_once(database_url, log, From(where=TopicPartition(topic, A), offset=99))
    await run_once(database_url, log, From(where=TopicPartition(topic, A), offset=0))
    assert await effects(connection) == [1, 2, 3]


async def test_a_topic_that_was_made_anew_stops_the_consumer_with_a_sentence(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await publish(log, *things(1, 2))
    await run_once(database_url, log)
    await connection.execute("UPDATE surefoot.consumer_partitions SET next_offset = 50 WHERE partition = $1", A)
    with pytest.raises(PositionLost, match=r"go on at offset 50 .* and the log ends at 2: the topic was deleted"):
        await run_once(database_url, log)
    await run_once(database_url, log, From("start"))
    await publish(log, *things(3))
    await run_once(database_url, log)
    assert await effects(connection) == [1, 2, 3]


async def test_from_counts_once_and_not_again_after_a_rebalance(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    events = await publish(log, *things(1, 2))
    settings = ConsumerSettings(**QUICK)  # type: ignore[arg-type]
    runtime = ConsumerRuntime(warehouse(), database_url, log, settings, begin=From("start"))
    running = asyncio.create_task(runtime.run())
    try:
        await settled_as(connection, events, "PROCESSED")
        async with consumer_running(warehouse(), database_url, log):

            async def is_shared() -> bool:
                return 0 < len(runtime.next_offsets) < 8

            await eventually(is_shared, what="the other one has a share")
        await connection.execute("DELETE FROM surefoot.processed_events")

        async def has_all() -> bool:
            return len(runtime.next_offsets) == 8

        await eventually(has_all, what="all partitions are back")
        (third,) = await publish(log, *things(3))
        await settled_as(connection, [third], "PROCESSED")
    finally:
        runtime.stop()
        await running
    assert await effects(connection) == [1, 2, 3]
