"""The dead-letter service as a whole: it goes on by itself after what it needs was away, and ends when told to."""

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import asyncpg
import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs
from structlog.typing import EventDict

from surefoot.audit.people import Person
from surefoot.database.embedded import EmbeddedPostgres
from surefoot.database.migrate import migrate
from surefoot.dlq.intake.intake import Intake
from surefoot.dlq.jobs.jobs import Jobs
from surefoot.dlq.jobs.request import Ids
from surefoot.dlq.runtime import DlqRuntime
from surefoot.errors import SchemaOutdated
from surefoot.log.postgres.log import PostgresLog
from surefoot.relay.runtime import Relay
from tests.support.consumer.controls import Mendable
from tests.support.consumer.effects import effects
from tests.support.consumer.processes import consumer_running, create_topics, publish
from tests.support.dlq.letters import count, letter_record, put, there_are
from tests.support.dlq.service import quick, running
from tests.support.event_types import ThingHappened
from tests.support.postgres_servers import postgres
from tests.support.proxy import Proxy
from tests.support.waiting import eventually

PARTS_ON_THE_LOG = {"dlq intake: the event log", "dlq outcomes: the event log"}


@pytest.fixture
def own_postgres() -> Iterator[EmbeddedPostgres]:
    """A server that this test may stop."""
    with postgres() as server:
        yield server


async def test_a_dead_event_is_found_replayed_and_its_end_is_heard(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, relay: Relay, shop: Mendable
) -> None:
    shop.broken.add(1)
    await publish(log, *(ThingHappened(thing_id="a", number=n) for n in (1, 2)))
    service = DlqRuntime(database_url, log, quick())
    async with consumer_running(shop.consumer, database_url, log), running(service):
        await there_are(connection, 1, "status = 'OPEN' AND held")
        await eventually(partial(counted_open, 1), what="the open letter is counted")
        shop.broken.clear()
        dead: str = await connection.fetchval("SELECT id::text FROM surefoot.dlq_events")
        async with connection.transaction():
            await Jobs(connection, "surefoot", quick()).replay(
                Person("ada", "OPERATOR"), Ids(frozenset([dead])), reason="it is mended"
            )
        await there_are(connection, 1, "status = 'REPLAYED'")

        async def both() -> bool:
            return await effects(connection) == [1, 2]

        await eventually(both, what="what waited behind it has had its effect")
        await eventually(lambda: has_ended(connection), what="the job has ended")
        await eventually(partial(counted_open, 0), what="no letter is counted any more")


async def test_it_stops_at_once_when_it_is_idle(database_url: str, log: PostgresLog, topic: str) -> None:
    async with asyncio.timeout(120):
        service = DlqRuntime(database_url, log, quick())
        run = asyncio.create_task(service.run())
        await taken_in(database_url, log, topic, "e-0", 1)
        began = time.monotonic()
        service.stop()
        await run
    assert time.monotonic() - began < 30


