"""What is particular to the Postgres log: fences, retention, sleep and notification, and a database that goes away."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from surefoot.database.embedded import EmbeddedPostgres
from surefoot.database.migrate import migrate
from surefoot.errors import LeaseLost, LogUnavailable, SchemaOutdated
from surefoot.log.port import Acknowledged, Record, Refused, TopicPartition, TopicSpec
from surefoot.log.postgres import PostgresLog
from surefoot.log.postgres_publisher import PostgresPublisher
from surefoot.log.postgres_records import RecordsGone
from surefoot.log.postgres_subscription import PostgresSubscription
from tests.waiting import eventually

WHERE = TopicPartition("things", 0)
HOUR = timedelta(hours=1)


def plain(*values: bytes) -> list[Record]:
    return [Record(b"key", value, []) for value in values]


@pytest.fixture
async def log(database_url: str) -> AsyncIterator[PostgresLog]:
    log = PostgresLog(database_url, lease=timedelta(seconds=3))
    await log.create([TopicSpec("things", 2, HOUR, 100_000)])
    yield log
    await log.close()


@pytest.fixture
async def publisher(log: PostgresLog) -> AsyncIterator[PostgresPublisher]:
    publisher = await log.publisher()
    yield publisher
    await publisher.close()


@pytest.fixture
async def subscription(log: PostgresLog) -> AsyncIterator[PostgresSubscription]:
    subscription = await log.subscribe("group", ["things"])
    yield subscription
    await subscription.close()


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


class TestFences:
    @pytest.mark.parametrize("change", ["owner = 'another'", "fence = fence + 2"])
    async def test_an_owner_that_was_replaced_unawares_stores_nothing(
        self, publisher: PostgresPublisher, subscription: PostgresSubscription, connection: Any, change: str
    ) -> None:
        await publisher.publish(WHERE, plain(b"0"))
        await subscription.poll()
        await connection.execute(f"UPDATE surefoot.leases SET {change} WHERE unit = 0")

        with pytest.raises(LeaseLost, match="things/0"):
            await subscription.commit({WHERE: 1, TopicPartition("things", 1): 0})

        assert await connection.fetchval("SELECT count(*) FROM surefoot.log_offsets") == 0

    async def test_a_lost_lease_stops_the_partition_being_delivered(
        self, log: PostgresLog, publisher: PostgresPublisher, connection: Any
    ) -> None:
        revoked: list[frozenset[TopicPartition]] = []
        told = asyncio.Event()

        async def on_revoked(partitions: frozenset[TopicPartition]) -> None:
            revoked.append(partitions)
            told.set()

        subscription = await log.subscribe("group", ["things"], on_revoked=on_revoked)
        try:
            await subscription.poll(timeout=timedelta(0))
            assert subscription.assigned() == {WHERE, TopicPartition("things", 1)}
            await connection.execute(
                "UPDATE surefoot.leases SET owner = 'another', fence = fence + 1, "
                "lease_until = now() + interval '1 hour' WHERE unit = 0"
            )
            async with asyncio.timeout(10):
                await told.wait()
            await publisher.publish(WHERE, plain(b"not for us"))
            await publisher.publish(TopicPartition("things", 1), plain(b"for us"))

            found = await subscription.poll(timeout=timedelta(seconds=5))

            assert revoked == [frozenset({WHERE})]
            assert list(found) == [TopicPartition("things", 1)]
        finally:
            await subscription.close()

    async def test_a_partition_lost_and_won_again_is_announced_again(
        self, log: PostgresLog, publisher: PostgresPublisher, connection: Any
    ) -> None:
        told: list[tuple[str, int]] = []

        async def on_assigned(partitions: frozenset[TopicPartition]) -> None:
            told.extend(("assigned", one.partition) for one in sorted(partitions))

        async def on_revoked(partitions: frozenset[TopicPartition]) -> None:
            told.extend(("revoked", one.partition) for one in sorted(partitions))

        await publisher.publish(WHERE, plain(b"0", b"1"))
        subscription = await log.subscribe("group", ["things"], on_assigned=on_assigned, on_revoked=on_revoked)
        try:
            await subscription.poll()
            await subscription.commit({WHERE: 1})
            # As if another member had come and gone while we were frozen: ours again, under a higher fence.
            await connection.execute("UPDATE surefoot.leases SET fence = fence + 2 WHERE unit = 0")

            async def again() -> Any:
                found = await subscription.poll(timeout=timedelta(milliseconds=100))
                return [record.value for record in found.get(WHERE, [])]

            assert await eventually(again, what="the uncommitted record comes again") == [b"1"]
            await subscription.commit({WHERE: 2})
        finally:
            await subscription.close()
        assert told[:4] == [("assigned", 0), ("assigned", 1), ("revoked", 0), ("assigned", 0)]

    async def test_a_surplus_partition_is_given_up_only_after_on_revoked_has_ended(
        self, log: PostgresLog, connection: Any
    ) -> None:
        started, may_end = asyncio.Event(), asyncio.Event()

        async def on_revoked(_: frozenset[TopicPartition]) -> None:
            started.set()
            await may_end.wait()

        first = await log.subscribe("group", ["things"], on_revoked=on_revoked)
        try:
            await first.poll(timeout=timedelta(0))
            second = await log.subscribe("group", ["things"])
            try:
                async with asyncio.timeout(10):
                    await started.wait()
                owners = await connection.fetchval("SELECT count(DISTINCT owner) FROM surefoot.leases")
                assert owners == 1

                may_end.set()

                async def shared() -> bool:
                    await second.poll(timeout=timedelta(milliseconds=50))
                    return len(second.assigned()) == 1

                await eventually(shared, what="the second member has its share")
                assert len(first.assigned()) == 1
            finally:
                await second.close()
        finally:
            may_end.set()
            await first.close()

    async def test_a_member_that_died_is_replaced_when_its_lease_has_run_out(
        self, log: PostgresLog, subscription: PostgresSubscription, connection: Any
    ) -> None:
        await subscription.poll(timeout=timedelta(0))
        await connection.execute("""
            UPDATE surefoot.leases SET owner = 'dead', fence = fence + 1, lease_until = now() + interval '1 second'""")
        await connection.execute("DELETE FROM surefoot.lease_members")

        async def all_ours() -> bool:
            await subscription.poll(timeout=timedelta(milliseconds=100))
            owners = await connection.fetch("SELECT owner FROM surefoot.leases WHERE owner <> 'dead'")
            return len(owners) == 2 and len(subscription.assigned()) == 2

        await eventually(all_ours, what="both partitions taken over")


class TestRetention:
    async def age(self, connection: Any, up_to: int, by: str = "2 hours") -> None:
        await connection.execute(
            f"UPDATE surefoot.log_records SET stored_at = stored_at - interval '{by}' WHERE log_offset < $1", up_to
        )

    async def test_what_is_past_retention_is_removed_and_nothing_else(
        self, log: PostgresLog, publisher: PostgresPublisher, connection: Any
    ) -> None:
        await publisher.publish(WHERE, plain(b"0", b"1", b"2"))
        await self.age(connection, up_to=2)

        assert await log.expire() == 2
        assert await log.expire() == 0

        assert await connection.fetchval("SELECT array_agg(value) FROM surefoot.log_records") == [b"2"]
        first = await connection.fetchval("SELECT first_offset FROM surefoot.log_partitions WHERE partition = 0")
        assert first == 2

    async def test_much_is_removed_in_batches(
        self, log: PostgresLog, publisher: PostgresPublisher, connection: Any
    ) -> None:
        await publisher.publish(WHERE, plain(*[b"x"] * 12_000))
        await self.age(connection, up_to=11_500)

        assert await log.expire() == 11_500
        assert await connection.fetchval("SELECT count(*) FROM surefoot.log_records") == 500

    async def test_offsets_go_on_when_everything_was_removed(
        self, log: PostgresLog, publisher: PostgresPublisher, connection: Any
    ) -> None:
        await publisher.publish(WHERE, plain(b"0", b"1"))
        await self.age(connection, up_to=2)
        assert await log.expire() == 2

        await publisher.publish(WHERE, plain(b"2"))

        assert (await log.end_offsets("things"))[WHERE] == 3

    async def test_a_group_that_missed_removed_records_is_told_which(
        self, log: PostgresLog, publisher: PostgresPublisher, subscription: PostgresSubscription, connection: Any
    ) -> None:
        await publisher.publish(WHERE, plain(b"0", b"1", b"2", b"3"))
        await subscription.poll()
        await subscription.commit({WHERE: 1})
        await subscription.seek(WHERE, 1)
        await self.age(connection, up_to=3)
        await log.expire()

        with pytest.raises(RecordsGone, match="Offsets 1 to 2 of things/0 are gone") as raised:
            await subscription.poll()

        await subscription.seek(WHERE, raised.value.first)
        found = await subscription.poll()
        assert [record.value for record in found[WHERE]] == [b"3"]

    async def test_a_new_group_starts_at_the_oldest_that_is_kept(
        self, log: PostgresLog, publisher: PostgresPublisher, connection: Any
    ) -> None:
        await publisher.publish(WHERE, plain(b"0", b"1"))
        await self.age(connection, up_to=1)
        await log.expire()
        late = await log.subscribe("late", ["things"])
        try:
            found = await late.poll()
        finally:
            await late.close()

        assert [record.value for record in found[WHERE]] == [b"1"]


class TestSleep:
    @pytest.fixture
    async def heard(self, database_url: str) -> AsyncIterator[list[str]]:
        """The notifications that writers send."""
        heard: list[str] = []
        listener = await asyncpg.connect(database_url)
        await listener.add_listener("surefoot_log", lambda *said: heard.append(said[3]))
        yield heard
        await listener.close()

    async def test_writers_notify_nobody_while_nobody_sleeps(
        self, publisher: PostgresPublisher, heard: list[str], connection: Any
    ) -> None:
        await publisher.publish(WHERE, plain(b"0"))
        await connection.execute("SELECT pg_notify('surefoot_log', 'end of test')")

        async def ended() -> bool:
            return "end of test" in heard

        await eventually(ended, what="the last notification")
        assert heard == ["end of test"]

    async def test_a_sleeping_reader_is_woken_long_before_its_next_look(
        self, database_url: str, publisher: PostgresPublisher, heard: list[str], connection: Any
    ) -> None:
        patient = PostgresLog(database_url, max_poll_interval=timedelta(minutes=5))
        subscription = await patient.subscribe("group", ["things"])
        try:
            reading = asyncio.create_task(subscription.poll(timeout=timedelta(minutes=5)))

            async def asleep() -> bool:
                return bool(await connection.fetchval("SELECT bool_and(asleep) FROM surefoot.lease_members"))

            await eventually(asleep, what="the reader sleeps")
            await publisher.publish(WHERE, plain(b"wake up"))
            async with asyncio.timeout(10):
                found = await reading

            assert [record.value for record in found[WHERE]] == [b"wake up"]
            assert "" in heard
            assert not await asleep()
        finally:
            await subscription.close()
            await patient.close()


class TestOutage:
    @pytest.fixture
    def server(self) -> Iterator[EmbeddedPostgres]:
        """A server of this test's own, to be mistreated."""
        directory = Path(tempfile.mkdtemp(prefix="surefoot-postgres-"))
        directory.chmod(0o755)
        server = EmbeddedPostgres(directory)
        server.start()
        yield server
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)

    async def test_a_crash_of_the_server_is_survived_by_writer_and_reader(self, server: EmbeddedPostgres) -> None:
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

    async def test_a_database_without_tables_says_what_to_do(self, empty_database_url: str) -> None:
        log = PostgresLog(empty_database_url)
        try:
            with pytest.raises(SchemaOutdated, match="surefoot migrate"):
                await log.describe(["things"])
        finally:
            await log.close()


