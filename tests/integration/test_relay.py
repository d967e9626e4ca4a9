"""The relay, in this process, on real Postgres and a real event log: both kinds."""

import json
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import cast

import asyncpg
import pytest

from surefoot import outbox
from surefoot.errors import LogUnavailable
from surefoot.events import decode
from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import EventLog, Publisher, PublishOutcome, Record, TopicPartition, TopicSpec, key_hash
from surefoot.relay.operations import Operations
from surefoot.testing.kafka import Broker
from tests.support.alert_receiver import alert_receiver
from tests.support.event_types import ThingHappened, things_on
from tests.support.proxy import Proxy
from tests.support.relay.processes import read_all, relay_running, spec, statuses
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest.fixture(params=[pytest.param("kafka", marks=pytest.mark.kafka), "postgres"])
async def log(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[EventLog]:
    log: EventLog
    if request.param == "kafka":
        broker: Broker = request.getfixturevalue("kafka")
        log = KafkaLog(KafkaSettings(bootstrap_servers=broker.address))
    else:
        from surefoot.log.postgres.log import PostgresLog

        log = PostgresLog(database_url)
    yield log
    await log.close()


@pytest.fixture
async def topic(log: EventLog, topic_name: str) -> AsyncIterator[str]:
    """The tests' event types on a topic of this test's own."""
    await log.create([spec(topic_name)])
    with things_on(topic_name):
        yield topic_name


async def add(connection: asyncpg.Connection, *notes: str, key: str = "t1") -> None:
    async with outbox.transaction(connection) as tx:
        for note in notes:
            tx.add(ThingHappened(thing_id=key, note=note))


async def published(connection: asyncpg.Connection) -> bool:
    return (await statuses(connection)).keys() == {"PUBLISHED"}


async def test_a_committed_event_reaches_the_log_as_a_cloudevent(
    database_url: str, connection: asyncpg.Connection, log: EventLog, topic: str
) -> None:
    async with outbox.transaction(connection) as tx:
        event = tx.add(ThingHappened(thing_id="t1", number=7, note="hello"))
    async with relay_running(database_url, log):
        await eventually(lambda: published(connection), what="the row is PUBLISHED")

    (record,) = await read_all(log, topic)
    position = await connection.fetchval("SELECT position FROM surefoot.outbox_events")
    envelope = decode(record.headers, record.value, record.key)
    assert record.key == b"t1"
    assert record.partition == key_hash(b"t1") % 8
    assert json.loads(record.value or b"") == {"thing_id": "t1", "number": 7, "note": "hello"}
    assert envelope.attributes["id"] == event.id
    assert envelope.attributes["type"] == "thing.happened"
    assert envelope.attributes["source"] == "/tests"
    assert envelope.attributes["specversion"] == "1.0"
    assert envelope.attributes["partitionkey"] == "t1"
    assert envelope.attributes["sequence"] == f"{position:020d}"


async def test_a_sleeping_relay_is_woken_by_a_writer(
    database_url: str, connection: asyncpg.Connection, log: EventLog, topic: str
) -> None:
    async def asleep() -> bool:
        return bool(await connection.fetchval("SELECT asleep_until > now() FROM surefoot.outbox_settings"))

    # It would look by itself only after a minute: if the event arrives sooner, the writer woke it.
    long = {"poll_max": timedelta(seconds=60), "poll_min": timedelta(seconds=30)}
    async with relay_running(database_url, log, **long):
        await eventually(asleep, what="the relay says that it sleeps")
        await add(connection, "wake up")
        await eventually(lambda: published(connection), what="the row is PUBLISHED", within_s=25)
        await eventually(lambda: _not(asleep), what="the relay says that it is awake")


async def _not(check) -> bool:  # type: ignore[no-untyped-def]
    return not await check()


async def test_relays_share_the_shards_and_take_over_from_one_that_leaves(
    database_url: str, connection: asyncpg.Connection, log: EventLog, topic: str
) -> None:
    async def owners() -> dict[str, int]:
        rows = await connection.fetch(
            "SELECT owner, count(*) FROM surefoot.leases WHERE scope = 'outbox' AND owner IS NOT NULL GROUP BY 1"
        )
        return dict(rows)

    async def shared(first: str, second: str) -> bool:
        return await owners() == {first: 4, second: 4}

    async with relay_running(database_url, log) as first:
        await eventually(lambda: _equals(owners, {first.name: 8}), what="the first relay owns all shards")
        async with relay_running(database_url, log) as second:
            await eventually(lambda: shared(first.name, second.name), what="both own half")
            await add(connection, "one", key="a")
        await eventually(lambda: _equals(owners, {first.name: 8}), what="the first relay owns all shards again")
    assert await owners() == {}
    assert await connection.fetchval("SELECT count(*) FROM surefoot.lease_members WHERE scope = 'outbox'") == 0


async def _equals(ask, wanted) -> bool:  # type: ignore[no-untyped-def]
    return bool(await ask() == wanted)


async def test_published_rows_are_removed_after_their_retention_and_no_others(
    database_url: str, connection: asyncpg.Connection, log: EventLog, topic: str
) -> None:
    await add(connection, "old", key="a")
    await add(connection, "young", key="b")
    async with relay_running(database_url, log, housekeeping=timedelta(hours=1)):
        await eventually(lambda: published(connection), what="both are PUBLISHED")
    await connection.execute(
        "UPDATE surefoot.outbox_events SET published_at = now() - interval '8 days' WHERE key = 'a'"
    )
    await connection.execute(
        "INSERT INTO surefoot.outbox_events (event_id, shard, key_hash, topic, event_type, key, headers, status,"
        " attempts, created_at) "
        "VALUES (gen_random_uuid(), 0, 0, 'x', 'x', 'c', '[]', 'FAILED', 5, now() - interval '90 days')"
    )

    async def kept() -> list[str]:
        rows = await connection.fetch("SELECT key FROM surefoot.outbox_events ORDER BY key")
        return [row["key"] for row in rows]

    async with relay_running(database_url, log):
        await eventually(lambda: _equals(kept, ["b", "c"]), what="only the old published row is gone")


async def test_a_refused_row_fails_with_a_sentence_its_key_is_held_and_the_others_flow(
    database_url: str, connection: asyncpg.Connection, log: EventLog, topic: str
) -> None:
    await add(connection, "good", key="held")
    await connection.execute("UPDATE surefoot.outbox_events SET topic = 'no.such.topic' WHERE key = 'held'")
    async with outbox.transaction(connection) as tx:
        for key in ("held", "free", "held"):
            tx.add(ThingHappened(thing_id=key, note="later"))
    await connection.execute("UPDATE surefoot.outbox_events SET topic = 'no.such.topic' WHERE key = 'held'")

    async def settled() -> bool:
        return await statuses(connection) == {"FAILED": 1, "HELD": 2, "PUBLISHED": 1}

    async with relay_running(database_url, log):
        await eventually(settled, what="one row is FAILED, the two behind it wait, the other is published")
        row = await connection.fetchrow("SELECT * FROM surefoot.outbox_events WHERE status = 'FAILED'")
        assert row is not None
        assert (row["key"], row["attempts"]) == ("held", 3)
        assert "no topic 'no.such.topic'" in row["last_error"]
        assert "surefoot topics create" in row["last_error"]
        held = await connection.fetch("SELECT held FROM surefoot.outbox WHERE status = 'HELD'")
        assert [row["held"] for row in held] == [True, True]


async def test_an_alert_is_posted_for_a_row_that_fails(
    database_url: str, connection: asyncpg.Connection, log: EventLog, topic: str
) -> None:
    await add(connection, "bad", key="k")
    await connection.execute("UPDATE surefoot.outbox_events SET topic = 'no.such.topic'")
    async with alert_receiver() as receiver, relay_running(database_url, log, alert_webhook=receiver.url):
        alert = (await receiver.next_post()).json()
    assert alert["code"] == "outbox_event_failed"
    assert alert["details"]["key"] == "k"
    assert "no.such.topic" in alert["sentence"]


async def test_a_retried_row_and_those_held_behind_it_are_published_in_order(
    database_url: str, connection: asyncpg.Connection, log: EventLog, topic: str
) -> None:
    for number in range(4):
        async with outbox.transaction(connection) as tx:
            tx.add(ThingHappened(thing_id="k", number=number))
    later = f"{topic}.later"
    await connection.execute("UPDATE surefoot.outbox_events SET topic = $1", later)
    async with relay_running(database_url, log):
        await eventually(
            lambda: _equals(lambda: statuses(connection), {"FAILED": 1, "HELD": 3}), what="the key is held"
        )
        with things_on(later):
            await add(connection, "came while the key was held", key="k")
        await log.create([spec(later)])
        verbs = Operations(connection, "surefoot")
        assert await verbs.retry(None, topic=None, decision="the topic is there now") == 1
        assert await verbs.retry(None, topic=None, decision="once more") == 0
        await eventually(lambda: published(connection), what="every row is PUBLISHED")
    bodies = [json.loads(record.value or b"") for record in await read_all(log, later)]
    assert [(body["number"], body["note"]) for body in bodies] == [
        (0, ""),
        (1, ""),
        (2, ""),
        (3, ""),
        (0, "came while the key was held"),
    ]


async def test_a_released_row_is_never_published_and_its_key_goes_on(
    database_url: str, connection: asyncpg.Connection, log: EventLog, topic: str
) -> None:
    later = f"{topic}.later"
    with things_on(later):
        for note in ("first", "second", "third"):
            await add(connection, note, key="k")
    async with relay_running(database_url, log, max_attempts=1):
        await eventually(
            lambda: _equals(lambda: statuses(connection), {"FAILED": 1, "HELD": 2}), what="the key is held"
        )
        event_id = await connection.fetchval("SELECT event_id FROM surefoot.outbox_events WHERE status = 'FAILED'")
        await log.create([spec(later)])
        assert await Operations(connection, "surefoot").release(event_id, decision="anna: not needed") == 1
        wanted = {"RELEASED": 1, "PUBLISHED": 2}
        await eventually(lambda: _equals(lambda: statuses(connection), wanted), what="the rest is published")
    notes = [json.loads(record.value or b"")["note"] for record in await read_all(log, later)]
    assert notes == ["second", "third"]
    decision = await connection.fetchval("SELECT decision FROM surefoot.outbox WHERE status = 'RELEASED'")
    assert decision == "anna: not needed"


async def test_a_row_with_odd_headers_fails_alone(
    database_url: str, connection: asyncpg.Connection, log: EventLog, topic: str
) -> None:
    await add(connection, "odd", key="odd")
    await connection.execute("UPDATE surefoot.outbox_events SET headers = 'null'")
    for n in range(20):
        await add(connection, "good", key=f"k{n}")
    async with relay_running(database_url, log, max_attempts=1):
        wanted = {"FAILED": 1, "PUBLISHED": 20}
        await eventually(lambda: _equals(lambda: statuses(connection), wanted), what="only the odd row fails")
    assert "headers" in await connection.fetchval("SELECT last_error FROM surefoot.outbox WHERE status = 'FAILED'")


async def test_thousands_of_refused_keys_are_marked_in_one_go(
    database_url: str, connection: asyncpg.Connection, log: EventLog, topic: str
) -> None:
    async with outbox.transaction(connection) as tx:
        for n in range(4000):
            tx.add(ThingHappened(thing_id=f"k{n}"))
    await connection.execute("UPDATE surefoot.outbox_events SET topic = 'no.such.topic' WHERE position % 20 > 0")
    async with relay_running(database_url, log, max_attempts=1):
        wanted = {"FAILED": 3800, "PUBLISHED": 200}
        await eventually(lambda: _equals(lambda: statuses(connection), wanted), what="all are decided on")
    assert len({record.key for record in await read_all(log, topic)}) == 200


async def test_a_topic_that_cannot_be_written_keeps_no_other_waiting(
    database_url: str, connection: asyncpg.Connection, log: EventLog, topic: str
) -> None:
    barred = f"{topic}.barred"
    await log.create([spec(barred)])
    with things_on(barred):
        async with outbox.transaction(connection) as tx:
            for n in range(8000):  # older, and more than a claim takes
                tx.add(ThingHappened(thing_id=f"k{n}"))
    await add(connection, "good", key="g")
    async with relay_running(database_url, cast(EventLog, BarringLog(log, barred))):
        wanted = {"PENDING": 8000, "PUBLISHED": 1}
        await eventually(lambda: _equals(lambda: statuses(connection), wanted), what="the good one is published")
    assert await connection.fetchval("SELECT max(attempts) FROM surefoot.outbox_events") == 0


class BarringLog:
    """A log of which one topic cannot be written, as when a right is missing."""

    def __init__(self, log: EventLog, barred: str) -> None:
        self._log = log
        self._barred = barred

    async def publisher(self) -> "BarringPublisher":
        return BarringPublisher(await self._log.publisher(), self._barred)

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)