async def test_if_one_part_fails_for_good_all_of_it_ends_and_says_why(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await connection.execute("ALTER TABLE surefoot.dlq_jobs RENAME TO gone")
    async with asyncio.timeout(120):
        with pytest.raises(SchemaOutdated, match="surefoot migrate"):
            await DlqRuntime(database_url, log, quick()).run()


@pytest.mark.slow
async def test_it_goes_on_after_postgres_was_away_and_has_said_so_once(
    own_postgres: EmbeddedPostgres, topic_name: str
) -> None:
    await migrate(own_postgres.url)
    log = PostgresLog(own_postgres.url)
    await create_topics(log, topic_name, "dlq.outcomes")
    with capture_logs() as lines:
        async with running(DlqRuntime(own_postgres.url, log, quick())):
            await taken_in(own_postgres.url, log, topic_name, "e-0", 1)
            for n, immediate in enumerate((False, True), start=1):  # a clean restart, then a crash with recovery
                await asyncio.to_thread(own_postgres.stop, immediate=immediate)
                await eventually(partial(said, lines, "is away", PARTS_ON_THE_LOG, n), what="that it is away is said")
                await asyncio.to_thread(own_postgres.start)
                await taken_in(own_postgres.url, log, topic_name, f"e-{n}", n + 1)
                await eventually(partial(said, lines, "is back", PARTS_ON_THE_LOG, n), what="that it is back is said")
    await log.close()
    for part in PARTS_ON_THE_LOG:
        assert len(of(lines, f"{part} is away")) == 2
        assert len(of(lines, f"{part} is back")) == 2


@pytest.mark.slow
async def test_the_log_may_be_away_while_the_database_is_there(
    database_url: str, connection: asyncpg.Connection, own_postgres: EmbeddedPostgres, topic_name: str
) -> None:
    await migrate(own_postgres.url)
    log = PostgresLog(own_postgres.url)
    await create_topics(log, topic_name, "dlq.outcomes")
    with capture_logs() as lines:
        async with running(DlqRuntime(database_url, log, quick())):
            await put(log, topic_name + ".dlq", letter_record("e-1"))
            await there_are(connection, 1)
            await asyncio.to_thread(own_postgres.stop)
            await eventually(partial(said, lines, "is away", PARTS_ON_THE_LOG, 1), what="that it is away is said")
            await asyncio.to_thread(own_postgres.start)
            await put(log, topic_name + ".dlq", letter_record("e-2"))
            await there_are(connection, 2)
    await log.close()
    assert of(lines, "the database is away") == []


@pytest.mark.slow
async def test_what_was_read_while_the_database_was_away_is_kept_in_hand(
    database_url: str, own_postgres: EmbeddedPostgres, topic_name: str
) -> None:
    await migrate(own_postgres.url)
    log = PostgresLog(database_url)  # the log is there; the database of the letters is not
    await create_topics(log, topic_name, "dlq.outcomes")
    with capture_logs() as lines:
        async with running(DlqRuntime(own_postgres.url, log, quick())):
            await taken_in(own_postgres.url, log, topic_name, "e-0", 1)
            await asyncio.to_thread(own_postgres.stop)
            await put(log, topic_name + ".dlq", letter_record("e-1"), letter_record("e-2"))
            intake = {"dlq intake: the database"}
            await eventually(partial(said, lines, "is away", intake, 1), what="that it is away is said")
            await asyncio.to_thread(own_postgres.start)
            connection = await asyncpg.connect(own_postgres.url)
            await there_are(connection, 3)
            await connection.close()
    await log.close()
    assert len(of(lines, "dlq intake: the database is away")) == 1
    assert len(of(lines, "dlq intake: the database is back")) == 1


@pytest.mark.slow
async def test_it_stops_within_seconds_while_everything_is_away(
    own_postgres: EmbeddedPostgres, topic_name: str
) -> None:
    await migrate(own_postgres.url)
    log = PostgresLog(own_postgres.url)
    await create_topics(log, topic_name, "dlq.outcomes")
    service = DlqRuntime(own_postgres.url, log, quick())
    with capture_logs() as lines:
        run = asyncio.create_task(service.run())
        await taken_in(own_postgres.url, log, topic_name, "e-0", 1)
        await asyncio.to_thread(own_postgres.stop)
        await eventually(partial(said, lines, "is away", PARTS_ON_THE_LOG, 1), what="that it is away is said")
        service.stop()
        async with asyncio.timeout(10):
            await run
    await log.close()


@pytest.mark.slow
async def test_a_database_that_falls_silent_is_left_and_asked_anew(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("surefoot.dlq.subscriber.COMMAND_TIMEOUT", timedelta(seconds=1))
    async with Proxy(database_url) as proxy, running(Intake(proxy.url, log, quick())):
        await put(log, topic + ".dlq", letter_record("e-1"))
        await there_are(connection, 1)
        proxy.silence()
        await put(log, topic + ".dlq", letter_record("e-2"))
        await there_are(connection, 2)
    assert await count(connection, "deaths = 1") == 2


async def taken_in(url: str, log: PostgresLog, topic: str, event_id: str, many: int) -> None:
    await put(log, topic + ".dlq", letter_record(event_id))
    connection = await asyncpg.connect(url)
    await there_are(connection, many)
    assert await count(connection, "deaths = 1") == many
    await connection.close()


async def has_ended(connection: asyncpg.Connection) -> bool:
    return bool(await connection.fetchval("SELECT count(*) = 1 FROM surefoot.dlq_jobs WHERE status = 'DONE'"))


async def counted_open(many: int) -> bool:
    return REGISTRY.get_sample_value("surefoot_dlq_open", {"consumer": "warehouse"}) == many


def of(lines: list[EventDict], text: str) -> list[str]:
    return [line["event"] for line in lines if text in line["event"]]


async def said(lines: list[EventDict], what: str, parts: set[str], times: int) -> bool:
    return all(len(of(lines, f"{part} {what}")) >= times for part in parts)
