"""Broker, service and orchestrator are away for many times a step's timeout, with sagas under way: none is given up for
it, and all complete afterwards.

Time is compressed: steps time out after a second, so that the outage of ten minutes is one of eight seconds here, and
longer with SUREFOOT_SOAK.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.testing.kafka import LocalKafka
from tests.support.saga import crash_harness as saga_ground
from tests.support.saga.crash_harness import Ground

pytest_plugins = ["tests.support.saga.crash_fixtures"]
pytestmark = [pytest.mark.kafka, pytest.mark.crowd, pytest.mark.timeout(900)]

AWAY_S = 120.0 if os.environ.get("SUREFOOT_SOAK") else 8.0
SAGAS = 30
STEPS = 4
TIMEOUT_S = 1.0


@pytest.fixture
async def own_stage(own_broker: LocalKafka, database_url: str, tmp_path: Path) -> AsyncIterator[Ground]:
    log = KafkaLog(KafkaSettings(bootstrap_servers=own_broker.address))
    async with saga_ground.laid(database_url, log, own_broker.address, tmp_path) as ground:
        ground.service.pace_s = 0.03
        yield ground


@pytest.mark.promise("P6c")
async def test_no_outage_gives_up_a_saga(own_stage: Ground, own_broker: LocalKafka) -> None:
    ground = own_stage
    first = await ground.start(timeout_s=TIMEOUT_S)

    await put_under_way(ground, "broker")
    own_broker.kill()
    await lasts(ground)
    await asyncio.to_thread(own_broker.start)
    await all_complete(ground, 1)

    await put_under_way(ground, "service")
    await ground.service_goes()
    await lasts(ground)
    await ground.service_comes()
    await all_complete(ground, 2)

    await put_under_way(ground, "orchestrator")
    first.signal(signal.SIGKILL)
    assert await first.ended() == -signal.SIGKILL
    await lasts(ground)
    await ground.start(timeout_s=TIMEOUT_S)
    await all_complete(ground, 3)


@pytest.mark.promise("P6c")
async def test_an_orchestrator_that_was_frozen_alone_gives_up_no_saga(postgres_stage: Ground) -> None:
    """It wakes up with every clock run out and every reply unread."""
    ground = postgres_stage
    ground.service.pace_s = 0.03
    frozen = await ground.start(timeout_s=TIMEOUT_S)
    await put_under_way(ground, "frozen")
    frozen.signal(signal.SIGSTOP)
    await frozen.stopped()
    await lasts(ground, AWAY_S / 2)
    frozen.signal(signal.SIGCONT)
    await all_complete(ground, 1)


async def put_under_way(ground: Ground, name: str) -> None:
    """Some have done nothing yet, some are about to end."""
    before = await ground.effect_count()
    await ground.request(*(f"{name}-{n}" for n in range(SAGAS)))
    await ground.become_done(before + SAGAS)


async def lasts(ground: Ground, seconds: float = AWAY_S) -> None:
    statuses = list((await ground.statuses()).values())
    assert "RUNNING" in statuses or len(statuses) % SAGAS  # something is under way, or even to begin
    ends = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < ends:
        assert await ground.cancelled() == []
        await asyncio.sleep(0.2)  # an outage lasts


async def all_complete(ground: Ground, times: int) -> None:
    await ground.have_ended(times * SAGAS)
    assert set((await ground.statuses()).values()) == {"COMPLETED"}
    assert await ground.findings() == []
    assert await ground.effect_count() == times * SAGAS * STEPS
