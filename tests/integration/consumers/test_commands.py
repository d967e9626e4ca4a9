"""Commands: carried out once, answered as often as asked; an undo bars a late do; a dead one frees its key."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from surefoot.consumer import Consumer, OutsideCall, Permanent, Transaction
from surefoot.events import Event, new_event
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.controls import answers, control, id_of, outcome, published, settled_as, tell
from tests.support.consumer.effects import effects, have_effect
from tests.support.consumer.processes import consumer_running, create_topics, publish
from tests.support.consumer.stock_commands import release, reserve
from tests.support.shop_types import ReleaseStock, ReserveStock, StockReleased, StockReserved, commands_on, replies
from tests.support.waiting import eventually

REPLIES = replies.name


@pytest.fixture
async def topic(log: PostgresLog, topic_name: str) -> AsyncIterator[str]:
    await create_topics(log, topic_name, REPLIES, "saga.replies", "dlq.outcomes")
    with commands_on(topic_name):
        yield topic_name


class Warehouse:
    """Reserves and gives back; its reservations can be broken and mended."""

    def __init__(self) -> None:
        self.broken = False
        self.undone: list[bool] = []
        self.consumer = Consumer("warehouse")
        self.consumer.command(ReserveStock)(self.reserve)
        self.consumer.command(ReleaseStock)(self.release)

    async def reserve(self, event: Event[ReserveStock], tx: Transaction) -> StockReserved:
        if self.broken:
            raise Permanent("The shelf is broken.")
        await have_effect(event, tx)
        return StockReserved(order_id=event.data.order_id, shelf=f"shelf {event.data.number}")

    async def release(self, event: Event[ReleaseStock], tx: Transaction) -> StockReleased:
        self.undone.append(tx.done)
        await have_effect(event, tx)
        return StockReleased(order_id=event.data.order_id, was_done=tx.done)


async def test_a_repeated_command_gets_the_same_reply_again_and_is_not_carried_out_twice(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    warehouse = Warehouse()
    first, again = reserve(number=1), reserve(number=2, attempt=2)
    await publish(log, first)
    async with consumer_running(warehouse.consumer, database_url, log):
        await settled_as(connection, [first], "PROCESSED")
        await publish(log, again)
        await settled_as(connection, [again], "PROCESSED")

    assert await effects(connection) == [1]
    rows = await connection.fetch(
        "SELECT body, key, headers::text FROM surefoot.outbox_events WHERE topic = $1 ORDER BY position", REPLIES
    )
    assert [row["body"] for row in rows] == [rows[0]["body"], rows[0]["body"]]
    assert b"shelf 1" in rows[0]["body"]
    told = [reply["_headers"] for reply in await published(connection, REPLIES)]
    assert [reply["ce_causationid"] for reply in told] == [first.id, again.id]
    assert told[0]["ce_id"] != told[1]["ce_id"]
    same = ("ce_type", "ce_source", "ce_partitionkey", "ce_dataschema")
    assert [told[0][name] for name in same] == [told[1][name] for name in same]


async def test_an_undo_after_its_do_knows_that_it_was_done(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    warehouse = Warehouse()
    do, undo = reserve(number=1), release(number=2)
    await publish(log, do, undo)
    async with consumer_running(warehouse.consumer, database_url, log):
        await settled_as(connection, [do, undo], "PROCESSED")
    assert warehouse.undone == [True]
    assert [reply.get("was_done") for reply in await published(connection, REPLIES)] == [None, True]


async def test_an_undo_before_its_do_bars_the_do_that_comes_late(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    warehouse = Warehouse()
    undo, do, other_saga = release(number=2), reserve(number=1), reserve("s2", number=3)
    await publish(log, undo, do, other_saga)
    async with consumer_running(warehouse.consumer, database_url, log):
        await settled_as(connection, [do], "BARRED")
        await settled_as(connection, [other_saga], "PROCESSED")
    assert warehouse.undone == [False]
    assert sorted(await effects(connection)) == [2, 3]
    replies = await published(connection, REPLIES)
    assert sorted(reply["_headers"]["ce_causationid"] for reply in replies) == sorted([undo.id, other_saga.id])


async def test_a_command_that_dies_answers_that_its_outcome_is_unknown_and_frees_its_key(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    warehouse = Warehouse()
    warehouse.broken = True
    do, undo = reserve(number=1), release(number=2)
    await publish(log, do, undo)
    async with consumer_running(warehouse.consumer, database_url, log):
        await settled_as(connection, [undo], "PROCESSED")

    assert await outcome(connection, do) == "DEAD"
    assert warehouse.undone == [False]
    (reply,) = await published(connection, "saga.replies")
    assert reply["_headers"]["ce_type"] == "command.failed"
    assert reply["_headers"]["ce_causationid"] == do.id
    told = {name: reply[name] for name in ("saga_id", "step", "direction", "attempt", "consumer", "reason", "error")}
    assert told == {
        "saga_id": "s1",
        "step": "reserve_stock",
        "direction": "do",
        "attempt": 1,
        "consumer": "warehouse",
        "reason": "permanent",
        "error": "The shelf is broken.",
    }
    (letter,) = await published(connection, topic + ".dlq")
    assert letter["_headers"]["surefoot-held"] == "false"
    # Both are in the outbox by one transaction.
    assert (
        await connection.fetchval(
            "SELECT count(DISTINCT xmin::text) FROM surefoot.outbox_events WHERE topic = ANY($1)",
            ["saga.replies", topic + ".dlq"],
        )
        == 1
    )


async def test_a_dead_command_that_is_replayed_runs_because_nothing_was_kept_of_it(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    warehouse = Warehouse()
    warehouse.broken = True
    do = reserve(number=1)
    await publish(log, do)
    async with consumer_running(warehouse.consumer, database_url, log):
        await settled_as(connection, [do], "DEAD")
        assert await connection.fetchval("SELECT count(*) FROM surefoot.command_barriers") == 0
        warehouse.broken = False
        replay = control(do, "replay")
        await tell(log, topic, do, replay)
        assert await answers(connection, 1) == [(id_of(replay), "done")]
    assert await effects(connection) == [1]
    assert [reply["shelf"] for reply in await published(connection, REPLIES)] == ["shelf 1"]


async def test_a_dead_command_that_is_replayed_after_its_undo_is_barred(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    warehouse = Warehouse()
    warehouse.broken = True
    do, undo = reserve(number=1), release(number=2)
    await publish(log, do, undo)
    async with consumer_running(warehouse.consumer, database_url, log):
        await settled_as(connection, [undo], "PROCESSED")
        warehouse.broken = False
        replay = control(do, "replay")
        await tell(log, topic, do, replay)
        assert await answers(connection, 1) == [(id_of(replay), "already_settled")]
    assert await outcome(connection, do) == "BARRED"
    assert await effects(connection) == [2]
    (told,) = await published(connection, "dlq.outcomes")
    assert told["outcome"] == "BARRED"


async def test_a_command_of_no_saga_is_carried_out_and_answered(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    warehouse = Warehouse()
    events = [new_event(ReserveStock(order_id="s1", number=n)) for n in (1, 2)]
    await publish(log, *events)
    async with consumer_running(warehouse.consumer, database_url, log):
        await settled_as(connection, events, "PROCESSED")
    assert await effects(connection) == [1, 2]
    assert [reply["shelf"] for reply in await published(connection, REPLIES)] == ["shelf 1", "shelf 2"]
    assert await connection.fetchval("SELECT count(*) FROM surefoot.command_barriers") == 0


async def test_half_a_command_is_dead_and_nobody_is_answered(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    warehouse = Warehouse()
    half = new_event(ReserveStock(order_id="s1"), extensions={"sagaid": "s1"})
    await publish(log, half)
    async with consumer_running(warehouse.consumer, database_url, log):
        await settled_as(connection, [half], "DEAD")
    (letter,) = await published(connection, topic + ".dlq")
    assert "sagastep" in letter["_headers"]["surefoot-error"]
    assert await published(connection, "saga.replies") == []
    assert await effects(connection) == []


async def test_a_reply_that_is_no_event_kills_the_command_and_undoes_its_effect(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse")

    @consumer.command(ReserveStock)
    async def answer_oddly(event: Event[ReserveStock], tx: Transaction) -> str:
        await have_effect(event, tx)
        return "done"

    do = reserve(number=1)
    await publish(log, do)
    async with consumer_running(consumer, database_url, log):
        await settled_as(connection, [do], "DEAD")
        await eventually(lambda: published(connection, "saga.replies"), what="the saga is told")
    assert await effects(connection) == []


async def test_two_attempts_whose_calls_are_under_way_together_have_one_effect_and_the_same_reply(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    is_broken, both, called = True, asyncio.Event(), []
    consumer = Consumer("warehouse")

    async def call(event: Event[ReserveStock], call: OutsideCall) -> int:
        if is_broken:
            raise Permanent("The shelf is broken.")
        called.append(event.data.number)
        if len(called) == 2:
            both.set()
        await both.wait()
        return event.data.number

    @consumer.command(ReserveStock, outside=call)
    async def finish(event: Event[ReserveStock], tx: Transaction, shelf: int) -> StockReserved:
        await have_effect(event, tx)
        return StockReserved(order_id=event.data.order_id, shelf=f"shelf {shelf}")

    first, second = reserve(number=1), reserve(number=2, attempt=2)
    await publish(log, first)
    async with consumer_running(consumer, database_url, log):
        await settled_as(connection, [first], "DEAD")
        is_broken = False
        await publish(log, second)

        async def is_called() -> bool:
            return called == [2]

        await eventually(is_called, what="the second attempt is called")
        replay = control(first, "replay")
        await tell(log, topic, first, replay)
        assert await answers(connection, 1) == [(id_of(replay), "done")]
        await settled_as(connection, [first, second], "PROCESSED")

    assert len(await effects(connection)) == 1
    told = await published(connection, REPLIES)
    assert {reply["_headers"]["ce_causationid"] for reply in told} == {first.id, second.id}
    assert len({reply["shelf"] for reply in told}) == 1
    assert len(await published(connection, "saga.replies")) == 1  # of the death before


async def test_a_tombstone_is_kept_as_long_as_the_dead_command_that_it_bars(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    warehouse = Warehouse()
    warehouse.broken = True
    too_long = "…" * 200  # keys of more than 500 bytes are parked as hashes
    dos = [reserve(number=1), reserve(too_long, number=2)]
    undos = [release(do.data.order_id, number=3) for do in dos]
    other = reserve("another", number=4)
    await publish(log, *dos, *undos)
    async with consumer_running(warehouse.consumer, database_url, log):
        await settled_as(connection, dos, "DEAD")
        await settled_as(connection, undos, "PROCESSED")
        warehouse.broken = False
        await publish(log, other)
        await settled_as(connection, [other], "PROCESSED")

        await connection.execute("UPDATE surefoot.command_barriers SET settled_at = now() - interval '61 days'")
        await eventually(lambda: are_left(connection, dos), what="what nothing waits for is forgotten")
        for do in dos:
            await tell(log, topic, do, control(do, "replay"))
        await settled_as(connection, dos, "BARRED")
        await eventually(lambda: are_left(connection, []), what="then the rest is forgotten")
    assert sorted(await effects(connection)) == [3, 3, 4]


async def are_left(connection: asyncpg.Connection, commands: list[Event[ReserveStock]]) -> bool:
    """Whether the barriers are those of these sagas."""
    rows = await connection.fetch("SELECT DISTINCT saga_id FROM surefoot.command_barriers")
    return {row[0] for row in rows} == {command.data.order_id for command in commands}
