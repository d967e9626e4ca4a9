"""A dead letter says everything an operator needs, keeps the record's bytes, and always reaches its topic."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import asyncpg
import pytest
from structlog.testing import capture_logs

from surefoot.consumer import Consumer, Permanent, Retry, Transaction
from surefoot.events import Event, decode, new_event
from surefoot.log.port import Record, TopicPartition, key_hash, partition_of, record_bytes
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.controls import answers, control, tell
from tests.support.consumer.failures import AT_ONCE, letters, parked, raw_headers, settled
from tests.support.consumer.processes import consumer_running, publish, publish_records, record_of
from tests.support.event_types import ThingHappened, things, things_on
from tests.support.relay.processes import read_all, relay_running, spec
from tests.support.topic_settings import topic_with
from tests.support.waiting import eventually

AGAIN = Retry(attempts=1000, first=timedelta(milliseconds=100), longest=timedelta(milliseconds=100))


async def test_a_letter_has_the_whole_story_and_the_records_own_bytes(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse", retry=AT_ONCE)

    @consumer.on(ThingHappened)
    async def put_on_the_shelf(event: Event[ThingHappened], tx: Transaction) -> None:
        raise ValueError("the shelf is full")

    before = datetime.now(UTC)
    (event,) = await publish(log, ThingHappened(thing_id="a", number=1, note="ä"))
    async with consumer_running(consumer, database_url, log):
        await settled(connection, DEAD=1)

    (letter,) = await letters(connection)
    where = partition_of(key_hash(b"a"), 8)
    assert letter["topic"] == f"{topic}.dlq"
    assert letter["key"] == "a"
    assert letter["body"] == record_of(event).value
    assert letter["ce_specversion"] == "1.0"
    assert letter["ce_type"] == "dlq.dead_letter"
    assert letter["ce_source"] == "/surefoot/consumers/warehouse"
    assert letter["ce_id"] != event.id
    assert letter["ce_correlationid"] == event.correlation_id
    assert letter["surefoot-consumer"] == "warehouse"
    assert letter["surefoot-reason"] == "out_of_attempts"
    assert letter["surefoot-event-source"] == "/tests"
    assert letter["surefoot-event-id"] == event.id
    assert letter["surefoot-event-type"] == "thing.happened"
    assert letter["surefoot-origin-topic"] == topic
    assert letter["surefoot-origin-partition"] == str(where)
    assert letter["surefoot-origin-offset"] == "0"
    assert base64.b64decode(letter["surefoot-origin-key"]) == b"a"
    assert letter["surefoot-attempts"] == "3"
    assert letter["surefoot-replays"] == "0"
    assert letter["surefoot-held"] == "true"
    assert letter["surefoot-error-type"] == "ValueError"
    assert letter["surefoot-error"] == "the shelf is full"
    assert "put_on_the_shelf" in letter["surefoot-stack"]
    failures = json.loads(letter["surefoot-failures"])
    assert [error for _, error in failures] == ["the shelf is full"] * 3
    times = [datetime.fromisoformat(at) for at, _ in failures]
    assert before <= times[0] < times[1] < times[2] <= datetime.now(UTC)
    origin = [(name, base64.b64decode(value)) for name, value in json.loads(letter["surefoot-origin-headers"])]
    assert origin == list(record_of(event).headers)
    assert letter["surefoot-origin-headers-left-out"] == "0"
    (row,) = await parked(connection)
    assert row["fingerprint"] == letter["surefoot-fingerprint"]


async def test_failures_with_one_cause_have_one_fingerprint_and_others_another(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse")

    def refuse(number: int) -> NoReturn:
        raise Permanent(f"no room for {number}")

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        if event.data.number < 3:
            refuse(event.data.number)
        raise RuntimeError("other") if event.data.number == 3 else Permanent("elsewhere")

    consumer.rules = type(consumer.rules)(permanent=(RuntimeError,))
    for number in range(1, 5):
        await publish(log, ThingHappened(thing_id=f"key-{number}", number=number))
    async with consumer_running(consumer, database_url, log):
        await settled(connection, DEAD=4)
    marks = {row["last_error"]: row["fingerprint"] for row in await parked(connection)}
    assert marks["no room for 1"] == marks["no room for 2"]  # another message, the same cause
    assert marks["no room for 1"] == marks["elsewhere"]  # the same type out of the same handler
    assert marks["no room for 1"] != marks["other"]


async def test_two_consumers_have_letters_of_their_own(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumers = [Consumer("warehouse"), Consumer("shipping")]
    for consumer in consumers:
        consumer.on(ThingHappened)(never)
    await publish(log, ThingHappened(thing_id="a", number=1))
    async with consumer_running(consumers[0], database_url, log), consumer_running(consumers[1], database_url, log):
        await settled(connection, DEAD=1)
        await settled(connection, "shipping", DEAD=1)
    found = await letters(connection)
    assert {letter["surefoot-consumer"] for letter in found} == {"warehouse", "shipping"}
    assert len({letter["surefoot-fingerprint"] for letter in found}) == 2
    assert len({letter["ce_id"] for letter in found}) == 2


@pytest.mark.parametrize(
    ("limit", "headers", "header_bytes", "reason"),
    [(1 << 20, 10_000, 1, "too_many_headers"), (1 << 20, 240, 3000, "permanent"), (60_000, 240, 150, "permanent")],
    ids=["10,000 headers", "large headers", "a small topic"],
)
async def test_a_letter_of_the_largest_record_and_the_longest_error_is_delivered(
    database_url: str,
    connection: asyncpg.Connection,
    log: PostgresLog,
    topic_name: str,
    limit: int,
    headers: int,
    header_bytes: int,
    reason: str,
) -> None:
    """Through the real relay, to a dead-letter topic of exactly the size that the catalogue says."""
    await log.create([spec(topic_name, 8, limit), spec(topic_name + ".dlq", 8, 2 * limit)])
    consumer = Consumer("warehouse", retry=AT_ONCE)
    with things_on(topic_name), topic_with(things, max_record_bytes=limit):

        @consumer.on(ThingHappened)
        async def put_on_the_shelf(event: Event[ThingHappened], tx: Transaction) -> None:
            raise Permanent("ü\x00" * 500_000)

        record = largest_record(limit, [(f"x-{n}", b"\xff" * header_bytes) for n in range(headers)])
        where = TopicPartition(topic_name, partition_of(key_hash(record.key or b""), 8))
        await publish_records(log, {where: [record]})
        async with consumer_running(consumer, database_url, log):
            await settled(connection, DEAD=1)

    async with relay_running(database_url, log):
        sent = await eventually(lambda: read_all(log, topic_name + ".dlq"), what="the letter is in its topic")
    (letter,) = sent
    assert letter.value == record.value
    shown = {name: (raw or b"").decode() for name, raw in letter.headers}
    assert shown["surefoot-reason"] == reason
    assert shown["surefoot-origin-offset"] == "0"
    assert 0 < len(shown["surefoot-error"]) <= 1000
    assert len(json.loads(shown["surefoot-origin-headers"])) + int(shown["surefoot-origin-headers-left-out"]) == len(
        record.headers
    )
    assert int(shown["surefoot-origin-headers-left-out"]) > 0
    assert decode(letter.headers, letter.value, letter.key).type == "dlq.dead_letter"
    (row,) = await parked(connection)
    assert row["value"] == record.value
    assert raw_headers(row) == list(record.headers)


def largest_record(limit: int, headers: list[tuple[str, bytes]]) -> Record:
    """An event with these headers beside its own, and a note that fills it up to the limit."""
    event = record_of(new_event(ThingHappened(thing_id="k" * 400, number=1)))
    record = event._replace(headers=(*event.headers, *headers))
    note = b'"note":"' + b"n" * (limit - record_bytes(record)) + b'"'
    record = record._replace(value=(event.value or b"").replace(b'"note":""', note))
    assert record_bytes(record) == limit
    return record


async def test_an_error_that_cannot_be_printed_and_a_time_that_cannot_be_stop_nothing(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    consumer = Consumer("warehouse", retry=AT_ONCE)

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        raise Mute

    await publish(log, ThingHappened(thing_id="a", number=1))
    await connection.execute("UPDATE surefoot.log_records SET stored_at = '290000-01-01'")
    async with consumer_running(consumer, database_url, log):
        await settled(connection, DEAD=1)
    (letter,) = await letters(connection)
    assert "Mute" in letter["surefoot-error-type"]
    assert "cannot be printed" in letter["surefoot-error"]


async def never(event: Event[ThingHappened], tx: Transaction) -> None:
    raise Permanent("never")


async def test_a_bad_record_that_waited_behind_another_is_told_as_one_that_did_not(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    is_broken = True
    consumer = Consumer("warehouse", retry=AGAIN)

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        if is_broken and event.key == "a":
            raise RuntimeError("not yet")

    events = [new_event(ThingHappened(thing_id=key, number=n)) for n, key in enumerate("aab")]
    waits, alone = (record_of(event)._replace(value=b'{"number": "none"}') for event in events[1:])
    await publish(log, events[0])
    with capture_logs() as lines:
        async with consumer_running(consumer, database_url, log):
            await tell(log, topic, events[1], waits)
            await tell(log, topic, events[2], alone)
            await settled(connection, PARKED=2, DEAD=1)
            is_broken = False
            await settled(connection, PROCESSED=1, DEAD=2)
            await tell(log, topic, events[1], control(events[1], "replay"))
            assert [answer for _, answer in await answers(connection, 1)] == ["failed_again"]
    alerts = [line for line in lines if line.get("alert") == "dead_letter"]
    assert [line["event_id"] for line in alerts] == [events[2].id, events[1].id, events[1].id]
    for line in alerts:
        assert line["event"].startswith("warehouse buried the record at ")
        assert line["reason"] == "invalid_data"
