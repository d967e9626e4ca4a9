"""How the Postgres log writes: offsets in the order they become visible, all or nothing."""

import asyncio
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from surefoot import failpoints
from surefoot.log.port import Acknowledged, Record, Refused, TopicPartition
from surefoot.log.postgres.log import PostgresLog
from surefoot.log.postgres.publisher import PostgresPublisher
from tests.support.event_log.members import plain
from tests.support.relay.processes import start_process

WHERE = TopicPartition("things", 0)
WRITER = "tests.support.event_log.writer_process"
STRIKES = "log.sent=%s@2"
VALUES = "SELECT array_agg(value ORDER BY log_offset) FROM surefoot.log_records"
OFFSETS = "SELECT array_agg(log_offset ORDER BY log_offset) FROM surefoot.log_records"


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
    log: PostgresLog, database_url: str, connection: Any, tmp_path: Path
) -> None:
    killed = await start_process(
        [WRITER, database_url], tmp_path / "writer.log", {failpoints.VARIABLE: STRIKES % "kill"}
    )
    assert await killed.ended() == -signal.SIGKILL, killed.log.read_text()
    assert killed.log.read_text() == "stored\n"
    assert await connection.fetchval(VALUES) == [b"0"]
    assert (await log.end_offsets("things"))[WHERE] == 1


@pytest.mark.slow
async def test_a_writer_that_freezes_before_it_commits_leaves_no_gap_and_writes_behind_the_others_when_it_wakes(
    log: PostgresLog, publisher: PostgresPublisher, database_url: str, connection: Any, tmp_path: Path
) -> None:
    """It has drawn an offset: the other writer waits until the server has ended its transaction."""
    frozen = await start_process(
        [WRITER, database_url], tmp_path / "writer.log", {failpoints.VARIABLE: STRIKES % "stop"}
    )
    try:
        await frozen.stopped()
        assert await publisher.publish(WHERE, plain(b"2")) == Acknowledged(1)
        frozen.signal(signal.SIGCONT)
        assert await frozen.ended() == 0, frozen.log.read_text()
    finally:
        frozen.signal(signal.SIGKILL)
    said = frozen.log.read_text().splitlines()
    assert (said[0], set(said[1:-1]), said[-1]) == ("stored", {"away"}, "stored")
    assert await connection.fetchval(VALUES) == [b"0", b"2", b"1"]
    assert await connection.fetchval(OFFSETS) == [0, 1, 2]
    assert (await log.end_offsets("things"))[WHERE] == 3
