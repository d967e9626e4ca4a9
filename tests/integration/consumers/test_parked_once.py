"""A parked event has its effect once, also where it stood twice in a turn or was taken off the table meanwhile."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from surefoot.consumer import Consumer, OutsideCall, Retry, Transaction
from surefoot.consumer_runtime.partitions import From
from surefoot.consumer_runtime.runtime import ConsumerRuntime
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.events import Event, Money
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.controls import settled_as
from tests.support.consumer.effects import effects, have_effect
from tests.support.consumer.failures import keys_together, letters, settled
from tests.support.consumer.processes import QUICK, consumer_running, outcomes, publish
from tests.support.event_types import ThingHappened, ThingPaid
from tests.support.waiting import eventually

KEY, OTHER = keys_together(2)
TENTHS = Retry(attempts=1000, first=timedelta(milliseconds=100), longest=timedelta(milliseconds=100))


class Shop:
    """Fails the event of number 2 until that of number 3 has been handled, which takes longer than its rest."""

    def __init__(self, *, outside: bool) -> None:
        self.is_open = False
        self.outside = outside

    def consumer(self, *, older: bool) -> Consumer:
        consumer = Consumer("warehouse", retry=TENTHS)
        if not older:  # the new version has a handler for what was passed by
            consumer.on(ThingPaid)(have_effect)
        if self.outside:
            consumer.on(ThingHappened, outside=self.call, prepare=self.handle)(self.finish)
        else:
            consumer.on(ThingHappened)(self.handle)
        return consumer

    async def handle(self, event: Event[ThingHappened], tx: Transaction) -> None:
        if event.data.number == 2 and not self.is_open:
            raise RuntimeError("not yet")
        if event.data.number == 3:
            self.is_open = True
            await asyncio.sleep(0.4)  # the rest of number 2 is over before this batch is
        await have_effect(event, tx)

    async def call(self, event: Event[ThingHappened], call: OutsideCall) -> None: ...

    async def finish(self, event: Event[ThingHappened], tx: Transaction, result: None) -> None: ...


@pytest.mark.parametrize("outside", [False, True])
async def test_an_event_that_waits_behind_one_read_again_is_handled_once(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, outside: bool
) -> None:
    shop = Shop(outside=outside)
    paid = ThingPaid(thing_id=KEY, price=Money.minor(100, "EUR"))
    _, failing = await publish(log, paid, ThingHappened(thing_id=KEY, number=2))
    async with consumer_running(shop.consumer(older=True), database_url, log):
        await settled_as(connection, [failing], "PARKED")
    await publish(log, ThingHappened(thing_id=OTHER, number=3))
    newer, start = shop.consumer(older=False), From("start")
    runtime = ConsumerRuntime(newer, database_url, log, ConsumerSettings(**QUICK), begin=start)  # type: ignore[arg-type]
    running = asyncio.create_task(runtime.run())
    await settled(connection, PROCESSED=3)
    runtime.stop()
    await running
    assert sorted(await effects(connection)) == [0, 2, 3]


@pytest.mark.parametrize("outside", [False, True])
async def test_an_attempt_at_an_event_that_is_parked_no_more_has_no_effect_and_does_not_count(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, outside: bool
) -> None:
    consumer = Consumer("warehouse", retry=Retry(attempts=2, first=timedelta(milliseconds=10)))
    tried: list[int] = []

    async def handle(event: Event[ThingHappened], tx: Transaction, result: None = None) -> None:
        tried.append(event.data.number)
        if len(tried) == 1:
            raise RuntimeError("the first attempt fails")
        await have_effect(event, tx)
        if event.data.number == 1:
            await connection.execute("DELETE FROM surefoot.parked_events")

    async def plainly(event: Event[ThingHappened], tx: Transaction) -> None:
        await handle(event, tx)

    async def call(event: Event[ThingHappened], call: OutsideCall) -> None: ...

    if outside:
        consumer.on(ThingHappened, outside=call)(handle)
    else:
        consumer.on(ThingHappened)(plainly)
    await publish(log, ThingHappened(thing_id=KEY, number=1))
    async with consumer_running(consumer, database_url, log):

        async def is_tried_again() -> bool:
            return len(tried) == 2

        await eventually(is_tried_again, what="it is tried again")
        (other,) = await publish(log, ThingHappened(thing_id=OTHER, number=2))
        await settled_as(connection, [other], "PROCESSED")
    assert tried == [1, 1, 2]
    assert await effects(connection) == [2]
    assert await outcomes(connection, "warehouse") == {"PARKED": 1, "PROCESSED": 1}
    assert await letters(connection) == []


async def test_an_event_does_not_pass_one_read_again_that_fails_and_rests(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    """The later one was parked first, and its turn had come: it has to wait behind the earlier one all the same."""
    failures = 0

    async def pay(event: Event[ThingPaid], tx: Transaction) -> None:
        nonlocal failures
        if failures < 3:
            failures += 1
            raise RuntimeError("not yet")
        await have_effect(event, tx)

    async def happen(event: Event[ThingHappened], tx: Transaction) -> None:
        if not failures:
            raise RuntimeError("not before the other one has failed")
        await have_effect(event, tx)

    older = Consumer("warehouse", retry=TENTHS)
    older.on(ThingHappened)(happen)
    paid = ThingPaid(thing_id=KEY, price=Money.minor(100, "EUR"))
    _, failing = await publish(log, paid, ThingHappened(thing_id=KEY, number=2))
    async with consumer_running(older, database_url, log):
        await settled_as(connection, [failing], "PARKED")
    newer = Consumer("warehouse", retry=TENTHS)
    newer.on(ThingHappened)(happen)
    newer.on(ThingPaid)(pay)
    runtime = ConsumerRuntime(newer, database_url, log, ConsumerSettings(**QUICK), begin=From("start"))  # type: ignore[arg-type]
    running = asyncio.create_task(runtime.run())
    await settled(connection, PROCESSED=2)
    runtime.stop()
    await running
    assert await effects(connection) == [0, 2]
