"""Broker or database away under load: no row FAILED, no attempt burnt, relays still alive, backlog drained
afterwards.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from surefoot.database.embedded import EmbeddedPostgres
from surefoot.database.migrate import migrate
from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.testing.checkers import check_all
from surefoot.testing.kafka import LocalKafka
from tests.support.event_types import things_on
from tests.support.postgres_servers import postgres
from tests.support.relay import journal as ground
from tests.support.relay.processes import RelayProcess, as_seen, read_all, spec, start_relay
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.crowd]

OUTAGE_S = 20


@pytest.fixture(scope="module")
def own_broker() -> Iterator[LocalKafka]:
    """A broker of these tests' own: the shared one must not be stopped."""
    with LocalKafka() as broker:
        broker.start()
        yield broker


@pytest.fixture
def own_postgres() -> Iterator[EmbeddedPostgres]:
    with postgres(track_commit_timestamp="on") as server:
        yield server


@pytest.fixture
async def topic(own_broker: LocalKafka, topic_name: str) -> AsyncIterator[str]:
    log = KafkaLog(KafkaSettings(bootstrap_servers=own_broker.address))
    await log.create([spec(topic_name)])
    await log.close()
    with things_on(topic_name):
        yield topic_name


@pytest.fixture
async def relays(
    own_postgres: EmbeddedPostgres, own_broker: LocalKafka, tmp_path: Path
) -> AsyncIterator[list[RelayProcess]]:
    await migrate(own_postgres.url)
    started = [
        await start_relay(own_postgres.url, own_broker.address, tmp_path / f"relay-{number}.log") for number in range(2)
    ]
    # An outage comes upon relays at work: one that cannot reach its database when it starts says so and ends.
    await eventually(lambda: both_at_work(own_postgres.url), what="both relays own shards")
    yield started
    for relay in started:
        relay.signal(signal.SIGTERM)
    assert [await relay.ended() for relay in started] == [0, 0]


async def both_at_work(url: str) -> bool:
    connection = await asyncpg.connect(url)
    owners = await connection.fetchval("SELECT count(DISTINCT owner) FROM surefoot.leases WHERE scope = 'outbox'")
    await connection.close()
    return bool(owners == 2)


async def no_row_suffered(connection: asyncpg.Connection) -> None:
    assert await connection.fetchval("SELECT count(*) FROM surefoot.outbox_events WHERE status = 'FAILED'") == 0
    assert await connection.fetchval("SELECT max(attempts) FROM surefoot.outbox_events") == 0


async def expect_all_well(
    connection: asyncpg.Connection, broker: LocalKafka, relays: list[RelayProcess], topic: str
) -> None:
    await eventually(lambda: ground.all_published(connection), what="the backlog is drained")
    await no_row_suffered(connection)
    assert [relay.process.returncode for relay in relays] == [None, None]
    log = KafkaLog(KafkaSettings(bootstrap_servers=broker.address))
    seen = as_seen(await read_all(log, topic))
    await log.close()
    assert check_all(await ground.committed(connection), seen) == []


@pytest.mark.parametrize("how", ["stopped", "frozen"])
@pytest.mark.promise("P1", "P6b")
async def test_the_broker_is_away_for_twenty_seconds(
    how: str, own_postgres: EmbeddedPostgres, own_broker: LocalKafka, relays: list[RelayProcess], topic: str
) -> None:
    connection = await asyncpg.connect(own_postgres.url)
    await ground.lay(connection)
    writing = asyncio.create_task(ground.write_many(own_postgres.url, events=1500, keys=50, writers=4, seed=1))
    await eventually(lambda: some_published(connection), what="the first rows are PUBLISHED")
    own_broker.kill() if how == "stopped" else own_broker.freeze()
    await writing
    during = asyncio.create_task(ground.write_many(own_postgres.url, events=1500, keys=50, writers=4, seed=2))
    await _outage(connection)
    await during
    await asyncio.to_thread(own_broker.start if how == "stopped" else own_broker.thaw)
    await expect_all_well(connection, own_broker, relays, topic)
    await connection.close()


async def _outage(connection: asyncpg.Connection) -> None:
    """Let the outage last, and look again and again that no row suffers from it."""
    ends = asyncio.get_running_loop().time() + OUTAGE_S
    while asyncio.get_running_loop().time() < ends:
        await no_row_suffered(connection)
        await asyncio.sleep(0.5)


@pytest.mark.promise("P1", "P6b")
async def test_postgres_is_restarted_under_load(
    own_postgres: EmbeddedPostgres, own_broker: LocalKafka, relays: list[RelayProcess], topic: str
) -> None:
    connection = await asyncpg.connect(own_postgres.url)
    await ground.lay(connection)
    await ground.write_many(own_postgres.url, events=3000, keys=50, writers=4, seed=3)
    for immediate in (False, True):  # a clean restart, then a crash with recovery
        await connection.close()
        await asyncio.to_thread(own_postgres.stop, immediate=immediate)
        await asyncio.to_thread(own_postgres.start)
        connection = await asyncpg.connect(own_postgres.url)
        await ground.write_many(own_postgres.url, events=1500, keys=50, writers=4, seed=4)
    await expect_all_well(connection, own_broker, relays, topic)
    await connection.close()


async def some_published(connection: asyncpg.Connection) -> bool:
    return bool(
        await connection.fetchval("SELECT EXISTS (SELECT FROM surefoot.outbox_events WHERE status = 'PUBLISHED')")
    )
