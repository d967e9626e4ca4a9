"""The whole way: events die, their letters are taken in, a person decides, the consumer obeys, its answer settles them.

With a real consumer, a relay and the dead-letter service, in this process.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from surefoot.database.migrate import migrate
from surefoot.dlq.jobs.request import Ids, Matching, Wanted
from surefoot.dlq.jobs.views import JobMade, JobView
from surefoot.dlq.letters.filters import Filter
from surefoot.dlq.runtime import DlqRuntime
from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import EventLog
from surefoot.log.postgres.log import PostgresLog
from surefoot.testing.kafka_node import LocalKafka
from tests.support.consumer.controls import Mendable, outcome, settled_as
from tests.support.consumer.effects import effects
from tests.support.consumer.processes import consumer_running, create_topics, publish
from tests.support.dlq.decisions import ADA, EVE, GRACE, WHY, approvals, jobs, statuses
from tests.support.dlq.letters import there_are
from tests.support.dlq.service import quick, running
from tests.support.event_types import ThingHappened, catalogue, things_on
from tests.support.relay.processes import relay_running
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow
EVERYTHING = Matching(Filter(consumer="warehouse"))


@dataclass
class Room:
    """A dead-letter service, and the database that it has its rows in."""

    connection: asyncpg.Connection

    async def replay(self, wanted: Wanted = EVERYTHING, **how: Any) -> JobMade:
        async with jobs(self.connection) as verbs:
            return await verbs.replay(ADA, wanted, **{"reason": WHY, **how})

    async def ended(self, made: JobMade) -> JobView:
        return await self.job_ended(str(made.job_id))

    async def job_ended(self, job_id: str) -> JobView:
        async def look() -> JobView | None:
            async with jobs(self.connection) as verbs:
                job = await verbs.get(job_id)
            return job if job.ended_at is not None else None

        ended = await eventually(look, what="the job has ended")
        assert ended is not None
        assert ended.ok + ended.failed + ended.cancelled == ended.total
        return ended


@asynccontextmanager
async def room(url: str, log: EventLog) -> AsyncIterator[Room]:
    connection = await asyncpg.connect(url)
    try:
        async with running(DlqRuntime(url, log, quick())):
            yield Room(connection)
    finally:
        await connection.close()


def things(keys: str, numbers: Sequence[int]) -> list[ThingHappened]:
    """Of each key one of each number, the numbers in order."""
    return [ThingHappened(thing_id=key, number=number) for number in numbers for key in keys]


async def test_after_the_fix_one_request_replays_all_and_every_key_drains_in_order(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, relay: object
) -> None:
    shop = Mendable(1)
    events = await publish(log, *things("abc", (1, 2, 3)))
    async with consumer_running(shop.consumer, database_url, log), room(database_url, log) as service:
        await there_are(connection, 3, "status = 'OPEN' AND held")
        shop.broken.clear()
        job = await service.ended(await service.replay())
        await settled_as(connection, events, "PROCESSED")

    assert (job.status, job.total, job.ok, job.answers) == ("DONE", 3, 3, {"done": 3})
    assert await statuses(connection) == {"REPLAYED": 3}
    for key in "abc":
        assert await effects(connection, key) == [1, 2, 3]
    said = await connection.fetchval("SELECT resolution FROM surefoot.dlq_events LIMIT 1")
    assert said.startswith(f"Replayed by ada: {WHY}. warehouse says: done.")


async def test_many_dead_letters_of_one_key_are_replayed_in_the_order_of_the_log(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, relay: object
) -> None:
    """The consumer lets keys go on, so each event of a key has died by itself."""
    numbers = range(1, 9)
    shop = Mendable(*numbers, when_dead="release")
    await publish(log, *things("ab", numbers))
    async with consumer_running(shop.consumer, database_url, log), room(database_url, log) as service:
        await there_are(connection, 16, "status = 'OPEN'")
        shop.broken.clear()
        job = await service.ended(await service.replay())
    assert (job.ok, job.failed) == (16, 0)
    for key in "ab":
        assert await effects(connection, key) == list(numbers)


async def test_a_replay_before_the_fix_comes_back_to_the_same_row_with_its_count(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, relay: object
) -> None:
    shop = Mendable(1)
    await publish(log, *things("a", (1, 2)))
    async with consumer_running(shop.consumer, database_url, log), room(database_url, log) as service:
        await there_are(connection, 1, "status = 'OPEN'")
        job = await service.ended(await service.replay())
        await there_are(connection, 1, "status = 'OPEN' AND deaths = 2 AND replays = 1")
        assert (job.ok, job.failed, job.answers) == (0, 1, {"failed_again": 1})

        shop.broken.clear()
        again = await service.ended(await service.replay())
        await there_are(connection, 1, "status = 'REPLAYED' AND deaths = 2")
    assert (again.ok, again.failed) == (1, 0)
    assert await effects(connection) == [1, 2]
    assert await connection.fetchval("SELECT count(*) FROM surefoot.dlq_events") == 1


async def test_what_an_abandoned_replay_did_after_all_is_not_done_again(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, relay: object
) -> None:
    shop = Mendable(1)
    events = await publish(log, *things("a", (1, 2)))
    async with room(database_url, log) as service:
        async with consumer_running(shop.consumer, database_url, log):
            await there_are(connection, 1, "status = 'OPEN' AND held")
        made = await service.replay()  # and nobody is there to be told
        await eventually(
            lambda: connection.fetchval("SELECT count(*) = 1 FROM surefoot.dlq_job_items WHERE state = 'SENT'"),
            what="the control record is sent",
        )
        for verb in ("cancel", "abandon"):
            async with jobs(connection) as verbs:
                await getattr(verbs, verb)(EVE, str(made.job_id), WHY)
        assert (await service.ended(made)).cancelled == 1
        assert await statuses(connection) == {"OPEN": 1}

        shop.broken.clear()
        async with consumer_running(shop.consumer, database_url, log):
            await settled_as(connection, events, "PROCESSED")
            job = await service.ended(await service.replay())
    assert job.answers == {"already_done": 1}
    assert await statuses(connection) == {"REPLAYED": 1}
    assert await effects(connection) == [1, 2]


async def test_a_dry_run_says_how_they_stand_and_changes_nothing(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, relay: object
) -> None:
    shop = Mendable(1)
    events = await publish(log, *things("ab", (1, 2, 3)))
    async with consumer_running(shop.consumer, database_url, log), room(database_url, log) as service:
        await there_are(connection, 2, "status = 'OPEN'")
        await settled_as(connection, events[2:], "PARKED")
        job = await service.ended(await service.replay(dry_run=True))
    assert (job.answers, job.waiting_behind, job.past_retention) == ({"inspected": 2}, 4, 0)
    assert await statuses(connection) == {"OPEN": 2}
    assert await effects(connection) == []


async def test_a_discard_that_two_people_decided_lets_the_key_go_on_and_no_replay_runs_after_it(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, relay: object
) -> None:
    shop = Mendable(1)
    events = await publish(log, *things("a", (1, 2, 3)))
    async with consumer_running(shop.consumer, database_url, log), room(database_url, log) as service:
        await there_are(connection, 1, "status = 'OPEN'")
        async with approvals(service.connection) as verbs:
            asked = await verbs.request(ADA, EVERYTHING, "a test order")
        async with approvals(service.connection) as verbs:
            approved = await verbs.approve(GRACE, str(asked.id), asked.set_hash, "I looked at it")
        job = await service.job_ended(str(approved.job_id))
        await settled_as(connection, events[1:], "PROCESSED")
    assert job.answers == {"discarded": 1}
    assert await statuses(connection) == {"DISCARDED": 1}
    assert await effects(connection) == [2, 3]
    decision = await connection.fetchval("SELECT decision FROM surefoot.processed_events WHERE outcome = 'DISCARDED'")
    assert decision == "ada, approved by grace: a test order"


async def test_an_edited_event_takes_the_place_of_the_dead_one(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, relay: object
) -> None:
    shop = Mendable(1)
    events = await publish(log, *things("a", (1, 2, 3)))
    async with consumer_running(shop.consumer, database_url, log), room(database_url, log) as service:
        await there_are(connection, 1, "status = 'OPEN'")
        job = await service.ended(await edit(service, {"thing_id": "a", "number": 10}))
        await settled_as(connection, events[1:], "PROCESSED")
    assert job.answers == {"done": 1}
    assert await effects(connection) == [10, 2, 3]
    row = await connection.fetchrow("SELECT status::text, superseded_by FROM surefoot.dlq_events")
    assert row is not None
    had = await connection.fetchval("SELECT event_id FROM effects WHERE number = 10")
    assert tuple(row) == ("SUPERSEDED", had)
    assert await outcome(connection, events[0]) == "SUPERSEDED"


async def test_an_edited_event_that_dies_too_is_a_letter_of_its_own(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, relay: object
) -> None:
    shop = Mendable(1, 10)
    await publish(log, *things("a", (1,)))
    async with consumer_running(shop.consumer, database_url, log), room(database_url, log) as service:
        await there_are(connection, 1, "status = 'OPEN'")
        job = await service.ended(await edit(service, {"thing_id": "a", "number": 10}))
        await there_are(connection, 1, "status = 'OPEN'")
        await there_are(connection, 1, "status = 'SUPERSEDED'")
    assert (job.ok, job.failed, job.answers) == (0, 1, {"failed_again": 1})


async def test_while_the_consumer_is_down_nothing_is_lost_and_nothing_is_done_twice(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, relay: object
) -> None:
    """The control records are sent again and again meanwhile."""
    shop = Mendable(1)
    events = await publish(log, *things("abc", (1, 2)))
    async with room(database_url, log) as service:
        async with consumer_running(shop.consumer, database_url, log):
            await there_are(connection, 3, "status = 'OPEN'")
        made = await service.replay()
        await eventually(lambda: sent_often(connection), what="each was sent three times")
        shop.broken.clear()
        async with consumer_running(shop.consumer, database_url, log):
            job = await service.ended(made)
            await settled_as(connection, events, "PROCESSED")
    assert (job.ok, job.failed) == (3, 0)
    assert [await effects(connection, key) for key in "abc"] == [[1, 2]] * 3


async def test_the_service_and_the_consumer_may_share_no_database(
    database_url: str,
    empty_database_url: str,
    connection: asyncpg.Connection,
    log: PostgresLog,
    topic: str,
    relay: object,
) -> None:
    await migrate(empty_database_url)
    shop = Mendable(1)
    events = await publish(log, *things("a", (1, 2)))
    async with consumer_running(shop.consumer, database_url, log), room(empty_database_url, log) as service:
        await there_are(service.connection, 1, "status = 'OPEN'")
        shop.broken.clear()
        job = await service.ended(await service.replay())
        await settled_as(connection, events, "PROCESSED")
        assert await statuses(service.connection) == {"REPLAYED": 1}
    assert job.answers == {"done": 1}
    assert await effects(connection) == [1, 2]
    assert await statuses(connection) == {}


async def test_only_the_consumer_that_gave_up_is_told(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, relay: object
) -> None:
    shop, other = Mendable(1), Mendable()
    other.consumer.name = "billing"
    (event,) = await publish(log, *things("a", (1,)))
    async with (
        consumer_running(shop.consumer, database_url, log),
        consumer_running(other.consumer, database_url, log),
        room(database_url, log) as service,
    ):
        await there_are(connection, 1, "status = 'OPEN'")
        await settled_as(connection, [event], "PROCESSED", "billing")
        shop.broken.clear()
        await service.ended(await service.replay(Ids(frozenset({event.id}))))
    assert other.tried == [1]
    assert shop.tried == [1, 1]


@pytest.mark.kafka
async def test_on_kafka_too_one_request_replays_all_in_order(
    own_broker: LocalKafka, database_url: str, connection: asyncpg.Connection, topic_name: str
) -> None:
    log = KafkaLog(KafkaSettings(bootstrap_servers=own_broker.address))
    await create_topics(log, topic_name, "saga.replies", "dlq.outcomes")
    shop = Mendable(1)
    shop.consumer.name = topic_name  # a group of this test's own
    try:
        with things_on(topic_name):
            events = await publish(log, *things("abcd", (1, 2, 3)))
            async with (
                relay_running(database_url, log),
                consumer_running(shop.consumer, database_url, log),
                room(database_url, log) as service,
            ):
                ours = f"status = 'OPEN' AND consumer = '{topic_name}'"
                await there_are(connection, 4, ours)
                shop.broken.clear()
                job = await service.ended(await service.replay(Matching(Filter(consumer=topic_name)), canary=1))
                await settled_as(connection, events, "PROCESSED", topic_name)
    finally:
        await log.close()
    assert (job.ok, job.failed) == (4, 0)
    assert [await effects(connection, key) for key in "abcd"] == [[1, 2, 3]] * 4


async def edit(service: Room, payload: object) -> JobMade:
    dlq_id = await service.connection.fetchval("SELECT id::text FROM surefoot.dlq_events")
    async with jobs(service.connection) as verbs:
        return await verbs.edit(EVE, dlq_id, payload, reason=WHY, catalogue=catalogue)


async def sent_often(connection: asyncpg.Connection) -> bool:
    return bool(await connection.fetchval("SELECT min(sends) >= 3 FROM surefoot.dlq_job_items"))
