"""Many writers, many relays, relays killed at random: every event on the topic, each key in commit order."""

import asyncio
import os
import random
import signal

import asyncpg
import pytest

from surefoot.log.kafka.log import KafkaLog
from surefoot.testing.checkers import check_all, stale_write
from tests.crash.conftest import StartRelay
from tests.support.relay import journal as ground
from tests.support.relay.processes import RelayProcess, as_seen, read_all
from tests.support.waiting import eventually

pytestmark = [pytest.mark.crowd, pytest.mark.promise("P1", "P3")]

EVENTS = 200_000 if os.environ.get("SUREFOOT_SOAK") else 20_000
KEYS, WRITERS, RELAYS = 500, 16, 4


async def test_order_holds_while_relays_are_killed_and_restarted(
    database_url: str, start: StartRelay, connection: asyncpg.Connection, log: KafkaLog, topic: str
) -> None:
    relays = [await start() for _ in range(RELAYS)]
    writing = asyncio.create_task(
        ground.write_many(database_url, events=EVENTS, keys=KEYS, writers=WRITERS, seed=EVENTS)
    )
    kills = await kill_at_random(start, relays, writing)
    await writing
    await eventually(lambda: ground.all_published(connection), what="every row is PUBLISHED")

    committed = await ground.committed(connection)
    seen = as_seen(await read_all(log, topic))
    assert len(committed) == EVENTS
    assert len({event.key for event in committed}) == KEYS
    assert kills >= 3
    assert check_all(committed, seen) == []
    assert stale_write(await ground.marks(connection)) == []


async def kill_at_random(start: StartRelay, relays: list[RelayProcess], writing: asyncio.Task[None]) -> int:
    """While there is writing, kill one relay after another, now and then, and start a new one in its place."""
    chance = random.Random(1)
    kills = 0
    while not writing.done() or kills < 3:
        await asyncio.wait({writing}, timeout=chance.uniform(0.5, 2))
        victim = relays.pop(chance.randrange(len(relays)))
        victim.signal(signal.SIGKILL)
        assert await victim.ended() == -signal.SIGKILL
        relays.append(await start())
        kills += 1
    return kills
