"""The consumer runtime goes on: the log goes away at a bad moment, a handler does not end or blocks the event loop,
records are too large to be read at once, and a command waits for partitions of another member."""

import asyncio
import re
import signal
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from surefoot.consumer import Consumer, HandlerMisuse, Transaction
from surefoot.consumer_runtime import runtime as runtime_module
from surefoot.consumer_runtime.partitions import From
from surefoot.consumer_runtime.runtime import ConsumerRuntime
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.errors import LogUnavailable
from surefoot.events import Event
from surefoot.log.port import Record, StoredRecord, TopicPartition, key_hash, partition_of
from surefoot.log.postgres.line import READ_BYTES
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.effects import effects, have_effect
from tests.support.consumer.processes import (
    QUICK,
    consumer_running,
    create_topics,
    publish,
    publish_records,
    start_consumer,
)
from tests.support.event_types import ThingHappened, things_on
from tests.support.relay.processes import spec
from tests.support.waiting import eventually

A = partition_of(key_hash(b"a"), 8)
NEVER_ENDS = 3
stubborn = Consumer("stubborn")


@stubborn.on(ThingHappened)
async def hold_on(event: Event[ThingHappened], tx: Transaction) -> None:
    """Loaded by name, by a process of its own."""
    if event.data.number == NEVER_ENDS:
        sys.stderr.write("holding on\n")
        while True:
            await swallowing(asyncio.sleep(3600))


async def swallowing(waiting) -> None:  # type: ignore[no-untyped-def]
    try:
        await waiting
    except asyncio.CancelledError:
        return


def warehouse() -> Consumer:
    consumer = Consumer("warehouse")
    consumer.on(ThingHappened)(have_effect)
    return consumer


def waiting_at(gate: asyncio.Event, begun: asyncio.Event) -> Consumer:
    consumer = Consumer("warehouse")

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        begun.set()
        await gate.wait()
        await have_effect(event, tx)

    return consumer


def settings() -> ConsumerSettings:
    return ConsumerSettings(**QUICK)  # type: ignore[arg-type]


async def have_effects(connection: asyncpg.Connection, count: int) -> None:
    async def look() -> bool:
        return len(await effects(connection)) >= count

    await eventually(look, what=f"{count} effects")


async def owns(runtime: ConsumerRuntime, partitions: int) -> None:
    async def look() -> bool:
        return len(runtime.next_offsets) == partitions

    await eventually(look, what=f"it owns {partitions} partitions")


class GoesAway(PostgresLog):
    """Cannot say how far its retention has got, as often as it is told."""

    away = 0

    async def first_offsets(self, topic: str) -> Mapping[TopicPartition, int]:
        if self.away:
            self.away -= 1
            raise LogUnavailable("The log does not answer.")
        return await super().first_offsets(topic)


async def test_the_log_goes_away_between_the_poll_and_the_handing_over(
    database_url: str, connection: asyncpg.Connection, topic: str
) -> None:
    """A hole in the log makes the runtime ask it once more, about records it has read and not handed over yet."""
    log = GoesAway(database_url)
    await publish_records(log, {TopicPartition(topic, n): [Record(b"x", b"x", [])] for n in range(8)})
    await connection.execute("DELETE FROM surefoot.log_records")
    async with consumer_running(warehouse(), database_url, log) as runtime:
        await owns(runtime, 8)
        log.away = 3
        await publish(log, *(ThingHappened(thing_id=f"key-{n % 20}", number=n) for n in range(100)))
        await have_effects(connection, 100)
    assert log.away == 0
    for key in range(20):
        assert await effects(connection, f"key-{key}") == list(range(key, 100, 20))
    await log.close()


