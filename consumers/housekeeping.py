"""What a member does beside consuming: forgets what is past its retention, and measures lag and what is parked.

What the inbox forgets can be handled twice. So it is kept for at least as long as it could come again: the retention of
the topics and of their dead letters, and the time in which a dead one may still be replayed.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from datetime import timedelta

import structlog
from sqlalchemy.exc import DBAPIError

from consumers.metrics import LAG, OLDEST_PARKED, PARKED_KEYS, REMOVED
from consumers.parked_statements import ParkedStatements
from consumers.settings import ConsumerSettings
from consumers.unit import Database
from surefoot.consumer import Consumer
from surefoot.database.connection import is_database_error
from surefoot.errors import LogUnavailable
from surefoot.log.port import EventLog, TopicPartition

log = structlog.get_logger("surefoot.consumer")
DELETE_ROWS = 2000


def retention_of(consumer: Consumer, settings: ConsumerSettings) -> timedelta:
    """How long handled events are remembered. Never less than correctness needs, whatever the setting says."""
    kept = [max(topic.retention, topic.dead_letters.retention) for topic in consumer.topics]
    return max(settings.retention, max(kept, default=timedelta(0)) + settings.replay_window)


async def keep_house(
    consumer: Consumer,
    database: Database,
    event_log: EventLog,
    settings: ConsumerSettings,
    next_offsets: Callable[[], Mapping[TopicPartition, int]],
    stopping: asyncio.Event,
) -> None:
    retention = retention_of(consumer, settings)
    while not stopping.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), settings.housekeeping.total_seconds())
        if stopping.is_set():
            return
        try:
            await _measure(consumer, database, event_log, settings, next_offsets())
            await _forget(consumer, database, retention, next_offsets(), stopping)
        except LogUnavailable:
            continue  # the polls tell of it
        except Exception as error:
            if not is_database_error(error) and not isinstance(error, DBAPIError):
                raise


async def _measure(
    consumer: Consumer,
    database: Database,
    event_log: EventLog,
    settings: ConsumerSettings,
    offsets: Mapping[TopicPartition, int],
) -> None:
    for topic in sorted({where.topic for where in offsets}):
        for where, end in (await event_log.end_offsets(topic)).items():
            if where in offsets:
                LAG.labels(consumer.name, topic, str(where.partition)).set(max(0, end - offsets[where]))
    async with database.driver() as driver:
        rows = await driver.fetch(ParkedStatements(settings.db_schema).stats, consumer.name)
    found = {row[0]: (row[1], row[2]) for row in rows}
    for one in consumer.topics:
        keys, age_s = found.get(one.name, (0, 0.0))
        PARKED_KEYS.labels(consumer.name, one.name).set(keys)
        OLDEST_PARKED.labels(consumer.name, one.name).set(age_s)


async def _forget(
    consumer: Consumer,
    database: Database,
    retention: timedelta,
    offsets: Mapping[TopicPartition, int],
    stopping: asyncio.Event,
) -> None:
    """Small deletes, each a transaction of its own, by the owner of the first partition alone."""
    first = TopicPartition(consumer.topics[0].name, 0)
    if first not in offsets:
        return
    for statement in (database.sql.expire, database.sql.expire_barriers):
        removed = DELETE_ROWS
        while removed == DELETE_ROWS and not stopping.is_set():
            async with database.driver() as driver:
                answer = await driver.execute(statement, consumer.name, retention, DELETE_ROWS)
            removed = int(answer.rpartition(" ")[2])
            REMOVED.labels(consumer.name).inc(removed)
