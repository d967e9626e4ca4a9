"""A relay dies, or freezes past its lease, at each step of its round.

Nothing is lost, order holds, stale writes are refused.
"""

import signal

import asyncpg
import pytest

from surefoot.log.kafka.log import KafkaLog
from surefoot.testing.checkers import check_all, stale_write
from tests.crash.conftest import StartRelay
from tests.support.relay import journal as ground
from tests.support.relay.processes import RelayProcess, as_seen, read_all
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

STEPS = {
    "claimed": "relay.claimed",
    "sent, not acknowledged": "log.sent",
    "acknowledged, not marked": "relay.acknowledged",
    "marked, not committed": "relay.marked",
    "committed": "relay.committed",
}


async def write_some(connection: asyncpg.Connection, number: int) -> None:
    for round_ in range(number):
        keys = [f"key-{(round_ * 7 + n) % 13}" for n in range(5)]
        await ground.write(connection, *keys)
        await ground.roll_back(connection, keys)


async def expect_all_well(connection: asyncpg.Connection, log: KafkaLog, topic: str) -> None:
    await eventually(lambda: ground.all_published(connection), what="every row is PUBLISHED")
    assert check_all(await ground.committed(connection), as_seen(await read_all(log, topic))) == []
    assert stale_write(await ground.marks(connection)) == []


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.promise("P1", "P3")
async def test_killed_at(
    step: str, start: StartRelay, connection: asyncpg.Connection, log: KafkaLog, topic: str
) -> None:
    await write_some(connection, 20)
    victim = await start(failpoints=f"{STEPS[step]}=kill@2")
    assert await victim.ended() == -signal.SIGKILL
    await write_some(connection, 20)
    await start()
    await expect_all_well(connection, log, topic)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.promise("P1", "P3")
async def test_frozen_past_its_lease_at(
    step: str, start: StartRelay, connection: asyncpg.Connection, log: KafkaLog, topic: str
) -> None:
    await write_some(connection, 20)
    frozen = await start(failpoints=f"{STEPS[step]}=stop@2")
    await frozen.stopped()
    await write_some(connection, 20)
    other = await start()
    await eventually(lambda: owns_everything(connection, other), what="the other relay owns every shard")
    await eventually(lambda: ground.all_published(connection), what="every row is PUBLISHED")

    frozen.signal(signal.SIGCONT)
    await eventually(lambda: shares(connection), what="the woken relay has joined again")
    await write_some(connection, 20)
    await expect_all_well(connection, log, topic)
    assert frozen.process.returncode is None


async def test_a_frozen_owners_write_is_refused_while_the_new_owner_has_the_rows_in_hand(
    start: StartRelay, connection: asyncpg.Connection, log: KafkaLog, topic: str
) -> None:
    await freeze_one_and_let_another_claim(start, connection)
    assert stale_write(await ground.marks(connection)) == []


@pytest.mark.mutation
async def test_without_the_fence_that_write_is_noticed(
    start: StartRelay, connection: asyncpg.Connection, log: KafkaLog, topic: str
) -> None:
    await freeze_one_and_let_another_claim(start, connection, weakened="fence")
    violations = {finding.violation for finding in stale_write(await ground.marks(connection))}
    assert violations == {"stale_write"}


async def freeze_one_and_let_another_claim(
    start: StartRelay, connection: asyncpg.Connection, weakened: str = ""
) -> None:
    """The first relay freezes when its records are acknowledged; a second takes over and freezes with the same rows in
    hand; then the first wakes and wants to mark them."""
    await ground.write(connection, "key")
    first = await start(failpoints="relay.acknowledged=stop", weakened=weakened)
    await first.stopped()
    second = await start(failpoints="relay.claimed=stop")
    await second.stopped()
    first.signal(signal.SIGCONT)
    await eventually(lambda: has_tried_to_mark(first, connection), what="the first relay has tried to mark")


async def has_tried_to_mark(relay: RelayProcess, connection: asyncpg.Connection) -> bool:
    return "lost a shard" in relay.log.read_text() or bool(await ground.marks(connection))


async def owns_everything(connection: asyncpg.Connection, relay: RelayProcess) -> bool:
    rows = await connection.fetch(
        "SELECT DISTINCT owner FROM surefoot.leases WHERE scope = 'outbox' AND lease_until > now()"
    )
    owners = [row["owner"] for row in rows]
    return len(owners) == 1 and f"-{relay.pid}-" in owners[0]


async def shares(connection: asyncpg.Connection) -> bool:
    count = await connection.fetchval(
        "SELECT count(DISTINCT owner) FROM surefoot.leases WHERE scope = 'outbox' AND lease_until > now()"
    )
    return bool(count == 2)
