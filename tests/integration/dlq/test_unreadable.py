"""Records of a dead-letter topic that are no letters, and letters about anything: all are kept, and intake goes on."""

import json

import asyncpg
import pytest

from surefoot.consumer_runtime.parking import headers_json
from surefoot.dlq.intake.intake import Intake
from surefoot.errors import DatabaseRefused
from surefoot.log.port import Record, TopicPartition, record_bytes
from surefoot.log.postgres.log import PostgresLog
from surefoot.relay.runtime import Relay
from tests.support.bad_records import CASES
from tests.support.consumer.controls import Mendable
from tests.support.consumer.effects import have_effect
from tests.support.consumer.processes import consumer_running, publish_records
from tests.support.corpus import each_of
from tests.support.dlq.letters import count, letter_record, put, rows, there_are
from tests.support.dlq.service import all_read, intake_running, quick
from tests.support.event_types import ThingPaid

LARGEST = 1 << 20
JUNK = {
    "no value": Record(b"k", None, []),
    "no value, the headers of a letter": letter_record("e-0", value=None, without=["surefoot-consumer"]),
    "no headers": Record(b"k", b"{}", []),
    "no key": Record(None, b"{}", []),
    "another event": Record(
        b"k", b"{}", [(f"ce_{n}", b"1.0") for n in ("specversion", "id", "source", "type")]
    ),
    "binary junk": Record(b"\xff\x00", bytes(range(256)), [("n\x01me", b"\x00\xff"), ("null", None)]),
    "a name with a NUL": letter_record("e-0", consumer="ware\x00house"),
    "an id that fits no index": letter_record("e" * 5000),
    "a huge header": Record(b"k", b"v", [("huge", b"h" * 900_000)]),
    "too many headers": Record(b"k", b"v", [(f"h{n}", b"v") for n in range(5000)]),
    "a huge key": Record(b"k" * 9000, b"v", []),
}  # fmt: skip


async def test_a_record_that_is_no_letter_is_kept_raw_and_the_next_is_taken_in(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    """Junk has the even offsets, a letter follows each."""
    records = [one for number, junk in enumerate(JUNK.values()) for one in (junk, letter_record(f"e-{number}"))]
    await publish_records(log, {TopicPartition(topic + ".dlq", 3): records})
    async with intake_running(database_url, log):
        await there_are(connection, len(records))

    @each_of(("number", "name"), enumerate(JUNK), named=lambda _, name: name)
    async def is_kept_and_the_next_taken_in(number: int, name: str) -> None:
        kept, letter = (await rows(connection, "consumer", "event_id", "reason", "status"))[2 * number :][:2]
        assert kept == ("", f"{topic}.dlq/3/{2 * number}", "unreadable_letter", "OPEN")
        assert letter == ("warehouse", f"e-{number}", "permanent", "OPEN")
        raw = await connection.fetchrow(
            "SELECT record_key, value, headers::text, topic, partition, log_offset FROM surefoot.dlq_events"
            " WHERE event_id = $1",
            kept[1],
        )
        assert (raw["record_key"], raw["value"]) == (JUNK[name].key, JUNK[name].value)
        stored, sent = json.loads(raw["headers"]), json.loads(headers_json(JUNK[name].headers))
        assert [value for _, value in stored] == [value for _, value in sent]
        assert (raw["topic"], raw["partition"], raw["log_offset"]) == (topic + ".dlq", 3, 2 * number)

    await is_kept_and_the_next_taken_in()


@pytest.mark.slow
async def test_every_kind_of_bad_record_put_straight_into_the_topic_is_kept_once(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    bad = [case.record for case in CASES if record_bytes(case.record) < LARGEST]
    await publish_records(log, {TopicPartition(topic + ".dlq", n): bad[n::8] for n in range(8)})
    async with intake_running(database_url, log, poll_records=50):
        await there_are(connection, len(bad))
        await all_read(log, topic + ".dlq")
    assert await count(connection, "reason = 'unreadable_letter' AND NOT held AND consumer = ''") == len(bad)
    groups = await connection.fetch("SELECT open FROM surefoot.dlq_groups")
    assert [group[0] for group in groups] == [len(bad)]


@pytest.mark.proof
async def test_the_letters_of_every_kind_of_bad_record_are_read_with_its_bytes(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, relay: Relay, shop: Mendable
) -> None:
    shop.consumer.on(ThingPaid)(have_effect)
    bad = [case.record for case in CASES if record_bytes(case.record) < LARGEST // 2]
    await publish_records(log, {TopicPartition(topic, n): bad[n::8] for n in range(8)})
    async with consumer_running(shop.consumer, database_url, log), intake_running(database_url, log):
        await there_are(connection, len(bad), "consumer = 'warehouse'")
    differing = await connection.fetch(
        "SELECT r.partition, r.log_offset FROM surefoot.log_records r FULL JOIN surefoot.dlq_events d"
        " USING (topic, partition, log_offset) WHERE topic = $1 AND r.value IS DISTINCT FROM d.value",
        topic,
    )
    assert differing == []
    assert await count(connection, "topic = $$" + topic + "$$") == len(bad)
    assert await count(connection, "reason = 'unreadable_letter'") == 0


async def test_a_letter_that_the_database_refuses_is_kept_raw_and_spoils_nothing_else(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await connection.execute("ALTER TABLE surefoot.dlq_events ADD CHECK (event_id <> 'e-7')")  # somebody's own rule
    await put(log, topic + ".dlq", *(letter_record(f"e-{n}") for n in range(10)))
    async with intake_running(database_url, log):
        await there_are(connection, 10)
    assert await count(connection, "consumer = 'warehouse' AND deaths = 1") == 9
    ((error,),) = [
        tuple(row) for row in await connection.fetch("SELECT error FROM surefoot.dlq_events WHERE consumer = ''")
    ]
    assert error.startswith("This letter cannot be kept as it is: ")


async def test_a_record_that_cannot_be_kept_at_all_ends_the_intake_and_is_there_the_next_time(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await connection.execute("ALTER TABLE surefoot.dlq_events ADD CONSTRAINT nothing CHECK (false)")
    await put(log, topic + ".dlq", letter_record("e-1"))
    with pytest.raises(DatabaseRefused, match="refuses what Surefoot does there"):
        await Intake(database_url, log, quick()).run()
    await connection.execute("ALTER TABLE surefoot.dlq_events DROP CONSTRAINT nothing")
    async with intake_running(database_url, log):
        await there_are(connection, 1, "consumer = 'warehouse'")
