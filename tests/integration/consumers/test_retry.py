"""Ordered retry: a failing event waits with its key, others go on; what a failure means is the consumer's to say."""

import os
import time
from datetime import timedelta

import asyncpg
import pytest
from prometheus_client import REGISTRY

from surefoot.consumer import Consumer, DependencyDown, Permanent, Retry, Transaction, Transient
from surefoot.errors import InvalidEvent
from surefoot.events import Event
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.effects import effects, have_effect
from tests.support.consumer.failures import (
    AT_ONCE,
    NOT_SOON,
    keys_together,
    letters,
    parked,
    settled,
    states,
    worked_off,
)
from tests.support.consumer.processes import consumer_running, outcomes, publish
from tests.support.event_types import ThingHappened
from tests.support.waiting import eventually


class PrinterJammed(Exception):
    pass


class PaperJam(PrinterJammed):
    pass


def failing_on(consumer: Consumer, failing: set[int], error: BaseException) -> dict[int, int]:
    """A handler that fails for these numbers as long as they are in the set; how often each was tried."""
    tried: dict[int, int] = {}

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        number = event.data.number
        tried[number] = tried.get(number, 0) + 1
        await have_effect(event, tx)
        if number in failing:
            raise error

    return tried


async def test_a_failing_event_waits_with_all_behind_it_and_other_keys_go_on(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse", retry=NOT_SOON)
    failing_on(consumer, {2}, Transient("the shelf is being moved"))
    bad, good = keys_together(2)
    await publish(log, *(ThingHappened(thing_id=bad, number=n) for n in (1, 2, 3)))
    await publish(log, *(ThingHappened(thing_id=good, number=n) for n in (10, 11)))
    async with consumer_running(consumer, database_url, log):
        await worked_off(connection, 5)
        await publish(log, ThingHappened(thing_id=bad, number=4), ThingHappened(thing_id=good, number=12))
        await worked_off(connection, 7)
        assert await outcomes(connection, "warehouse") == {"PROCESSED": 4, "PARKED": 3}

    assert await effects(connection, bad) == [1]
    assert await effects(connection, good) == [10, 11, 12]
    rows = await parked(connection)
    assert [(row["state"], row["attempts"], row["holds"]) for row in rows] == [
        ("DUE", 1, True),
        ("WAITING", 0, True),
        ("WAITING", 0, True),
    ]
    assert rows[0]["last_error"] == "the shelf is being moved"
    assert rows[0]["reason"] is None
    assert await letters(connection) == []


async def test_success_after_some_attempts_drains_the_key_in_order(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    retry = Retry(attempts=1000, first=timedelta(milliseconds=10), longest=timedelta(milliseconds=20))
    consumer = Consumer("warehouse", retry=retry)
    failing = {1}
    tried = failing_on(consumer, failing, Transient("not yet"))
    await publish(log, *(ThingHappened(thing_id="a", number=n) for n in range(1, 6)))
    async with consumer_running(consumer, database_url, log):

        async def tried_three_times() -> bool:
            return tried.get(1, 0) >= 3

        await eventually(tried_three_times, what="it is tried again and again")
        assert [row["attempts"] for row in await parked(connection)][1:] == [0, 0, 0, 0]
        failing.clear()
        await settled(connection, PROCESSED=5)

    assert await effects(connection) == [1, 2, 3, 4, 5]
    assert await parked(connection) == []
    assert tried[2] == tried[5] == 1  # those behind it cost no attempt of their own


async def test_a_deep_queue_drains_in_order_and_what_arrives_meanwhile_comes_last(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    retry = Retry(attempts=1000, first=timedelta(milliseconds=10), longest=timedelta(milliseconds=20))
    consumer = Consumer("warehouse", retry=retry)
    failing = {0}
    failing_on(consumer, failing, Transient("not yet"))
    await publish(log, *(ThingHappened(thing_id="a", number=n) for n in range(501)))
    async with consumer_running(consumer, database_url, log):
        await worked_off(connection, 501)
        failing.clear()
        await publish(log, *(ThingHappened(thing_id="a", number=n) for n in range(501, 600)))
        await settled(connection, PROCESSED=600)
    assert await effects(connection) == list(range(600))


async def test_one_that_fails_in_a_queue_that_drains_holds_only_those_behind_it(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    retry = Retry(attempts=1000, first=timedelta(milliseconds=10), longest=timedelta(milliseconds=20))
    consumer = Consumer("warehouse", retry=retry)
    failing = {1, 5}
    failing_on(consumer, failing, Transient("not yet"))
    await publish(log, *(ThingHappened(thing_id="a", number=n) for n in range(1, 9)))
    async with consumer_running(consumer, database_url, log):
        await worked_off(connection, 8)
        failing.discard(1)
        await settled(connection, PROCESSED=4, PARKED=4)
        assert await effects(connection) == [1, 2, 3, 4]
        failing.clear()
        await settled(connection, PROCESSED=8)
    assert await effects(connection) == list(range(1, 9))


async def test_out_of_attempts_it_is_dead_and_keeps_its_key_waiting_across_a_restart(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse", retry=AT_ONCE)
    failing = {1}
    tried = failing_on(consumer, failing, ValueError("no"))
    await publish(log, *(ThingHappened(thing_id="a", number=n) for n in (1, 2)))
    async with consumer_running(consumer, database_url, log):
        await settled(connection, DEAD=1, PARKED=1)
    dead, waiting = await parked(connection)
    assert (dead["state"], dead["attempts"], dead["reason"]) == ("DEAD", 3, "out_of_attempts")
    assert (waiting["state"], waiting["attempts"]) == ("WAITING", 0)
    in_batch_and_alone = 2
    assert tried == {1: AT_ONCE.attempts + in_batch_and_alone - 1}

    failing.clear()
    await publish(log, ThingHappened(thing_id="a", number=3), ThingHappened(thing_id="b", number=4))
    async with consumer_running(consumer, database_url, log):
        await worked_off(connection, 4)
        await settled(connection, DEAD=1, PARKED=2, PROCESSED=1)
    assert await states(connection, "a") == ["DEAD", "WAITING", "WAITING"]
    assert await effects(connection) == [4]
    assert len(await letters(connection)) == 1


async def test_a_consumer_that_releases_goes_on_without_the_dead_one(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse", retry=AT_ONCE, when_dead="release")
    failing_on(consumer, {1}, ValueError("no"))
    await publish(log, *(ThingHappened(thing_id="a", number=n) for n in (1, 2, 3)))
    async with consumer_running(consumer, database_url, log):
        await settled(connection, DEAD=1, PROCESSED=2)
        await publish(log, ThingHappened(thing_id="a", number=4))
        await settled(connection, DEAD=1, PROCESSED=3)
    assert await effects(connection) == [2, 3, 4]
    (row,) = await parked(connection)
    assert (row["state"], row["holds"]) == ("DEAD", False)
    (letter,) = await letters(connection)
    assert letter["surefoot-held"] == "false"


async def test_the_type_of_an_exception_says_whether_it_is_tried_again(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse", retry=AT_ONCE, permanent=[LookupError, PrinterJammed], transient=[PaperJam])
    errors: dict[str, Exception] = {
        "said to be permanent": Permanent("never"),
        "not to be published": InvalidEvent("never"),
        "relative of a permanent one": KeyError("gone"),
        "declared permanent": PrinterJammed("broken"),
        "transient relative of a permanent one": PaperJam("stuck"),
        "said to be transient": Transient("later"),
        "unknown": RuntimeError("who knows"),
    }

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        raise errors[event.key]

    await publish(log, *(ThingHappened(thing_id=key) for key in errors))
    async with consumer_running(consumer, database_url, log):
        await settled(connection, DEAD=len(errors))
    assert {row["key"]: (row["reason"], row["attempts"]) for row in await parked(connection)} == {
        "said to be permanent": ("permanent", 1),
        "not to be published": ("permanent", 1),
        "relative of a permanent one": ("permanent", 1),
        "declared permanent": ("permanent", 1),
        "transient relative of a permanent one": ("out_of_attempts", 3),
        "said to be transient": ("out_of_attempts", 3),
        "unknown": ("out_of_attempts", 3),
    }


AWAY_S = 15.0 if os.environ.get("SUREFOOT_SOAK") else 0.0


@pytest.mark.parametrize("error", [PaperJam("no paper"), DependencyDown("no paper")], ids=["declared", "raised"])
async def test_while_a_dependency_is_away_no_attempt_is_counted(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, error: Exception
) -> None:
    consumer = Consumer("warehouse", retry=AT_ONCE, dependencies=[PrinterJammed])
    failing = {2}
    tried = failing_on(consumer, failing, error)
    await publish(log, *(ThingHappened(thing_id="a", number=n) for n in (1, 2, 3)))
    async with consumer_running(consumer, database_url, log):
        until = time.monotonic() + AWAY_S

        async def tried_often() -> bool:
            return tried.get(2, 0) >= AT_ONCE.attempts + 2 and time.monotonic() >= until

        await eventually(tried_often, what="it is tried more often than it has attempts")
        assert await parked(connection) == []
        failing.clear()
        await settled(connection, PROCESSED=3)
    assert await effects(connection) == [1, 2, 3]
    assert await letters(connection) == []


async def test_while_a_dependency_is_away_a_parked_event_keeps_its_attempts_and_the_outage_is_told_once(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, topic_name: str
) -> None:
    consumer = Consumer(f"dependency-{topic_name}", retry=AT_ONCE)
    raised: list[Exception] = [Transient("first park it")]
    tries = [0]

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        if event.data.number == 1 and raised:
            tries[0] += 1
            raise raised[0]
        await have_effect(event, tx)

    bad, good = keys_together(2)
    await publish(log, ThingHappened(thing_id=bad, number=1), ThingHappened(thing_id=bad, number=2))
    async with consumer_running(consumer, database_url, log):

        async def is_parked() -> bool:
            return await states(connection) == ["DUE", "WAITING"]

        await eventually(is_parked, what="it is parked")
        raised[:] = [DependencyDown("the printer is off")]
        tried = tries[0]

        async def tried_often() -> bool:
            return tries[0] >= tried + 10

        await eventually(tried_often, what="it is tried more often than it has attempts")
        await publish(log, ThingHappened(thing_id=good, number=3))
        await settled(connection, consumer.name, PARKED=2, PROCESSED=1)
        assert outages(consumer) == 1
        attempts = (await parked(connection))[0]["attempts"]
        raised.clear()
        await settled(connection, consumer.name, PROCESSED=3)
    assert attempts < AT_ONCE.attempts
    assert await effects(connection) == [3, 1, 2]
    assert await letters(connection) == []


class Mute(DependencyDown):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("error", [DependencyDown("half of a pair: \ud800"), Mute()], ids=["surrogate", "mute"])
async def test_a_dependency_may_be_away_with_words_that_cannot_be_printed(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, error: DependencyDown
) -> None:
    consumer = Consumer("warehouse", retry=AT_ONCE)
    raised = [error, error]

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        if raised:
            raise raised.pop()
        await have_effect(event, tx)

    await publish(log, ThingHappened(thing_id="a", number=1))
    async with consumer_running(consumer, database_url, log):
        await settled(connection, PROCESSED=1)


def outages(consumer: Consumer) -> float:
    labels = {"consumer": consumer.name, "what": "something a handler depends on"}
    return REGISTRY.get_sample_value("surefoot_consumer_outages_total", labels) or 0.0