async def test_a_process_whose_handler_swallows_its_cancellation_ends_all_the_same(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, tmp_path: Path
) -> None:
    await create_topics(log, "test.things", "saga.replies", "dlq.outcomes")
    await publish(log, ThingHappened(thing_id="a", number=NEVER_ENDS))
    output = tmp_path / "consumer.log"
    process = await start_consumer(f"{__name__}:stubborn", database_url, None, output)

    async def holds_on() -> bool:
        return "holding on" in output.read_text()

    await eventually(holds_on, what="the handler runs")
    process.signal(signal.SIGTERM)
    try:
        code = await process.ended()
    except TimeoutError:
        process.signal(signal.SIGKILL)
        await process.ended()
        raise
    said = output.read_text()
    assert code == 2, said
    assert f"A handler swallows its cancellation and runs on, in test.things/{A}: the process ends" in said
    assert "Traceback" not in said
    assert await connection.fetch("SELECT 1 FROM surefoot.processed_events") == []
    assert await connection.fetchval("SELECT count(*) FROM surefoot.leases WHERE owner IS NOT NULL") == 0


async def test_a_handler_that_swallows_its_cancellation_does_not_hold_up_a_rebalance(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    released, held = asyncio.Event(), asyncio.Event()
    holding = Consumer("warehouse")

    @holding.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        held.set()
        while not released.is_set():
            await swallowing(released.wait())

    first = ConsumerRuntime(holding, database_url, log, settings())
    running = asyncio.create_task(first.run())
    await owns(first, 8)
    await publish(log, *(ThingHappened(thing_id=f"key-{n}", number=n) for n in range(30)))
    await held.wait()
    try:
        async with consumer_running(warehouse(), database_url, log):
            with pytest.raises(HandlerMisuse, match="swallows its cancellation and runs on"):
                await asyncio.wait_for(running, 60)
            assert first.partitions.stuck
            await have_effects(connection, 30)
            released.set()
    finally:
        released.set()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait([task], timeout=10)
    assert sorted(await effects(connection)) == list(range(30))


async def test_partitions_are_taken_while_handlers_have_all_the_connections(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()
    waiting = waiting_at(gate, begun)
    await publish(log, *(ThingHappened(thing_id=f"key-{n}", number=n) for n in range(50)))
    patient = timedelta(seconds=60)
    async with consumer_running(waiting, database_url, log, concurrency=1, handler_timeout=patient) as first:
        await begun.wait()
        async with consumer_running(waiting, database_url, log, concurrency=1) as second:
            await owns(second, 4)
        await asyncio.wait_for(owns(first, 8), 30)  # sooner than a handler's time is up
        gate.set()
        await have_effects(connection, 50)
    assert sorted(await effects(connection)) == list(range(50))


async def test_a_handler_that_blocks_the_event_loop_is_named(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer(f"blocking-{topic}")

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        time.sleep(3.5)  # noqa: ASYNC251  # that is the mistake
        await have_effect(event, tx)

    with capture_logs() as lines:
        async with consumer_running(consumer, database_url, log):
            await publish(log, ThingHappened(thing_id="a", number=1))
            await have_effects(connection, 1)
    told = [line["event"] for line in lines if "the event loop has stood still" in line["event"]]
    assert len(told) == 1, lines
    assert re.search(
        rf"{__name__}\.test_a_handler_that_blocks\w+\.<locals>\.handle \(line \d+\); handlers must", told[0]
    )
    assert REGISTRY.get_sample_value("surefoot_consumer_loop_stalls_total", {"consumer": consumer.name}) == 1


@pytest.mark.parametrize("member", [True, False], ids=["as a member", "as a reader"])
async def test_one_read_of_large_records_is_bounded_and_leaves_nothing_out(
    log: PostgresLog, topic_name: str, member: bool
) -> None:
    await create_topics(log, topic_name, partitions=2)
    places = [TopicPartition(topic_name, n) for n in range(2)]
    small, large = Record(b"k", b"x", []), Record(b"k", b"x" * 900_000, [])
    for where in places:
        for some in ([small] * 50, *[[large] * 5] * 5):
            await publish_records(log, {where: some})
    polls = await log.subscribe("g", [topic_name]) if member else await log.read(topic_name, dict.fromkeys(places, 0))
    found: dict[TopicPartition, list[StoredRecord]] = {where: [] for where in places}
    sizes = []
    while sum(map(len, found.values())) < 150:
        records = await polls.poll(max_records=4000, timeout=timedelta(seconds=10))
        sizes.append(sum(len(one.value or b"") for batch in records.values() for one in batch))
        for where, batch in records.items():
            found[where] += batch
    await polls.close()
    assert max(sizes) <= READ_BYTES + 900_000
    assert len(sizes) <= 4  # 45 MB in all: bounded, not one by one
    for where in places:
        assert [one.offset for one in found[where]] == list(range(75))


async def test_a_record_larger_than_one_read_is_read(log: PostgresLog, topic_name: str) -> None:
    await log.create([spec(topic_name, 1, 2 * READ_BYTES)])
    where = TopicPartition(topic_name, 0)
    huge = Record(b"k", b"x" * (READ_BYTES + 1), [])
    for _ in range(2):
        await publish_records(log, {where: [huge]})
    reader = await log.read(topic_name, {where: 0})
    offsets = [[one.offset for one in (await reader.poll())[where]] for _ in range(2)]
    await reader.close()
    assert offsets == [[0], [1]]


async def test_from_a_partition_of_another_member_says_that_it_waits(
    database_url: str, log: PostgresLog, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_module, "TELL_OF_WAITING_S", 1.0)
    await create_topics(log, topic_name, partitions=1)
    begin = From(where=TopicPartition(topic_name, 0), offset=0)
    with things_on(topic_name), capture_logs() as lines:

        def warned() -> list[str]:
            return [line["event"] for line in lines if line["event"].startswith("--from ")]

        async with consumer_running(warehouse(), database_url, log) as first:
            await owns(first, 1)
            second = ConsumerRuntime(warehouse(), database_url, log, settings(), begin=begin)
            running = asyncio.create_task(second.run())

            async def told() -> bool:
                return bool(warned())

            await eventually(told, what="it says that it waits")
            assert first.next_offsets.keys() == {TopicPartition(topic_name, 0)}
        await owns(second, 1)
        second.stop()
        await running
    assert warned() == [
        f"--from {topic_name}/0:0 waits: that partition belongs to another member. Stop the other members, or wait "
        "until it moves here."
    ]


async def test_from_a_partition_that_is_ours_says_nothing(
    database_url: str, log: PostgresLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_module, "TELL_OF_WAITING_S", 0.0)
    begin = From(where=TopicPartition(topic, 3), offset=0)
    with capture_logs() as lines:
        await ConsumerRuntime(warehouse(), database_url, log, settings(), begin=begin, once=True).run()
    assert [line for line in lines if line["log_level"] == "warning"] == []


async def test_once_beside_another_member_ends_when_its_own_partitions_are_worked_off(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()
    await publish(log, *(ThingHappened(thing_id=f"key-{n}", number=n) for n in range(100)))
    ends = await log.end_offsets(topic)
    assert all(ends.values())
    async with consumer_running(waiting_at(gate, begun), database_url, log) as first:
        await owns(first, 8)
        await begun.wait()
        with capture_logs() as lines:
            await asyncio.wait_for(ConsumerRuntime(warehouse(), database_url, log, settings(), once=True).run(), 30)
        (others,) = [line["others"] for line in lines if line["event"].startswith("worked off what is ours")]
        rows = await connection.fetch("SELECT partition, next_offset FROM surefoot.consumer_partitions")
        reached = {f"{topic}/{row[0]}" for row in rows if row[1] == ends[TopicPartition(topic, row[0])]}
        assert reached
        assert sorted(reached.union(others)) == [f"{topic}/{n}" for n in range(8)]
        assert reached.isdisjoint(others)
        gate.set()
        await have_effects(connection, 100)
    assert sorted(await effects(connection)) == list(range(100))