class BarringPublisher:
    def __init__(self, publisher: Publisher, barred: str) -> None:
        self._publisher = publisher
        self._barred = barred

    async def topic(self, name: str) -> TopicSpec | None:
        return await self._publisher.topic(name)

    async def publish(self, where: TopicPartition, records: Sequence[Record]) -> PublishOutcome:
        if where.topic == self._barred:
            raise LogUnavailable("We may not write to it.")
        return await self._publisher.publish(where, records)

    async def close(self) -> None:
        await self._publisher.close()


async def test_rows_held_behind_a_head_that_was_changed_by_hand_are_let_go_in_order(
    database_url: str, connection: asyncpg.Connection, log: EventLog, topic: str
) -> None:
    later = f"{topic}.later"
    with things_on(later):
        for note in ("1", "2"):
            await add(connection, note, key="k")
    async with relay_running(database_url, log, max_attempts=1):
        held = {"FAILED": 1, "HELD": 1}
        await eventually(lambda: _equals(lambda: statuses(connection), held), what="the key is held")
        await log.create([spec(later)])
        await connection.execute(
            "UPDATE surefoot.outbox_events SET status = 'PENDING', attempts = 0 WHERE status = 'FAILED'"
        )
        with things_on(later):
            await add(connection, "3", key="k")
        await eventually(lambda: published(connection), what="every row is PUBLISHED")
    assert [json.loads(record.value or b"")["note"] for record in await read_all(log, later)] == ["1", "2", "3"]


@pytest.mark.slow
async def test_a_database_that_goes_silent_is_left_for_a_new_connection(
    database_url: str, connection: asyncpg.Connection, log: EventLog, topic: str
) -> None:
    """As when a route is dropped: nothing is refused, nothing is closed, there is just no answer any more."""
    async with Proxy(database_url) as proxy:
        async with relay_running(proxy.url, log):
            await add(connection, "before", key="a")
            await eventually(lambda: published(connection), what="the first row is PUBLISHED")
            proxy.silence()
            await add(connection, "after", key="b")
            await eventually(lambda: published(connection), what="the second row is PUBLISHED")
