"""Fixtures of the crash tests: a database with a journal, a topic of the test's own, relays that are ended in any
case.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest

from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.testing.kafka import Broker
from tests.support.event_types import things_on
from tests.support.processes import end
from tests.support.relay import journal as ground
from tests.support.relay.processes import RelayProcess, spec, start_relay

StartRelay = Callable[..., Awaitable[RelayProcess]]


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    await ground.lay(connection)
    yield connection
    await connection.close()


@pytest.fixture
async def log(kafka: Broker) -> AsyncIterator[KafkaLog]:
    log = KafkaLog(KafkaSettings(bootstrap_servers=kafka.address))
    yield log
    await log.close()


@pytest.fixture
async def topic(log: KafkaLog, topic_name: str) -> AsyncIterator[str]:
    await log.create([spec(topic_name)])
    with things_on(topic_name):
        yield topic_name


@pytest.fixture
async def start(database_url: str, kafka: Broker, tmp_path: Path) -> AsyncIterator[StartRelay]:
    """Starts relays; kills what is left of them at the end, by their own ids."""
    started: list[RelayProcess] = []

    async def start_one(**how: str) -> RelayProcess:
        relay = await start_relay(database_url, kafka.address, tmp_path / f"relay-{len(started)}.log", **how)  # type: ignore[arg-type]
        started.append(relay)
        return relay

    yield start_one
    await end(*(relay.process for relay in started))
