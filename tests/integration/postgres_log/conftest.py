"""A Postgres log with one topic of two partitions, kept for an hour."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from surefoot.log.port import TopicPartition, TopicSpec
from surefoot.log.postgres.log import PostgresLog
from surefoot.log.postgres.publisher import PostgresPublisher
from surefoot.log.postgres.subscription import PostgresSubscription

WHERE = TopicPartition("things", 0)


@pytest.fixture
async def log(database_url: str) -> AsyncIterator[PostgresLog]:
    log = PostgresLog(database_url, lease=timedelta(seconds=3))
    await log.create([TopicSpec("things", 2, timedelta(hours=1), 100_000)])
    yield log
    await log.close()


@pytest.fixture
async def publisher(log: PostgresLog) -> AsyncIterator[PostgresPublisher]:
    publisher = await log.publisher()
    yield publisher
    await publisher.close()


@pytest.fixture
async def subscription(log: PostgresLog) -> AsyncIterator[PostgresSubscription]:
    subscription = await log.subscribe("group", ["things"])
    yield subscription
    await subscription.close()


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()
