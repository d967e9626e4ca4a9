"""Intake: every record of every dead-letter topic becomes a row, once, or comes back to its row."""

import json

import asyncpg

from outbox_publisher.runtime import Relay
from surefoot.events import new_event
from surefoot.log.postgres import PostgresLog
from tests.consuming import consumer_running, publish
from tests.events import ThingHappened
from tests.integration.consumers.deciding import Mendable, control, tell
from tests.integration.dlq.serving import intake_running
from tests.integration.dlq.writing import DIED_AT, count, letter_record, put, rows
from tests.waiting import eventually


async def there_are(connection: asyncpg.Connection, many: int, condition: str = "true") -> None:
    async def look() -> bool:
        return await count(connection, condition) == many

    await eventually(look, what=f"{many} dead letters where {condition}")


async def test_a_dead_event_becomes_a_row_with_all_that_is_known_of_it(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, relay: Relay, shop: Mendable
) -> None:
    shop.broken.add(1)
    event = new_event(ThingHappened(thing_id="a", number=1), correlation_id="flow-1")
    await publish(log, event)
    async with consumer_running(shop.consumer, database_url, log), intake_running(database_url, log):
        await there_are(connection, 1)

    row = dict(await connection.fetchrow("SELECT *, status::text AS status FROM surefoot.dlq_events"))
    parked = await connection.fetchrow("SELECT *, headers::text AS headers FROM surefoot.parked_events")
    assert (row["consumer"], row["source"], row["event_id"]) == ("warehouse", "/tests", event.id)
    assert (row["event_type"], row["correlation_id"], row["saga_id"]) == ("thing.happened", "flow-1", None)
    assert (row["topic"], row["partition"], row["log_offset"]) == (topic, parked["partition"], parked["log_offset"])
    assert (row["key"], row["record_key"], row["value"]) == ("a", b"a", parked["value"])
    assert json.loads(row["headers"]) == json.loads(parked["headers"])
    assert row["headers_left_out"] == 0
    assert row["recorded_at"] == parked["recorded_at"]
    assert (row["reason"], row["error"]) == ("permanent", "Number 1 cannot be had.")
    assert row["error_type"] == "surefoot.consumer.failures.Permanent"
    assert "deciding.py" in row["stack"]
    assert row["fingerprint"] == parked["fingerprint"]
    assert [failure[1] for failure in json.loads(row["failures"])] == ["Number 1 cannot be had."]
    assert (row["attempts"], row["replays"], row["deaths"], row["held"]) == (1, 0, 1, True)
    assert (row["status"], row["job_id"], row["resolution"], row["resolved_at"]) == ("OPEN", None, None, None)
    assert row["first_failed_at"] == row["failed_at"] <= row["received_at"]
    assert await connection.fetchval("SELECT open FROM surefoot.dlq_groups WHERE fingerprint = $1", row["fingerprint"])


async def test_a_letter_that_comes_twice_makes_one_row_and_one_death(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    letter = letter_record("e-1", letter_id="l-1")
    await put(log, topic + ".dlq", letter, letter)
    async with intake_running(database_url, log):
        await there_are(connection, 1)
        await put(log, topic + ".dlq", letter, letter_record("e-2"))
        await there_are(connection, 2)
    assert await rows(connection, "event_id", "deaths") == [("e-1", 1), ("e-2", 1)]


async def test_an_event_that_dies_again_comes_back_to_its_row_with_its_count(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, relay: Relay, shop: Mendable
) -> None:
    shop.broken.add(1)
    (event,) = await publish(log, ThingHappened(thing_id="a", number=1))
    async with consumer_running(shop.consumer, database_url, log), intake_running(database_url, log):
        await there_are(connection, 1)
        ((first,),) = await rows(connection, "letter_id")
        shop.raising = KeyError
        await tell(log, topic, event, control(event, "replay"))
        await there_are(connection, 1, "deaths = 2")
    ((attempts, replays, error_type, letter_id, status),) = await rows(
        connection, "attempts", "replays", "error_type", "letter_id", "status"
    )
    assert (attempts, replays, error_type, status) == (2, 1, "KeyError", "OPEN")
    assert letter_id != first
    groups = await connection.fetch("SELECT error_type, open FROM surefoot.dlq_groups ORDER BY open")
    assert [tuple(group) for group in groups] == [("surefoot.consumer.failures.Permanent", 0), ("KeyError", 1)]


async def test_several_letters_of_one_event_in_one_batch_are_taken_in_order(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    letters = [letter_record("e-1", after_s=n, replays=str(n), error=f"No {n}.") for n in range(3)]
    await put(log, topic + ".dlq", letters[0], letter_record("e-2"), *letters[1:])
    async with intake_running(database_url, log):
        await there_are(connection, 1, "deaths = 3")
    assert await rows(connection, "event_id", "deaths", "error") == [
        ("e-1", 3, "No 2."),
        ("e-2", 1, "There is no such article."),
    ]


async def test_an_old_letter_changes_nothing(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    new, old = letter_record("e-1", after_s=10), letter_record("e-1", after_s=9, error="Old.")
    await put(log, topic + ".dlq", new, old, letter_record("e-2"))
    async with intake_running(database_url, log):
        await there_are(connection, 2)
    assert await rows(connection, "event_id", "deaths", "error") == [
        ("e-1", 1, "There is no such article."),
        ("e-2", 1, "There is no such article."),
    ]


async def test_a_later_death_counts_also_if_the_clock_of_who_tells_it_is_behind(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    again = letter_record("e-1", after_s=-60, replays="1", error="Again.")
    await put(log, topic + ".dlq", letter_record("e-1"), again)
    async with intake_running(database_url, log):
        await there_are(connection, 1, "deaths = 2")
    assert await rows(connection, "error", "failed_at") == [("Again.", DIED_AT)]
