"""Outside calls: prepared once, made with no transaction open until they succeed, always under the same key."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from sqlalchemy import text

from surefoot.consumer import Consumer, DependencyDown, OutsideCall, Permanent, Retry, Transaction
from surefoot.events import Event
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.controls import answers, control, id_of, outcome, published, settled_as, tell
from tests.support.consumer.effects import effects, have_effect
from tests.support.consumer.processes import consumer_running, publish
from tests.support.event_types import ThingHappened
from tests.support.waiting import eventually

QUICK_RETRY = Retry(attempts=4, first=timedelta(milliseconds=20), longest=timedelta(milliseconds=50))


class Provider:
    """Somebody else's system, and the consumer that calls it. `answer` is what it does when called."""

    def __init__(self, answer: Callable[[int], Awaitable[Any]] | None = None) -> None:
        self.answer = answer
        self.prepared: list[int] = []
        self.calls: list[OutsideCall] = []
        self.results: list[Any] = []
        self.under_way = self.most_under_way = 0
        self.consumer = Consumer("payments", retry=QUICK_RETRY)
        self.consumer.on(ThingHappened, outside=self.call, prepare=self.prepare)(self.finish)

    async def prepare(self, event: Event[ThingHappened], tx: Transaction) -> dict[str, int]:
        self.prepared.append(event.data.number)
        return {"amount": event.data.number * 100}

    async def call(self, event: Event[ThingHappened], call: OutsideCall) -> str:
        self.calls.append(call)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            if self.answer is not None:
                await self.answer(event.data.number)
        finally:
            self.under_way -= 1
        return f"receipt {event.data.number}"

    async def finish(self, event: Event[ThingHappened], tx: Transaction, result: str) -> None:
        self.results.append(result)
        await have_effect(event, tx)


async def test_the_call_is_made_with_no_transaction_open_and_its_result_finished_in_one(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    seen: list[tuple[int, str]] = []

    async def look(_: int) -> None:
        watcher = await asyncpg.connect(database_url)
        open_ones = await watcher.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'payments-%' "
            "AND state LIKE 'idle in transaction%' AND datname = current_database()"
        )
        seen.append((open_ones, await watcher.fetchval("SELECT state::text FROM surefoot.parked_events")))
        await watcher.close()

    provider = Provider(look)
    (event,) = await publish(log, ThingHappened(thing_id="a", number=1))
    async with consumer_running(provider.consumer, database_url, log):
        await settled_as(connection, [event], "PROCESSED", "payments")

    assert seen == [(0, "CALLING")]
    assert provider.prepared == [1]
    assert [call.prepared for call in provider.calls] == [{"amount": 100}]
    assert provider.results == ["receipt 1"]
    assert await effects(connection) == [1]
    assert await connection.fetchval("SELECT count(*) FROM surefoot.parked_events") == 0


