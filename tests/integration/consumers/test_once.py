"""An event has its effect once, however often it is delivered, and what its handler publishes goes with it."""

import asyncpg

from surefoot.consumer import Consumer, Transaction
from surefoot.events import Event
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.effects import effects, have_effect
from tests.support.consumer.processes import consumer_running, outcomes, publish
from tests.support.event_types import ThingHappened, ThingPaid
from tests.support.waiting import eventually


async def test_an_event_delivered_twice_has_its_effect_once(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse")
    consumer.on(ThingHappened)(have_effect)
    (event,) = await publish(log, ThingHappened(thing_id="a", number=1))
    await publish(log, event, ThingHappened(thing_id="a", number=2), event)

    async with consumer_running(consumer, database_url, log):
        await eventually(lambda: read_to(connection, 4), what="all four records are worked off")

    assert await effects(connection) == [1, 2]
    assert await outcomes(connection, "warehouse") == {"PROCESSED": 2}


async def test_what_a_handler_publishes_is_in_the_outbox_with_its_cause(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse")

    @consumer.on(ThingHappened)
    async def tell(event: Event[ThingHappened], tx: Transaction) -> None:
        tx.publish(ThingHappened(thing_id="told", number=event.data.number + 1))

    (event,) = await publish(log, ThingHappened(thing_id="a", number=1))
    async with consumer_running(consumer, database_url, log):
        await eventually(lambda: read_to(connection, 1), what="the record is worked off")

    (row,) = await connection.fetch("SELECT key, payload, headers::text FROM surefoot.outbox")
    assert row["key"] == "told"
    assert f'"ce_causationid","{event.id}"' in row["headers"]
    assert f'"ce_correlationid","{event.correlation_id}"' in row["headers"]


async def test_a_type_without_a_handler_is_ignored_and_counted(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse")
    consumer.on(ThingPaid)(have_effect)
    await publish(log, *(ThingHappened(thing_id="a", number=n) for n in range(7)))
    async with consumer_running(consumer, database_url, log):
        await eventually(lambda: read_to(connection, 7), what="all are passed by")
    assert await connection.fetchval("SELECT sum(ignored) FROM surefoot.consumer_partitions") == 7
    assert await outcomes(connection, "warehouse") == {}


async def read_to(connection: asyncpg.Connection, count: int) -> bool:
    found = await connection.fetchval("SELECT sum(next_offset) FROM surefoot.consumer_partitions")
    return found is not None and found >= count
