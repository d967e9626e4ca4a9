"""Parked events keep their order and have their effect once, whatever an operator or a crash does to them."""

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from surefoot.consumer import Consumer, OutsideCall, Permanent, Retry, Transaction
from surefoot.consumer.consumer import WhenDead
from surefoot.consumer_runtime.unit import Unit
from surefoot.events import Event, Money, new_event
from surefoot.log.port import EventLog
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.controls import Mendable, answers, control, id_of, published, settled_as, tell
from tests.support.consumer.effects import effects, have_effect
from tests.support.consumer.failures import keys_together, letters, parked, settled, states
from tests.support.consumer.processes import consumer_running, outcomes, publish
from tests.support.consumer.stock_commands import step
from tests.support.event_types import ThingHappened, ThingPaid
from tests.support.waiting import eventually

KEY, OTHER = keys_together(2)
AGAIN_AND_AGAIN = Retry(attempts=1000, first=timedelta(milliseconds=10), longest=timedelta(milliseconds=40))
TWICE = Retry(attempts=2, first=timedelta(milliseconds=10), longest=timedelta(milliseconds=10))


async def its_turn_is_over(connection: asyncpg.Connection, log: EventLog) -> None:
    """Another key of the same partition has its effect: whatever was done with the parked ones before that is done."""
    (marker,) = await publish(log, ThingHappened(thing_id=OTHER, number=99))
    await settled_as(connection, [marker], "PROCESSED")


