"""A database that goes away, and one that was never migrated."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from surefoot.database.embedded import EmbeddedPostgres
from surefoot.database.migrate import migrate
from surefoot.errors import LogUnavailable, SchemaOutdated
from surefoot.log.port import Acknowledged, TopicPartition, TopicSpec
from surefoot.log.postgres.log import PostgresLog
from tests.support.event_log.members import plain
from tests.support.postgres_servers import postgres
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

WHERE = TopicPartition("things", 0)
HOUR = timedelta(hours=1)


@pytest.fixture
def server() -> Iterator[EmbeddedPostgres]:
    """A server of this test's own, to be mistreated."""
    with postgres() as server:
        yield server


async def test_a_crash_of_the_server_is_survived_by_writer_and_reader(server: EmbeddedPostgres) -> None:
    await migrate(server.url)
    log = PostgresLog(server.url, lease=timedelta(seconds=3))
    await log.create([TopicSpec("things", 2, HOUR, 100_000)])
    publisher = await log.publisher()
    subscription = await log.subscribe("group", ["things"])
    try:
        await publisher.publish(WHERE, plain(b"before"))
        await subscription.poll()
        await asyncio.to_thread(server.stop, immediate=True)
        with pytest.raises(LogUnavailable, match="does not answer"):
            await publisher.publish(WHERE, plain(b"lost"))
        with pytest.raises(LogUnavailable):
            await subscription.poll()
        with pytest.raises(LogUnavailable):
            await subscription.commit({WHERE: 1})
        await asyncio.to_thread(server.start)

        assert await publisher.publish(WHERE, plain(b"after")) == Acknowledged(1)
        seen: list[bytes | None] = []

        async def after() -> bool:
            found = await subscription.poll(timeout=timedelta(milliseconds=100))
            seen.extend(record.value for record in found.get(WHERE, []))
            return seen == [b"after"]

        await eventually(after, what="the record written after the crash")
        await subscription.commit({WHERE: 2})
    finally:
        await subscription.close()
        await publisher.close()
        await log.close()


async def test_a_database_without_tables_says_what_to_do(empty_database_url: str) -> None:
    log = PostgresLog(empty_database_url)
    try:
        with pytest.raises(SchemaOutdated, match="surefoot migrate"):
            await log.describe(["things"])
    finally:
        await log.close()
