"""Intake: every record of every dead-letter topic becomes a row, once, or comes back to its row."""

import json
from datetime import timedelta
from functools import partial

import asyncpg
import pytest
from structlog.testing import capture_logs

from surefoot.dlq.intake.intake import Intake
from surefoot.events import new_event
from surefoot.log.port import StoredRecord
from surefoot.log.postgres.log import PostgresLog
from surefoot.relay.runtime import Relay
from tests.support.consumer.controls import Mendable, control, tell
from tests.support.consumer.processes import consumer_running, create_topics, publish
from tests.support.dlq.letters import DIED_AT, count, letter_record, put, rows, there_are
from tests.support.dlq.outcomes import letters_in
from tests.support.dlq.service import all_read, intake_running, quick
from tests.support.event_types import ThingHappened
from tests.support.waiting import eventually


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
    assert "controls.py" in row["stack"]
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


@pytest.mark.parametrize(
    ("status", "becomes"),
    [
        ("OPEN", "OPEN"),
        ("REPLAYING", "REPLAYING"),
        ("DISCARD_REQUESTED", "DISCARD_REQUESTED"),
        ("REPLAYED", "OPEN"),
        ("DISCARDED", "OPEN"),
        ("SUPERSEDED", "OPEN"),
    ],
)
async def test_a_new_letter_opens_what_was_settled_and_leaves_what_somebody_has_in_hand(
    status: str, becomes: str, database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await put(log, topic + ".dlq", letter_record("e-1"))
    async with intake_running(database_url, log):
        await there_are(connection, 1)
        await set_status(connection, status, resolved_after_s=10)
        await put(log, topic + ".dlq", letter_record("e-1", after_s=20))
        await there_are(connection, 1, "deaths = 2")
    assert await rows(connection, "status", "resolution", "resolved_at") == [
        (becomes, None if becomes == "OPEN" else "decided", None)
    ]


async def test_a_letter_from_before_the_settlement_that_comes_late_opens_nothing(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await put(log, topic + ".dlq", letter_record("e-1"))
    async with intake_running(database_url, log):
        await there_are(connection, 1)
        await set_status(connection, "REPLAYED", resolved_after_s=10)
        await put(log, topic + ".dlq", letter_record("e-1", after_s=9, replays="1"))
        await there_are(connection, 1, "deaths = 2")
    assert await rows(connection, "status", "resolution") == [("REPLAYED", "decided")]


async def test_letters_of_two_consumers_about_one_event_are_two_rows(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await put(log, topic + ".dlq", letter_record("e-1"), letter_record("e-1", consumer="billing"))
    async with intake_running(database_url, log):
        await there_are(connection, 2)
    assert await rows(connection, "consumer", "event_id") == [("warehouse", "e-1"), ("billing", "e-1")]


async def test_a_batch_is_one_transaction(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    records = [StoredRecord(topic + ".dlq", 0, n, 0, *letter_record(f"e-{n}")) for n in range(20)]
    await Intake(database_url, log, quick()).take(connection, records)
    made_by = await connection.fetch(
        "SELECT DISTINCT xmin::text FROM surefoot.dlq_events UNION SELECT xmin::text FROM surefoot.processed_events"
    )
    assert len(made_by) == 1
    assert await count(connection) == 20


async def test_a_dead_letter_topic_that_is_made_later_is_found(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic_name: str
) -> None:
    async with intake_running(database_url, log):
        await create_topics(log, topic_name)
        await put(log, topic_name + ".dlq", letter_record("e-1"))
        await there_are(connection, 1)
        await create_topics(log, topic_name + ".other")
        await put(log, topic_name + ".other.dlq", letter_record("e-2"))
        await put(log, topic_name + ".dlq", letter_record("e-3"))
        await there_are(connection, 3)


async def test_two_services_share_the_letters_and_take_each_once(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    letters = [letter_record(f"e-{n}", key=f"k-{n}") for n in range(200)]
    other = PostgresLog(database_url)
    async with intake_running(database_url, log, poll_records=10), intake_running(database_url, other, poll_records=10):
        await put(log, topic + ".dlq", *letters, *letters)
        await there_are(connection, 200)
        await all_read(log, topic + ".dlq")
    await other.close()
    assert await count(connection, "deaths = 1") == 200
    assert await connection.fetchval("SELECT sum(open) FROM surefoot.dlq_groups") == 200


async def test_letters_that_were_removed_before_they_were_read_do_not_stop_the_others(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await put(log, topic + ".dlq", letter_record("e-1"))
    async with intake_running(database_url, log):
        await there_are(connection, 1)
        await all_read(log, topic + ".dlq")
    await put(log, topic + ".dlq", letter_record("e-2"))
    await connection.execute("UPDATE surefoot.log_records SET stored_at = '-infinity'")
    await log.expire()
    await put(log, topic + ".dlq", letter_record("e-3"))
    with capture_logs() as lines:
        async with intake_running(database_url, log):
            await there_are(connection, 2)
    assert await rows(connection, "event_id") == [("e-1",), ("e-3",)]
    told = [line for line in lines if "removed from the log" in line["event"]]
    assert [line["offsets"] for line in told] == ["1 to 1"]


async def set_status(connection: asyncpg.Connection, status: str, *, resolved_after_s: float) -> None:
    settled = status in ("REPLAYED", "DISCARDED", "SUPERSEDED")
    await connection.execute(
        "UPDATE surefoot.dlq_events SET status = $1::text::surefoot.dlq_status, resolution = $2, resolved_at = $3",
        status,
        None if status == "OPEN" else "decided",
        DIED_AT + timedelta(seconds=resolved_after_s) if settled else None,
    )


class Forgetful(PostgresLog):
    """Names a topic, once, that is gone by the time it is to be read."""

    named = False

    async def topics(self) -> frozenset[str]:
        found = await super().topics()
        if self.named:
            return found
        self.named = True
        return found | {"gone.dlq"}


async def test_a_topic_that_goes_while_it_is_sought_stops_nobody(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await put(log, topic + ".dlq", letter_record("e-1"))
    forgetful = Forgetful(database_url)
    async with intake_running(database_url, forgetful):
        await there_are(connection, 1)
    await forgetful.close()


async def test_two_that_want_the_same_rows_in_another_order_both_come_through(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    """Each waits at a row that the other has: the intake, which is turned away, tries again."""
    await letters_in(connection, database_url, log, "e-1", "e-2")
    first, second = await rows(connection, "id::text")
    other = await asyncpg.connect(database_url, server_settings={"deadlock_timeout": "60s"})  # so it is not this one
    async with intake_running(database_url, log):
        async with other.transaction():
            await other.execute("SELECT 1 FROM surefoot.dlq_events WHERE id = $1::text::uuid FOR UPDATE", second[0])
            letters = [letter_record(f"e-{n}", after_s=60, replays="1") for n in (1, 2)]
            await put(log, topic + ".dlq", *letters)
            await eventually(partial(waits, connection), what="the intake waits for the second row")
            await other.execute("UPDATE surefoot.dlq_events SET saga_id = 'x' WHERE id = $1::text::uuid", first[0])
        await there_are(connection, 2, "deaths = 2")
    await other.close()
    assert await count(connection, "saga_id = 'x'") == 0  # the letter's own came later


async def waits(connection: asyncpg.Connection) -> bool:
    return bool(
        await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            " AND application_name = 'surefoot dlq intake' AND datname = current_database()"
        )
    )
