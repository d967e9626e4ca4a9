"""Reading Kafka without joining a group: for tailing, checking and counting. Commits nothing, disturbs nobody."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta

from surefoot.log.kafka.aiokafka_typed import KafkaError, kafka_partition, new_consumer, read, stop_consumer, stored
from surefoot.log.kafka.failures import is_transient, unavailable
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import StoredRecord, TopicPartition


class KafkaReader:
    def __init__(self, settings: KafkaSettings, *, max_fetch_bytes: int) -> None:
        self._settings = settings
        self._consumer = new_consumer(settings, None, max_fetch_bytes=max_fetch_bytes)

    async def start(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._consumer.assign([kafka_partition(*where) for where in offsets])
        try:
            async with asyncio.timeout(self._settings.request_timeout.total_seconds()):
                await self._consumer.start()
        except (KafkaError, OSError) as error:
            await self.close()
            raise unavailable(error, self._settings, "starting to read") from error
        for where, offset in offsets.items():
            self._consumer.seek(kafka_partition(*where), offset)

    async def poll(
        self, *, max_records: int = 500, timeout: timedelta = timedelta(seconds=1)
    ) -> Mapping[TopicPartition, Sequence[StoredRecord]]:
        try:
            found = await read(self._consumer, timeout.total_seconds(), max_records)
        except (KafkaError, OSError) as error:
            if is_transient(error):
                return {}
            raise unavailable(error, self._settings, "reading") from error
        return {TopicPartition(*where): [stored(one) for one in messages] for where, messages in found.items()}

    async def close(self) -> None:
        await stop_consumer(self._consumer, self._settings.request_timeout)