async def test_a_header_name_that_postgres_cannot_store_is_the_records_own_fault(publisher: PostgresPublisher) -> None:
    records = [*plain(b"0"), Record(b"k", b"1", [("a\0b", b"x")])]

    outcome = await publisher.publish(WHERE, records)

    assert isinstance(outcome, Refused)
    assert (outcome.index, outcome.reason) == (1, "rejected")


async def test_offsets_become_visible_in_order_however_many_write(log: PostgresLog, database_url: str) -> None:
    logs = [PostgresLog(database_url) for _ in range(4)]
    publishers = [await one.publisher() for one in logs]
    reader = await log.read("things", {WHERE: 0})
    offsets: list[int] = []

    async def write(publisher: PostgresPublisher) -> None:
        for n in range(50):
            await publisher.publish(WHERE, plain(*[b"x"] * (n % 7 + 1)))

    async def watch(total: int) -> None:
        while len(offsets) < total:
            found = await reader.poll(timeout=timedelta(milliseconds=50))
            offsets.extend(record.offset for record in found.get(WHERE, []))

    total = 4 * sum(n % 7 + 1 for n in range(50))
    try:
        async with asyncio.timeout(60):
            await asyncio.gather(watch(total), *(write(publisher) for publisher in publishers))
    finally:
        await reader.close()
        for publisher, one in zip(publishers, logs, strict=True):
            await publisher.close()
            await one.close()

    assert offsets == list(range(total))


async def test_the_failpoint_strikes_between_storing_and_committing(
    log: PostgresLog, database_url: str, connection: Any
) -> None:
    script = f"""
import asyncio
from surefoot.log.postgres import PostgresLog
from surefoot.log.port import Record, TopicPartition

async def main():
    publisher = await PostgresLog("{database_url}").publisher()
    for value in (b"0", b"1"):
        print((await publisher.publish(TopicPartition("things", 0), [Record(b"k", value, [])])).count, flush=True)

asyncio.run(main())
"""
    environment = {**os.environ, "SUREFOOT_FAILPOINTS": "log.sent=kill@2"}
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == -9, done.stderr
    assert done.stdout == "1\n"
    assert await connection.fetchval("SELECT array_agg(value) FROM surefoot.log_records") == [b"0"]
    assert (await log.end_offsets("things"))[WHERE] == 1
