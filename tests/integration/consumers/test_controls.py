"""Control records: what an operator decided about a dead event is done once, in its place, and answered."""

import asyncpg

from surefoot.events import new_event
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.controls import (
    Mendable,
    answers,
    control,
    control_record,
    id_of,
    outcome,
    published,
    settled_as,
    tell,
)
from tests.support.consumer.effects import effects
from tests.support.consumer.processes import consumer_running, outcomes, publish
from tests.support.event_types import ThingHappened


async def test_a_replay_after_the_mend_has_its_effect_and_its_key_drains_in_order(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    shop = Mendable(1)
    events = await publish(log, *(ThingHappened(thing_id="a", number=n) for n in (1, 2, 3)))
    async with consumer_running(shop.consumer, database_url, log):
        await settled_as(connection, events[:1], "DEAD")
        await settled_as(connection, events[1:], "PARKED")
        shop.broken.clear()
        replay = control(events[0], "replay")
        await tell(log, topic, events[0], replay)
        assert await answers(connection, 1) == [(id_of(replay), "done")]
        await settled_as(connection, events, "PROCESSED")

    assert await effects(connection) == [1, 2, 3]
    assert await connection.fetchval("SELECT count(*) FROM surefoot.parked_events") == 0
    (told,) = await published(connection, "dlq.outcomes")
    assert (told["event_id"], told["source"], told["action"]) == (events[0].id, "/tests", "replay")
    assert (told["outcome"], told["state"]) == ("PROCESSED", None)


async def test_a_replay_that_fails_again_is_dead_again_and_says_so(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    shop = Mendable(1)
    events = await publish(log, *(ThingHappened(thing_id="a", number=n) for n in (1, 2)))
    async with consumer_running(shop.consumer, database_url, log):
        await settled_as(connection, events[:1], "DEAD")
        replay = control(events[0], "replay")
        await tell(log, topic, events[0], replay)
        assert await answers(connection, 1) == [(id_of(replay), "failed_again")]

    assert await outcome(connection, events[0]) == "DEAD"
    assert await outcome(connection, events[1]) == "PARKED"
    letters = [letter["_headers"] for letter in await published(connection, topic + ".dlq")]
    assert [letter["surefoot-replays"] for letter in letters] == ["0", "1"]
    assert [letter["surefoot-attempts"] for letter in letters] == ["1", "2"]
    assert letters[0]["ce_id"] != letters[1]["ce_id"]
    row = await connection.fetchrow(
        "SELECT state::text, replays, control_id FROM surefoot.parked_events WHERE NOT state = 'WAITING'"
    )
    assert tuple(row) == ("DEAD", 1, None)


async def test_a_replay_is_one_attempt_also_where_the_failure_is_transient(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    shop = Mendable(1)
    (event,) = await publish(log, ThingHappened(thing_id="a", number=1))
    async with consumer_running(shop.consumer, database_url, log):
        await settled_as(connection, [event], "DEAD")
        shop.raising = ValueError
        await tell(log, topic, event, control(event, "replay"))
        (answer,) = await answers(connection, 1)
    assert answer[1] == "failed_again"


async def test_a_discard_lets_the_key_go_on_and_keeps_who_and_why(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    shop = Mendable(1)
    events = await publish(log, *(ThingHappened(thing_id="a", number=n) for n in (1, 2, 3)))
    async with consumer_running(shop.consumer, database_url, log):
        await settled_as(connection, events[:1], "DEAD")
        await settled_as(connection, events[1:], "PARKED")
        discard = control(events[0], "discard")
        await tell(log, topic, events[0], discard)
        await settled_as(connection, events[1:], "PROCESSED")

    assert await answers(connection, 1) == [(id_of(discard), "discarded")]
    assert await effects(connection) == [2, 3]
    decision = await connection.fetchval(
        "SELECT decision FROM surefoot.processed_events WHERE outcome = 'DISCARDED' AND event_id = $1", events[0].id
    )
    assert decision == "ada: the catalogue was wrong"
    (told,) = await published(connection, "dlq.outcomes")
    assert (told["outcome"], told["waiting_behind"]) == ("DISCARDED", 2)


async def test_what_comes_behind_a_discard_in_the_same_batch_is_not_left_waiting(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    shop = Mendable(1)
    (dead,) = await publish(log, ThingHappened(thing_id="a", number=1))
    async with consumer_running(shop.consumer, database_url, log):
        await settled_as(connection, [dead], "DEAD")
    (later,) = [new_event(ThingHappened(thing_id="a", number=2))]
    await tell(log, topic, dead, control(dead, "discard"))
    await publish(log, later)
    async with consumer_running(shop.consumer, database_url, log):
        await settled_as(connection, [later], "PROCESSED")
    assert await effects(connection) == [2]


async def test_a_control_record_is_obeyed_and_answered_once_however_often_it_is_sent(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    shop = Mendable(1)
    (event,) = await publish(log, ThingHappened(thing_id="a", number=1))
    async with consumer_running(shop.consumer, database_url, log):
        await settled_as(connection, [event], "DEAD")
        replay = control(event, "replay", control_id="0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b11")
        await tell(log, topic, event, replay, replay)
        assert await answers(connection, 1) == [(id_of(replay), "failed_again")]
        await tell(log, topic, event, replay)
        other = control(event, "inspect")
        await tell(log, topic, event, other)
        assert await answers(connection, 2) == [(id_of(replay), "failed_again"), (id_of(other), "inspected")]
    assert shop.tried == [1, 1]


async def test_of_two_replays_at_once_one_acts_and_the_other_is_told_that_it_is_not_dead(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    shop = Mendable(1)
    (event,) = await publish(log, ThingHappened(thing_id="a", number=1))
    async with consumer_running(shop.consumer, database_url, log):
        await settled_as(connection, [event], "DEAD")
    shop.broken.clear()
    first, second, third = control(event, "replay"), control(event, "replay"), control(event, "replay")
    await tell(log, topic, event, first, second)
    async with consumer_running(shop.consumer, database_url, log):
        assert sorted(await answers(connection, 2)) == sorted([(id_of(first), "done"), (id_of(second), "not_dead")])
        await tell(log, topic, event, third)
        assert (await answers(connection, 3))[2] == (id_of(third), "already_done")
    assert await effects(connection) == [1]


async def test_a_control_for_another_consumer_is_passed_by_and_not_counted_as_ignored(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    shop = Mendable(1)
    (event,) = await publish(log, ThingHappened(thing_id="a", number=1))
    async with consumer_running(shop.consumer, database_url, log):
        await settled_as(connection, [event], "DEAD")
        shop.broken.clear()
        await tell(log, topic, event, control(event, "replay", consumer="billing"))
        (after,) = await publish(log, ThingHappened(thing_id="a", number=2))
        await settled_as(connection, [after], "PARKED")
    assert await outcomes(connection, "warehouse") == {"DEAD": 1, "PARKED": 1}
    assert await connection.fetchval("SELECT sum(ignored) FROM surefoot.consumer_partitions") == 0
    assert await published(connection, "dlq.outcomes") == []


async def test_a_control_for_us_that_cannot_be_read_is_a_dead_letter_and_holds_nothing(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    shop = Mendable()
    event = new_event(ThingHappened(thing_id="a", number=1))
    await tell(log, topic, event, control_record(event, b'{"action": "explode"}'))
    await publish(log, event)
    async with consumer_running(shop.consumer, database_url, log):
        await settled_as(connection, [event], "PROCESSED")
    assert await outcomes(connection, "warehouse") == {"DEAD": 1, "PROCESSED": 1}
    (letter,) = await published(connection, topic + ".dlq")
    assert letter["_headers"]["surefoot-reason"] == "invalid_data"
    assert letter["_headers"]["surefoot-held"] == "false"


async def test_a_released_dead_event_is_replayed_while_its_key_has_gone_on(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    shop = Mendable(1, when_dead="release")
    events = await publish(log, *(ThingHappened(thing_id="a", number=n) for n in (1, 2)))
    async with consumer_running(shop.consumer, database_url, log):
        await settled_as(connection, events[:1], "DEAD")
        await settled_as(connection, events[1:], "PROCESSED")
        shop.broken.clear()
        replay = control(events[0], "replay")
        await tell(log, topic, events[0], replay)
        assert await answers(connection, 1) == [(id_of(replay), "done")]
    assert await effects(connection) == [2, 1]
    assert await connection.fetchval("SELECT count(*) FROM surefoot.parked_events") == 0


async def test_controls_are_not_parked_behind_the_key_they_concern(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    shop = Mendable(1)
    events = await publish(log, *(ThingHappened(thing_id="a", number=n) for n in range(1, 5)))
    inspect = control(events[0], "inspect")
    await tell(log, topic, events[0], inspect)
    async with consumer_running(shop.consumer, database_url, log):
        assert await answers(connection, 1) == [(id_of(inspect), "inspected")]
    parked = await connection.fetch("SELECT event_id FROM surefoot.parked_events ORDER BY log_offset")
    assert [row[0] for row in parked] == [event.id for event in events]
    assert await outcome(connection, events[3]) == "PARKED"
