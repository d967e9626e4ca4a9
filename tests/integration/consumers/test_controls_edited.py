"""Control records that put an edited event in a dead one's place, and those that only ask how things stand."""

from dataclasses import replace

import asyncpg

from surefoot.consumer import Consumer
from surefoot.consumer_runtime.parked_operations import ParkedOperations
from surefoot.events import Event, new_event
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.controls import (
    Mendable,
    answers,
    control,
    id_of,
    outcome,
    published,
    settled_as,
    tell,
)
from tests.support.consumer.effects import effects, have_effect
from tests.support.consumer.failures import states
from tests.support.consumer.processes import consumer_running, outcomes, publish
from tests.support.event_types import ThingHappened, ThingPaid
from tests.support.waiting import eventually


def edited(dead: Event[ThingHappened], number: int) -> Event[ThingHappened]:
    return new_event(ThingHappened(thing_id="a", number=number), caused_by=dead)


async def test_the_edited_event_has_its_effect_in_the_dead_ones_place(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    shop = Mendable(1)
    events = await publish(log, *(ThingHappened(thing_id="a", number=n) for n in (1, 2, 3)))
    async with consumer_running(shop.consumer, database_url, log):
        await settled_as(connection, events[:1], "DEAD")
        await settled_as(connection, events[1:], "PARKED")
        better = edited(events[0], 10)  # type: ignore[arg-type]
        supersede = control(events[0], "supersede", replacement=better)
        await tell(log, topic, events[0], supersede)
        await settled_as(connection, [better, *events[1:]], "PROCESSED")

    assert await effects(connection) == [10, 2, 3]
    assert await answers(connection, 1) == [(id_of(supersede), "done")]
    assert await outcome(connection, events[0]) == "SUPERSEDED"
    assert await connection.fetchval(
        "SELECT decision FROM surefoot.processed_events WHERE event_id = $1", events[0].id
    ) == ("ada: the catalogue was wrong")


async def test_an_edited_event_that_fails_is_dead_in_its_own_name_and_the_key_still_waits(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    shop = Mendable(1, 10)
    events = await publish(log, *(ThingHappened(thing_id="a", number=n) for n in (1, 2)))
    async with consumer_running(shop.consumer, database_url, log):
        await settled_as(connection, events[:1], "DEAD")
        worse = edited(events[0], 10)  # type: ignore[arg-type]
        supersede = control(events[0], "supersede", replacement=worse)
        await tell(log, topic, events[0], supersede)
        assert await answers(connection, 1) == [(id_of(supersede), "failed_again")]
    assert await outcome(connection, worse) == "DEAD"
    assert await outcome(connection, events[0]) == "SUPERSEDED"
    assert await outcome(connection, events[1]) == "PARKED"
    letters = [letter["_headers"]["surefoot-event-id"] for letter in await published(connection, topic + ".dlq")]
    assert letters == [events[0].id, worse.id]


async def test_an_edited_event_that_cannot_be_taken_is_refused_and_the_dead_one_stays(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    shop = Mendable(1)
    (event, other) = await publish(log, ThingHappened(thing_id="a", number=1), ThingHappened(thing_id="b", number=2))
    async with consumer_running(shop.consumer, database_url, log):
        await settled_as(connection, [event], "DEAD")
        await settled_as(connection, [other], "PROCESSED")
        paid = ThingPaid.model_validate({"thing_id": "a", "price": {"minor_units": 100, "currency": "EUR"}})
        controls = [
            control(event, "supersede", replacement=other),
            control(event, "supersede"),
            control(event, "supersede", replacement=new_event(paid)),
            control(event, "supersede", replacement=replace(new_event(paid), version=9, type="thing.happened")),
        ]
        await tell(log, topic, event, *controls)
        assert await answers(connection, 4) == [(id_of(one), "refused") for one in controls]

    told = [one["sentence"] for one in await published(connection, "dlq.outcomes")]
    assert "was received before" in told[0]
    assert "has no replacement" in told[1]
    assert "no handler for its type" in told[2]
    assert "of version 9" in told[3]
    assert await outcome(connection, event) == "DEAD"
    assert await effects(connection) == [2]


async def test_an_inspection_tells_how_it_stands_and_changes_nothing(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    shop = Mendable(1)
    events = await publish(log, *(ThingHappened(thing_id="a", number=n) for n in (1, 2, 3)))
    async with consumer_running(shop.consumer, database_url, log):
        await settled_as(connection, events[1:], "PARKED")
        dead, waiting = control(events[0], "inspect"), control(events[2], "inspect")
        await tell(log, topic, events[0], dead, waiting)
        assert await answers(connection, 2) == [(id_of(dead), "inspected"), (id_of(waiting), "inspected")]
    told = await published(connection, "dlq.outcomes")
    stands = [(one["state"], one["outcome"], one["waiting_behind"], one["past_retention"]) for one in told]
    assert stands == [("DEAD", "DEAD", 2, False), ("WAITING", "PARKED", 0, False)]
    assert await outcomes(connection, "warehouse") == {"DEAD": 1, "PARKED": 2, "PROCESSED": 2}


async def test_what_is_not_dead_is_left_alone_and_the_answer_says_why(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    shop = Mendable(1)
    events = await publish(log, *(ThingHappened(thing_id="a", number=n) for n in (1, 2)))
    (done,) = await publish(log, ThingHappened(thing_id="b", number=7))
    async with consumer_running(shop.consumer, database_url, log):
        await settled_as(connection, events[:1], "DEAD")
        await settled_as(connection, events[1:], "PARKED")
        await settled_as(connection, [done], "PROCESSED")
        controls = [
            control(events[1], "discard"),
            control(events[0], "discard"),
            control(events[0], "replay"),
            control(new_event(ThingHappened(thing_id="a")), "replay"),
        ]
        await tell(log, topic, events[0], *controls)
        await tell(log, topic, done, control(done, "discard"))
        found = dict(await answers(connection, 5))
    assert [found[id_of(one)] for one in controls] == ["not_dead", "discarded", "already_settled", "unknown"]
    assert "already_done" in found.values()
    told = {one["control_id"]: one for one in await published(connection, "dlq.outcomes")}
    assert told[id_of(controls[3])]["past_retention"] is True
    assert await effects(connection) == [7, 2]


async def test_a_replay_of_what_has_no_handler_any_more_is_refused_and_nothing_is_forgotten(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    events = await publish(log, *(ThingHappened(thing_id="a", number=n) for n in (1, 2)))
    async with consumer_running(Mendable(1).consumer, database_url, log):
        await settled_as(connection, events[:1], "DEAD")
        await settled_as(connection, events[1:], "PARKED")
    without = Consumer("warehouse")
    without.on(ThingPaid)(have_effect)
    replay = control(events[0], "replay")
    await tell(log, topic, events[0], replay)
    async with consumer_running(without, database_url, log):
        assert await answers(connection, 1) == [(id_of(replay), "refused")]
    assert await states(connection) == ["DEAD", "WAITING"]
    assert await outcome(connection, events[0]) == "DEAD"
    assert await outcome(connection, events[1]) == "PARKED"
    assert await connection.fetchval("SELECT sum(ignored) FROM surefoot.consumer_partitions") == 0

    again = control(events[0], "replay")
    await tell(log, topic, events[0], again)
    async with consumer_running(Mendable().consumer, database_url, log):
        await settled_as(connection, events, "PROCESSED")
        assert await answers(connection, 2) == [(id_of(replay), "refused"), (id_of(again), "done")]
    assert await effects(connection) == [1, 2]


async def test_an_operators_retry_and_a_discard_at_once_leave_one_decision(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    shop = Mendable(1)
    (event,) = await publish(log, ThingHappened(thing_id="a", number=1))
    operator = await asyncpg.connect(database_url)
    try:
        async with consumer_running(shop.consumer, database_url, log):
            await settled_as(connection, [event], "DEAD")
            shop.broken.clear()
            verbs = ParkedOperations(operator, "surefoot")
            (row,) = await verbs.by_id(event.id, None)
            discard = control(event, "discard")
            async with operator.transaction():
                assert await verbs.revive(row, decision="retried by ada")
                await tell(log, topic, event, discard)
                await eventually(lambda: waits_for_a_lock(connection), what="the discard waits for the retry")
            ((told, answer),) = await answers(connection, 1)
            await settled_as(connection, [event], "PROCESSED")
        assert (told, answer) in [(id_of(discard), "not_dead"), (id_of(discard), "already_done")]
    finally:
        await operator.close()
    assert await effects(connection) == [1]


async def waits_for_a_lock(connection: asyncpg.Connection) -> bool:
    found: bool = await connection.fetchval(
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name LIKE 'warehouse-%' "
        "AND wait_event_type = 'Lock' AND datname = current_database())"
    )
    return found