async def test_a_replay_does_not_take_its_key_past_a_dead_event_that_holds_it(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    def shop(when_dead: WhenDead) -> Mendable:
        return Mendable(1, 2, when_dead=when_dead)

    (first,) = await publish(log, ThingHappened(thing_id=KEY, number=1))
    async with consumer_running(shop("release").consumer, database_url, log):
        await settled_as(connection, [first], "DEAD")
    second, *behind = await publish(log, *(ThingHappened(thing_id=KEY, number=n) for n in (2, 3, 4)))
    holding = shop("hold")
    async with consumer_running(holding.consumer, database_url, log):
        await settled_as(connection, [first, second], "DEAD")
        await settled_as(connection, behind, "PARKED")
        holding.broken.discard(1)
        await tell(log, topic, first, control(first, "replay"))
        await settled_as(connection, [first], "PROCESSED")
        await its_turn_is_over(connection, log)
        assert await effects(connection, KEY) == [1]
        assert await states(connection, KEY) == ["DEAD", "WAITING", "WAITING"]

        holding.broken.clear()
        await tell(log, topic, second, control(second, "replay"))
        await settled_as(connection, behind, "PROCESSED")
    assert await effects(connection, KEY) == [1, 2, 3, 4]


async def test_a_replay_does_not_take_its_key_past_an_outside_call_under_way(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    provider_answers, called, broken = asyncio.Event(), asyncio.Event(), {1}
    consumer = Consumer("warehouse")

    async def charge(event: Event[ThingPaid], call: OutsideCall) -> None:
        called.set()
        await provider_answers.wait()

    @consumer.on(ThingPaid, outside=charge)
    async def charged(event: Event[ThingPaid], tx: Transaction, result: None) -> None:
        await have_effect(event, tx)  # a ThingPaid has the number 0

    @consumer.command(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        if event.data.number in broken:
            raise Permanent("no")
        await have_effect(event, tx)

    (first,) = await publish(log, ThingHappened(thing_id=KEY, number=1))
    async with consumer_running(consumer, database_url, log):
        await settled_as(connection, [first], "DEAD")  # a command: its key goes on
        paid = ThingPaid(thing_id=KEY, price=Money.minor(100, "EUR"))
        behind = await publish(log, paid, ThingHappened(thing_id=KEY, number=3))
        await settled_as(connection, behind, "PARKED")
        await called.wait()
        broken.clear()
        await tell(log, topic, first, control(first, "replay"))
        await settled_as(connection, [first], "PROCESSED")
        await its_turn_is_over(connection, log)
        assert await effects(connection, KEY) == [1]
        assert await states(connection, KEY) == ["CALLING", "WAITING"]

        provider_answers.set()
        await settled_as(connection, behind, "PROCESSED")
    assert await effects(connection, KEY) == [1, 0, 3]


class LostAnswer:
    """The answer to one COMMIT is lost; the transaction is not."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.armed = False
        self.lost = 0
        commit = Unit.commit

        async def commit_and_lose(unit: Unit, **arguments: Any) -> None:
            await commit(unit, **arguments)
            if self.armed:
                self.armed = False
                self.lost += 1
                raise asyncpg.exceptions.ConnectionDoesNotExistError("connection was closed in the middle of operation")

        patch.setattr(Unit, "commit", commit_and_lose)


async def test_a_last_attempt_whose_commit_went_unanswered_is_not_dead(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, tried = LostAnswer(monkeypatch), 0
    consumer = Consumer("warehouse", retry=TWICE)

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        nonlocal tried
        if event.data.number == 1:
            tried += 1
            if tried == 1:
                raise RuntimeError("the first attempt fails")
            answer.armed = True
        await have_effect(event, tx)

    events = await publish(log, *(ThingHappened(thing_id=KEY, number=n) for n in (1, 2)))
    async with consumer_running(consumer, database_url, log):
        await settled_as(connection, events, "PROCESSED")
        await its_turn_is_over(connection, log)
    assert answer.lost == 1
    assert await outcomes(connection, "warehouse") == {"PROCESSED": 3}
    assert await effects(connection, KEY) == [1, 2]
    assert await parked(connection) == []
    assert await letters(connection) == []


async def test_a_replay_whose_commit_went_unanswered_is_answered_once_and_stays_done(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command of a saga, which would be told a second time that it failed."""
    answer, is_broken = LostAnswer(monkeypatch), True
    consumer = Consumer("warehouse")

    @consumer.command(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        if event.data.number == 1:
            if is_broken:
                raise Permanent("no")
            answer.armed = True
        await have_effect(event, tx)

    (event,) = await publish(
        log,
        new_event(ThingHappened(thing_id=KEY, number=1), extensions=step("s1", "do")),
    )
    async with consumer_running(consumer, database_url, log):
        await settled_as(connection, [event], "DEAD")
        is_broken = False
        replay, again = control(event, "replay"), control(event, "replay")
        await tell(log, topic, event, replay)
        await answers(connection, 1)
        await its_turn_is_over(connection, log)
        await tell(log, topic, event, again)
        told = await answers(connection, 2)
    assert answer.lost == 1
    assert told == [(id_of(replay), "done"), (id_of(again), "already_done")]
    assert await effects(connection, KEY) == [1]
    assert await parked(connection) == []
    assert len(await letters(connection)) == 1  # of the death before
    assert len(await published(connection, "saga.replies")) == 1  # the same


async def stays_away(event: Event[ThingHappened], call: OutsideCall) -> None:
    await asyncio.sleep(3600)


async def answers_at_once(event: Event[ThingHappened], call: OutsideCall) -> None: ...


async def finish(event: Event[ThingHappened], tx: Transaction, result: None) -> None:
    await have_effect(event, tx)


async def fail(event: Event[ThingHappened], tx: Transaction) -> None:
    raise RuntimeError("not in this version")


def warehouse(call: Any = None, handle: Any = None) -> Consumer:
    """One version of it: with an outside call, with a plain handler, or without a handler for the events."""
    consumer = Consumer("warehouse", retry=AGAIN_AND_AGAIN)
    if call is not None:
        consumer.on(ThingHappened, outside=call)(finish)
    elif handle is not None:
        consumer.on(ThingHappened)(handle)
    else:
        consumer.on(ThingPaid)(have_effect)
    return consumer


@pytest.mark.parametrize("state", ["CALLING", "DUE"])
async def test_a_member_without_the_handler_leaves_parked_events_to_those_that_have_it(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, state: str
) -> None:
    newer = warehouse(call=stays_away) if state == "CALLING" else warehouse(handle=fail)
    mended = warehouse(call=answers_at_once) if state == "CALLING" else warehouse(handle=have_effect)
    events = await publish(log, *(ThingHappened(thing_id=KEY, number=n) for n in (1, 2, 3)))
    async with consumer_running(newer, database_url, log):
        await settled_as(connection, events, "PARKED")
    before = await parked(connection)
    assert [row["state"] for row in before] == [state, "WAITING", "WAITING"]

    async def is_put_off() -> bool:
        found: bool = await connection.fetchval(
            "SELECT next_attempt_at BETWEEN now() + interval '20 s' AND now() + interval '31 s' "
            "FROM surefoot.parked_events ORDER BY log_offset LIMIT 1"
        )
        return found

    with capture_logs() as lines:
        async with consumer_running(warehouse(), database_url, log):
            await eventually(is_put_off, what="the first of the key is put off")
    assert await parked(connection) == before
    assert await outcomes(connection, "warehouse") == {"PARKED": 3}
    (warning,) = [line for line in lines if line["event"] == "a parked event waits: no handler"]
    assert warning["log_level"] == "warning"
    assert warning["sentence"] == "warehouse has no handler for thing.happened in the version that runs."

    await connection.execute("UPDATE surefoot.parked_events SET next_attempt_at = now() WHERE state <> 'WAITING'")
    async with consumer_running(mended, database_url, log):
        await settled(connection, PROCESSED=3)
    assert await effects(connection) == [1, 2, 3]


async def test_a_call_under_way_whose_handler_became_a_plain_one_is_handled_by_that(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    events = await publish(log, *(ThingHappened(thing_id=KEY, number=n) for n in (1, 2)))
    async with consumer_running(warehouse(call=stays_away), database_url, log):
        await settled_as(connection, events, "PARKED")
    assert await states(connection) == ["CALLING", "WAITING"]
    async with consumer_running(warehouse(handle=have_effect), database_url, log):
        await settled(connection, PROCESSED=2)
    assert await effects(connection) == [1, 2]
    assert await parked(connection) == []


async def test_no_call_begins_after_the_stop_and_those_that_end_in_time_are_finished(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    begun: list[bool] = []
    is_stopped = False

    async def call(event: Event[ThingHappened], call: OutsideCall) -> None:
        begun.append(is_stopped)
        await asyncio.sleep(0.3)  # it takes so long

    await publish(log, *(ThingHappened(thing_id=key, number=n) for n, key in enumerate(keys_together(30))))
    settings = {"handover": timedelta(seconds=10), "outside_calls": 2}
    async with consumer_running(warehouse(call=call), database_url, log, **settings):

        async def both_slots_are_taken_again() -> bool:
            return len(begun) >= 4

        await eventually(both_slots_are_taken_again, what="four calls have begun")
        is_stopped = True
    assert sum(begun) == 0
    assert len(await effects(connection)) == len(begun)
    assert await states(connection) == ["CALLING"] * (30 - len(begun))


# The row keeps the `holds` that the replay gave it.
async def test_a_replay_that_is_refused_leaves_a_key_free_that_was_free(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    (dead,) = await publish(log, ThingHappened(thing_id=KEY, number=1))
    async with consumer_running(Mendable(1, when_dead="release").consumer, database_url, log):
        await settled_as(connection, [dead], "DEAD")
    older = Consumer("warehouse", when_dead="release")
    older.on(ThingPaid)(have_effect)
    replay = control(dead, "replay")
    async with consumer_running(older, database_url, log):
        await tell(log, topic, dead, replay)
        assert await answers(connection, 1) == [(id_of(replay), "refused")]
    assert [(row["state"], row["holds"]) for row in await parked(connection)] == [("DEAD", False)]
