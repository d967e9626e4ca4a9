"""A pause that comes while the database is being read counts, and loses nothing."""

import asyncio
from datetime import timedelta
from typing import Any

from surefoot.log.postgres.publisher import PostgresPublisher
from surefoot.log.postgres.subscription import PostgresSubscription
from tests.integration.postgres_log.conftest import WHERE
from tests.support.event_log.members import plain
from tests.support.waiting import eventually


async def test_records_read_before_a_pause_and_found_after_it_come_when_it_ends(
    publisher: PostgresPublisher, subscription: PostgresSubscription, connection: Any
) -> None:
    await subscription.poll(timeout=timedelta(0))
    await publisher.publish(WHERE, plain(b"0"))

    async def read_waits() -> bool:
        waits = "SELECT count(*) FROM pg_locks WHERE relation = 'surefoot.log_records'::regclass AND NOT granted"
        return bool(await connection.fetchval(waits))

    async with connection.transaction():
        await connection.execute("LOCK TABLE surefoot.log_records IN ACCESS EXCLUSIVE MODE")
        polling = asyncio.create_task(subscription.poll(timeout=timedelta(0)))
        await eventually(read_waits, what="the poll has asked and waits for the answer")
        subscription.pause([WHERE])
    assert await polling == {}

    subscription.resume([WHERE])
    found = await subscription.poll()
    assert [record.value for record in found[WHERE]] == [b"0"]
