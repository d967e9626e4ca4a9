"""How the Postgres log writes: offsets in the order they become visible, all or nothing."""

import asyncio
import os
import subprocess
import sys
from datetime import timedelta
from typing import Any

from surefoot.log.port import Record, Refused, TopicPartition
from surefoot.log.postgres import PostgresLog
from surefoot.log.postgres_publisher import PostgresPublisher
from tests.support.event_log.members import plain

WHERE = TopicPartition("things", 0)


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
