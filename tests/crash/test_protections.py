"""Each protection, taken out: the named checker reports the named violation. With it in place, the same story ends
well.

(The fence has its own story in test_relay_crashes.py.)
"""

import asyncio
import json
from uuid import UUID

import asyncpg
import pytest

from surefoot.events import new_event
from surefoot.log.kafka.aiokafka_typed import new_admin
from surefoot.log.kafka.log import KafkaLog
from surefoot.outbox.entry import entry_of
from surefoot.outbox.session import statement
from surefoot.relay.operations import Operations
from surefoot.testing.checkers import check_all
from tests.crash.conftest import StartRelay
from tests.support.event_types import ThingHappened
from tests.support.evidence import removed
from tests.support.relay import journal as ground
from tests.support.relay.processes import as_seen, read_all, spec
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


class OpenTransaction:
    """A transaction whose commit the test decides about: the row is written (its position drawn), not yet committed."""

    def __init__(self, url: str, key: str, *, locked: bool = True) -> None:
        self._url = url
        self._locked = locked
        self._event = new_event(ThingHappened(thing_id=key))
        self._key = key

    async def write(self) -> None:
        self.connection = await asyncpg.connect(self._url)
        self.transaction = self.connection.transaction()
        await self.transaction.start()
        sql, values = statement("surefoot", [entry_of(self._event)])
        await self.connection.execute(self._weaken(sql), *values)
        await self.connection.execute("INSERT INTO journal VALUES ($1, $2, 0)", UUID(self._event.id), self._key)

    def _weaken(self, sql: str) -> str:
        """Without the lock, if this transaction is to do without it."""
        if self._locked:
            return sql
        without = sql.replace("pg_advisory_xact_lock(1937076838, $9::int % 512)", "$9::int")
        assert without != sql
        return without

    async def commit(self) -> None:
        await self.transaction.commit()
        await self.connection.close()


async def violations(connection: asyncpg.Connection, log: KafkaLog, topic: str) -> set[str]:
    found = check_all(await ground.committed(connection), as_seen(await read_all(log, topic)))
    return {finding.violation for finding in found}


async def in_log(log: KafkaLog, topic: str, count: int) -> bool:
    return sum((await log.end_offsets(topic)).values()) >= count


async def somebody_waits(connection: asyncpg.Connection) -> bool:
    return bool(await connection.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"))


@pytest.mark.mutation
async def test_without_the_key_lock_two_overlapping_transactions_of_a_key_are_published_out_of_order(
    database_url: str, start: StartRelay, connection: asyncpg.Connection, log: KafkaLog, topic: str
) -> None:
    removed("outbox.key_lock")
    first, second = (
        OpenTransaction(database_url, "key", locked=False),
        OpenTransaction(database_url, "key", locked=False),
    )
    await first.write()
    await second.write()
    await second.commit()
    await first.commit()
    await start()
    await eventually(lambda: ground.all_published(connection), what="both rows are PUBLISHED")
    assert await violations(connection, log, topic) == {"out_of_order"}


async def test_with_it_the_second_waits_for_the_first(
    database_url: str, start: StartRelay, connection: asyncpg.Connection, log: KafkaLog, topic: str
) -> None:
    first, second = OpenTransaction(database_url, "key"), OpenTransaction(database_url, "key")
    await first.write()
    waiting = asyncio.create_task(second.write())
    await eventually(lambda: somebody_waits(connection), what="the second transaction waits for the key")
    assert not waiting.done()
    await first.commit()
    await waiting
    await second.commit()
    await start()
    await eventually(lambda: ground.all_published(connection), what="both rows are PUBLISHED")
    assert await violations(connection, log, topic) == set()


@pytest.mark.parametrize(("weakened", "expected"), [("status_filter", {"lost"}), ("", set())])
async def test_a_row_that_becomes_visible_late_is_lost_only_to_a_reader_by_watermark(
    weakened: str,
    expected: set[str],
    database_url: str,
    start: StartRelay,
    connection: asyncpg.Connection,
    log: KafkaLog,
    topic: str,
) -> None:
    early, late = OpenTransaction(database_url, "slow"), OpenTransaction(database_url, "quick")
    await early.write()  # draws the lower position …
    await late.write()
    await late.commit()
    await start(weakened=weakened)
    await eventually(lambda: in_log(log, topic, 1), what="the later row is in the log")
    await early.commit()  # … and shows it when the higher one is out already
    await ground.write(connection, "afterwards")
    await eventually(lambda: in_log(log, topic, 2 if weakened else 3), what="what came afterwards is in the log")
    assert await violations(connection, log, topic) == expected


@pytest.mark.parametrize(("weakened", "expected"), [("one_batch_in_flight", {"out_of_order"}), ("", set())])
async def test_a_refused_record_is_overtaken_only_when_more_than_one_batch_is_in_flight(
    weakened: str,
    expected: set[str],
    start: StartRelay,
    connection: asyncpg.Connection,
    log: KafkaLog,
    topic_name: str,
    topic: str,
) -> None:
    small = f"{topic_name}.small"
    await log.create([spec(small, max_record_bytes=2000)])
    await ground.write(connection, "key")
    await ground.write(connection, "key")
    # The first of the two is larger than the topic takes; it was inserted past the library.
    await connection.execute("UPDATE surefoot.outbox_events SET topic = $1", small)
    await connection.execute(
        "UPDATE surefoot.outbox_events SET body = $1 "
        "WHERE position = (SELECT min(position) FROM surefoot.outbox_events)",
        json.dumps({"thing_id": "key", "note": "x" * 4000}).encode(),
    )
    await start(weakened=weakened)
    await eventually(lambda: one_failed(connection), what="the first row is FAILED")
    await raise_limit(log, small)
    assert await Operations(connection, "surefoot").retry(None, topic=None, decision="the limit was raised") == 1
    await eventually(lambda: ground.all_published(connection), what="both rows are PUBLISHED")
    assert await violations(connection, log, small) == expected


async def one_failed(connection: asyncpg.Connection) -> bool:
    return bool(await connection.fetchval("SELECT count(*) FROM surefoot.outbox_events WHERE status = 'FAILED'") == 1)


async def raise_limit(log: KafkaLog, topic: str) -> None:
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    admin = new_admin(log.settings)
    await admin.start()
    limit = {"max.message.bytes": "1000000", "retention.ms": "86400000"}
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, limit)])  # type: ignore[attr-defined]
    await admin.close()