async def test_its_key_waits_for_the_call_and_others_go_on(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    answered = asyncio.Event()

    async def take_long(number: int) -> None:
        if number == 1:
            await answered.wait()

    provider = Provider(take_long)
    slow, behind, other = await publish(
        log,
        ThingHappened(thing_id="a", number=1),
        ThingHappened(thing_id="a", number=2),
        ThingHappened(thing_id="b", number=3),
    )
    async with consumer_running(provider.consumer, database_url, log):
        await settled_as(connection, [other], "PROCESSED", "payments")
        await settled_as(connection, [slow, behind], "PARKED", "payments")
        assert provider.prepared == [1, 3]
        answered.set()
        await settled_as(connection, [slow, behind], "PROCESSED", "payments")
    assert await effects(connection) == [3, 1, 2]


async def test_a_failing_call_is_repeated_alone_under_the_same_key(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    provider = Provider()

    async def fail_twice(_: int) -> None:
        if len(provider.calls) < 3:
            raise TimeoutError("no answer")

    provider.answer = fail_twice
    (event,) = await publish(log, ThingHappened(thing_id="a", number=1))
    async with consumer_running(provider.consumer, database_url, log):
        await settled_as(connection, [event], "PROCESSED", "payments")
    assert [call.attempt for call in provider.calls] == [1, 2, 3]
    assert len({call.key for call in provider.calls}) == 1
    assert provider.calls[0].do_key == provider.calls[0].key
    assert provider.prepared == [1]
    assert await effects(connection) == [1]


async def test_a_call_that_can_never_succeed_is_dead_at_once(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    async def refuse(_: int) -> None:
        raise Permanent("The card is stolen.")

    provider = Provider(refuse)
    events = await publish(log, *(ThingHappened(thing_id="a", number=n) for n in (1, 2)))
    async with consumer_running(provider.consumer, database_url, log):
        await settled_as(connection, events[:1], "DEAD", "payments")
        await settled_as(connection, events[1:], "PARKED", "payments")
    assert len(provider.calls) == 1
    (letter,) = await published(connection, topic + ".dlq")
    assert letter["_headers"]["surefoot-error"] == "The card is stolen."


async def test_a_call_out_of_attempts_is_dead_and_a_replay_does_not_prepare_it_again(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    async def fail(_: int) -> None:
        raise TimeoutError("no answer")

    provider = Provider(fail)
    (event,) = await publish(log, ThingHappened(thing_id="a", number=1))
    async with consumer_running(provider.consumer, database_url, log):
        await settled_as(connection, [event], "DEAD", "payments")
        assert [call.attempt for call in provider.calls] == [1, 2, 3, 4]
        provider.answer = None
        replay = control(event, "replay", consumer="payments")
        await tell(log, topic, event, replay)
        assert await answers(connection, 1) == [(id_of(replay), "done")]
    assert provider.prepared == [1]
    assert len({call.key for call in provider.calls}) == 1
    assert provider.calls[-1].prepared == {"amount": 100}
    assert await effects(connection) == [1]


async def test_a_provider_that_is_down_costs_no_attempt(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    provider = Provider()

    async def be_away(_: int) -> None:
        if len(provider.calls) < 7:
            raise DependencyDown("The provider is down.")

    provider.answer = be_away
    (event,) = await publish(log, ThingHappened(thing_id="a", number=1))
    async with consumer_running(provider.consumer, database_url, log, outage_max=timedelta(milliseconds=20)):
        await settled_as(connection, [event], "PROCESSED", "payments")
    assert [call.attempt for call in provider.calls] == [1] * 7


async def test_a_finish_that_fails_repeats_the_call_under_the_same_key(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    provider = Provider()
    finish, failures = provider.finish, [ValueError("a full disk")]
    consumer = Consumer("payments", retry=QUICK_RETRY)

    @consumer.on(ThingHappened, outside=provider.call, prepare=provider.prepare)
    async def fail_once(event: Event[ThingHappened], tx: Transaction, result: str) -> None:
        await finish(event, tx, result)
        if failures:
            raise failures.pop()

    (event,) = await publish(log, ThingHappened(thing_id="a", number=1))
    async with consumer_running(consumer, database_url, log):
        await settled_as(connection, [event], "PROCESSED", "payments")
    assert [call.attempt for call in provider.calls] == [1, 2]
    assert len({call.key for call in provider.calls}) == 1
    assert await effects(connection) == [1]


async def test_no_more_calls_are_under_way_than_allowed(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    full = asyncio.Event()
    provider = Provider()

    async def wait_for_another(_: int) -> None:
        if provider.under_way == 2:
            full.set()
        await full.wait()

    provider.answer = wait_for_another
    events = await publish(log, *(ThingHappened(thing_id=f"k{n}", number=n) for n in range(8)))
    async with consumer_running(provider.consumer, database_url, log, outside_calls=2):
        await settled_as(connection, events, "PROCESSED", "payments")
    assert provider.most_under_way == 2
    assert len(provider.calls) == 8


async def test_what_prepare_returns_must_be_kept_as_json(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("payments", retry=Retry(attempts=1))
    called = []

    async def call(event: Event[ThingHappened], _: OutsideCall) -> None:
        called.append(event.id)

    async def prepare(event: Event[ThingHappened], tx: Transaction) -> object:
        return object()

    @consumer.on(ThingHappened, outside=call, prepare=prepare)
    async def finish(event: Event[ThingHappened], tx: Transaction, result: None) -> None:
        await have_effect(event, tx)

    (event,) = await publish(log, ThingHappened(thing_id="a"))
    async with consumer_running(consumer, database_url, log):
        await settled_as(connection, [event], "DEAD", "payments")
    (letter,) = await published(connection, topic + ".dlq")
    assert "cannot be kept as JSON" in letter["_headers"]["surefoot-error"]
    assert called == []


async def test_a_call_under_way_is_waited_for_when_the_consumer_stops(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    called, answered = asyncio.Event(), asyncio.Event()

    async def take_a_while(_: int) -> None:
        called.set()
        await answered.wait()

    provider = Provider(take_a_while)
    (event,) = await publish(log, ThingHappened(thing_id="a", number=1))
    async with consumer_running(provider.consumer, database_url, log, handover=timedelta(seconds=20)) as runtime:
        await asyncio.wait_for(called.wait(), 60)
        runtime.stop()
        answered.set()
    assert await outcome(connection, event, "payments") == "PROCESSED"
    await eventually(lambda: effects(connection), what="its effect")


@pytest.mark.parametrize("where", ["call", "finish"])
async def test_a_call_that_runs_into_locks_again_and_again_counts_from_the_tenth(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, where: str
) -> None:
    consumer = Consumer("payments", retry=Retry(attempts=2, first=timedelta(milliseconds=10)))
    attempts = []

    async def call(event: Event[ThingHappened], call: OutsideCall) -> None:
        attempts.append(call.attempt)
        if where == "call":
            raise asyncpg.DeadlockDetectedError("deadlock detected")

    @consumer.on(ThingHappened, outside=call)
    async def finish(event: Event[ThingHappened], tx: Transaction, result: None) -> None:
        await tx.session.execute(text("SET LOCAL lock_timeout = '5ms'"))
        await tx.session.execute(text("SELECT pg_advisory_xact_lock(4711)"))

    await connection.execute("SELECT pg_advisory_lock(4711)")
    (event,) = await publish(log, ThingHappened(thing_id="a", number=1))
    async with consumer_running(consumer, database_url, log, outage_max=timedelta(milliseconds=20)):
        await settled_as(connection, [event], "DEAD", "payments")
    assert attempts == [1] * 10 + [2] * 10
    (letter,) = await published(connection, topic + ".dlq")
    assert letter["_headers"]["surefoot-reason"] == "out_of_attempts"
