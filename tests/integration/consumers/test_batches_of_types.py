"""A batch handler for several types: its runs go on where the types alternate; order and blame stay as they were."""

from collections.abc import Sequence
from decimal import Decimal

import asyncpg

from surefoot.consumer import Consumer, Permanent, Transaction
from surefoot.events import Event, EventData, Money
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.failures import keys_together, settled
from tests.support.consumer.processes import consumer_running, publish
from tests.support.event_types import ThingHappened, ThingPaid

Either = Event[ThingHappened | ThingPaid]


def alternating(count: int) -> list[EventData]:
    """Of different keys in one partition: the even ones happened, the odd ones were paid."""
    return [
        ThingPaid(thing_id=key, price=Money(Decimal(n), "EUR")) if n % 2 else ThingHappened(thing_id=key, number=n)
        for n, key in enumerate(keys_together(count))
    ]


async def test_events_of_alternating_types_come_as_one_run_in_the_order_of_the_log(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse")
    calls: list[list[EventData]] = []

    @consumer.on_batch(ThingHappened, ThingPaid)
    async def together(events: Sequence[Either], tx: Transaction) -> None:
        calls.append([event.data for event in events])

    things = alternating(20)
    await publish(log, *things)
    async with consumer_running(consumer, database_url, log):
        await settled(connection, PROCESSED=20)
    assert calls == [things]


async def test_a_culprit_among_alternating_types_costs_only_itself_and_those_behind_it_on_its_key(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse")
    done: list[EventData] = []

    @consumer.on_batch(ThingHappened, ThingPaid)
    async def together(events: Sequence[Either], tx: Transaction) -> None:
        if any(isinstance(event.data, ThingPaid) and event.data.price.amount == 7 for event in events):
            raise Permanent("seven is not paid")
        done.extend(event.data for event in events)

    things = alternating(16)
    behind = ThingHappened(thing_id=keys_together(8)[7], number=100)
    events = await publish(log, *things, behind)
    async with consumer_running(consumer, database_url, log):
        await settled(connection, PROCESSED=15, PARKED=1, DEAD=1)
    waiting = await connection.fetch("SELECT event_id, state::text FROM surefoot.parked_events ORDER BY log_offset")
    assert [tuple(row) for row in waiting] == [(events[7].id, "DEAD"), (events[16].id, "WAITING")]
    assert done == [*things[:7], *things[8:]]
