"""The single-event statement takes the key's lock before it draws the position.

Everything about order rests on that.
"""

import asyncio

import asyncpg
import pytest

from surefoot import outbox
from surefoot.events import new_event
from surefoot.log.port import key_hash
from surefoot.outbox.entry import entry_of
from surefoot.outbox.session import statement
from tests.support.event_types import ThingHappened
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

LOCK_CLASS, BUCKETS = 1937076838, 512


@pytest.mark.parametrize("events", [1, 3])
async def test_a_position_is_drawn_only_when_the_key_is_locked(database_url: str, events: int) -> None:
    holder, writer = await asyncpg.connect(database_url), await asyncpg.connect(database_url)
    sql, values = statement("surefoot", [entry_of(new_event(ThingHappened(thing_id="key"))) for _ in range(events)])
    async with holder.transaction():
        await holder.execute("SELECT pg_advisory_xact_lock($1, $2)", LOCK_CLASS, key_hash(b"key") % BUCKETS)
        writing = asyncio.create_task(writer.execute(sql, *values))
        await eventually(lambda: _waits(holder), what="the writer waits for the key")
        assert not writing.done()
        assert await _positions_drawn(holder) == 0
    await writing
    assert await _positions_drawn(holder) == events
    await holder.close()
    await writer.close()


async def test_different_keys_do_not_wait_for_each_other(database_url: str) -> None:
    holder, writer = await asyncpg.connect(database_url), await asyncpg.connect(database_url)
    async with holder.transaction():
        await holder.execute("SELECT pg_advisory_xact_lock($1, $2)", LOCK_CLASS, key_hash(b"one") % BUCKETS)
        async with outbox.transaction(writer) as tx:
            tx.add(ThingHappened(thing_id="two"))
        assert await _positions_drawn(holder) == 1
    await holder.close()
    await writer.close()


async def test_ten_thousand_keys_in_one_transaction_need_only_as_many_locks_as_there_are_buckets(
    database_url: str,
) -> None:
    connection = await asyncpg.connect(database_url)
    async with connection.transaction():
        entries = [entry_of(new_event(ThingHappened(thing_id=f"key-{n}"))) for n in range(10_000)]
        sql, values = statement("surefoot", entries)
        await connection.execute(sql, *values)
        locks = await connection.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
    assert locks == BUCKETS
    await connection.close()


async def _waits(connection: asyncpg.Connection) -> bool:
    return bool(await connection.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"))


async def _positions_drawn(connection: asyncpg.Connection) -> int:
    name = await connection.fetchval("SELECT pg_get_serial_sequence('surefoot.outbox_events', 'position')")
    row = await connection.fetchrow(f"SELECT last_value, is_called FROM {name}")
    assert row is not None
    return int(row["last_value"]) if row["is_called"] else 0
