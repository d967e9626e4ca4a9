"""Outside calls and who makes them: the partition's owner, and whoever takes over; commands and their undo's keys."""

import asyncio
import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from surefoot.consumer import Consumer, OutsideCall, Transaction
from surefoot.consumer_runtime.handling import OutsideCalls, Slots
from surefoot.consumer_runtime.parking import ParkedRow
from surefoot.consumer_runtime.plan import Delivery, read
from surefoot.consumer_runtime.unit import Database, FenceLost, Position
from surefoot.events import Event, new_event
from surefoot.log.port import StoredRecord, TopicPartition
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.controls import published, settled_as
from tests.support.consumer.effects import effects, have_effect
from tests.support.consumer.outside_provider import CALLS
from tests.support.consumer.processes import consumer_running, create_topics, publish, record_of, start_consumer
from tests.support.consumer.stock_commands import release, reserve
from tests.support.event_types import ThingHappened
from tests.support.shop_types import ReleaseStock, ReserveStock, StockReleased, StockReserved, commands_on, replies

pytestmark = pytest.mark.promise("P2")


async def test_a_call_that_a_killed_process_began_is_made_again_under_the_same_key_and_finished_once(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, tmp_path: Path
) -> None:
    await connection.execute(CALLS)
    await create_topics(log, "test.things", "saga.replies", "dlq.outcomes")
    first, second = await publish(log, ThingHappened(thing_id="a", number=1), ThingHappened(thing_id="a", number=2))
    reference, provider = "tests.support.consumer.outside_provider:payments", {"SUREFOOT_TEST_PROVIDER": database_url}
    killed = await start_consumer(
        reference, database_url, None, tmp_path / "1.log", failpoints="consumer.calling=kill", environment=provider
    )
    assert await killed.ended() == -signal.SIGKILL, killed.log.read_text()
    assert await connection.fetchval("SELECT state::text FROM surefoot.parked_events ORDER BY log_offset") == "CALLING"
    # The next one is killed when the call was made and before it was finished.
    killed = await start_consumer(
        reference, database_url, None, tmp_path / "2.log", failpoints="consumer.fenced=kill", environment=provider
    )
    assert await killed.ended() == -signal.SIGKILL, killed.log.read_text()
    last = await start_consumer(reference, database_url, None, tmp_path / "3.log", environment=provider)
    try:
        await settled_as(connection, [first, second], "PROCESSED", "payments")
    finally:
        last.signal(signal.SIGTERM)
        await last.ended()

    calls = await connection.fetch("SELECT key, attempt, prepared FROM calls ORDER BY n")
    assert [call["prepared"] for call in calls] == ["number 1", "number 1", "number 2"]
    assert calls[0]["key"] == calls[1]["key"] != calls[2]["key"]
    assert await effects(connection) == [1, 2]


async def test_no_call_is_made_by_whoever_no_longer_owns_the_partition(
    database_url: str, connection: asyncpg.Connection, topic_name: str
) -> None:
    called: list[str] = []
    consumer = Consumer("payments")

    async def call(event: Event[ThingHappened], _: OutsideCall) -> None:
        called.append(event.id)

    @consumer.on(ThingHappened, outside=call)
    async def finish(event: Event[ThingHappened], tx: Transaction, result: None) -> None: ...

    await connection.execute(
        "INSERT INTO surefoot.consumer_partitions (consumer, topic, partition, fence) VALUES ('payments', $1, 0, 8)",
        topic_name,
    )
    seconds = timedelta(seconds=5)
    database = Database(database_url, "surefoot", name="test", size=1, lock_timeout=seconds, handler_timeout=seconds)
    try:
        delivery = _delivery(consumer, topic_name)
        for fence, expected in ((7, FenceLost), (8, type(None))):
            position, woken = Position("payments", TopicPartition(topic_name, 0), fence), asyncio.Event()
            calls = OutsideCalls(position, database, Slots(1), seconds, woken.set)
            calls.start(_row(delivery), delivery)
            assert calls.under_way() == [0]
            await asyncio.wait_for(woken.wait(), 60)
            assert [type(one.error) for one in calls.ended()] == [expected]
    finally:
        await database.close()
    assert called == [delivery.event.id]


@pytest.fixture
async def commands_topic(log: PostgresLog, topic_name: str) -> AsyncIterator[str]:
    await create_topics(log, topic_name, replies.name, "saga.replies", "dlq.outcomes")
    with commands_on(topic_name):
        yield topic_name


async def test_an_undo_calls_with_the_key_of_the_do_it_undoes_and_both_are_answered(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, commands_topic: str
) -> None:
    consumer = Consumer("warehouse")
    calls: list[OutsideCall] = []
    done: list[bool] = []

    async def call(event: Event[ReserveStock], call: OutsideCall) -> str:
        calls.append(call)
        return "shelf 4"

    @consumer.command(ReserveStock, outside=call)
    async def reserved(event: Event[ReserveStock], tx: Transaction, place: str) -> StockReserved:
        await have_effect(event, tx)
        return StockReserved(order_id=event.data.order_id, shelf=place)

    @consumer.command(ReleaseStock, outside=call)
    async def released(event: Event[ReleaseStock], tx: Transaction, place: str) -> StockReleased:
        done.append(tx.done)
        await have_effect(event, tx)
        return StockReleased(order_id=event.data.order_id, was_done=tx.done)

    do, again, undo, late = reserve(number=1), reserve(number=2, attempt=2), release(number=3), reserve("s2")
    undo_first = release("s2", number=4)
    await publish(log, do, again, undo, undo_first, late)
    async with consumer_running(consumer, database_url, log):
        await settled_as(connection, [do, again, undo, undo_first], "PROCESSED")
        await settled_as(connection, [late], "BARRED")

    assert len(calls) == 3
    assert await effects(connection, "s1") == [1, 3]
    assert sorted(done) == [False, True]
    s1 = [reply for reply in await published(connection, replies.name) if reply["order_id"] == "s1"]
    causes = [reply["_headers"]["ce_causationid"] for reply in s1]
    assert causes == [do.id, again.id, undo.id]
    assert s1[0]["shelf"] == s1[1]["shelf"] == "shelf 4"
    (its_do,) = [one for one in calls if one.key == one.do_key]
    undos = [one for one in calls if one.key != one.do_key]
    assert len({one.key for one in calls}) == 3
    assert [one.do_key == its_do.key for one in undos].count(True) == 1


def _delivery(consumer: Consumer, topic: str) -> Delivery:
    record = record_of(new_event(ThingHappened(thing_id="a")))
    found = read(StoredRecord(topic, 0, 0, 0, record.key, record.value, record.headers), consumer)
    assert isinstance(found, Delivery)
    return found


def _row(delivery: Delivery) -> ParkedRow:
    names = (delivery.key, delivery.source, delivery.event_id, delivery.event.type)
    return ParkedRow(0, *names, "CALLING", True, 0, 0, (), delivery.record, "null", None)
