"""What a member does beside consuming: forgets what is past its retention, and measures lag and what is parked.

What the inbox forgets can be handled twice. So it is kept for at least as long as it could come again: the retention of
the topics and of their dead letters, and the time in which a dead one may still be replayed.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta

from sqlalchemy.exc import DBAPIError

from surefoot.consumer import Consumer
from surefoot.consumer_runtime.metrics import LAG, OLDEST_PARKED, PARKED_KEYS, REMOVED
from surefoot.consumer_runtime.parking import ParkedStatements
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.consumer_runtime.unit import Database
from surefoot.database.connection import is_database_error
from surefoot.errors import LogUnavailable
from surefoot.log.port import EventLog, TopicPartition
from surefoot.service import LoopService

DELETE_ROWS = 2000
REPLAY_WINDOW = timedelta(days=14)
"""How long after a dead letter's own retention it may still be replayed."""


def retention_of(consumer: Consumer, settings: ConsumerSettings) -> timedelta:
    """How long handled events are remembered. Never less than correctness needs, whatever the setting says."""
    kept = [max(topic.retention, topic.dead_letters.retention) for topic in consumer.topics]
    return max(settings.retention, max(kept, default=timedelta(0)) + REPLAY_WINDOW)


class Housekeeping(LoopService):
    def __init__(
        self,
        consumer: Consumer,
        database: Database,
        event_log: EventLog,
        settings: ConsumerSettings,
        next_offsets: Callable[[], Mapping[TopicPartition, int]],
    ) -> None:
        super().__init__("housekeeping", rest_first=settings.housekeeping)
        self._consumer = consumer
        self._database = database
        self._log = event_log
        self._every = settings.housekeeping
        self._next_offsets = next_offsets
        self._retention = retention_of(consumer, settings)
        self._stats = ParkedStatements(settings.db_schema).stats
        self._measured: set[TopicPartition] = set()

    async def round(self) -> timedelta:
        """What is away is waited for; the polls and the workers tell of it."""
        try:
            await self._measure(self._next_offsets())
            await self._forget(self._next_offsets())
        except Exception as error:
            if not isinstance(error, LogUnavailable | DBAPIError) and not is_database_error(error):
                raise
        return self._every

    async def _measure(self, offsets: Mapping[TopicPartition, int]) -> None:
        name = self._consumer.name
        for gone in self._measured - offsets.keys():
            LAG.remove(name, gone.topic, str(gone.partition))  # its owner measures it now
        self._measured = set()
        for topic in sorted({where.topic for where in offsets}):
            for where, end in (await self._log.end_offsets(topic)).items():
                if where in offsets:
                    LAG.labels(name, topic, str(where.partition)).set(max(0, end - offsets[where]))
                    self._measured.add(where)
        async with self._database.driver() as driver:
            rows = await driver.fetch(self._stats, name)
        found = {row[0]: (row[1], row[2]) for row in rows}
        for one in self._consumer.topics:
            keys, age_s = found.get(one.name, (0, 0.0))
            PARKED_KEYS.labels(name, one.name).set(keys)
            OLDEST_PARKED.labels(name, one.name).set(age_s)

    async def _forget(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Small deletes, each a transaction of its own, by the owner of the first partition alone."""
        if TopicPartition(self._consumer.topics[0].name, 0) not in offsets:
            return
        for statement in (self._database.sql.expire, self._database.sql.expire_barriers):
            removed = DELETE_ROWS
            while removed == DELETE_ROWS and not self.stopping.is_set():
                async with self._database.driver() as driver:
                    answer = await driver.execute(statement, self._consumer.name, self._retention, DELETE_ROWS)
                removed = int(answer.rpartition(" ")[2])
                REMOVED.labels(self._consumer.name).inc(removed)
