"""The event log on Kafka: the production adapter of `surefoot.log.port`."""

from collections.abc import Mapping, Sequence

from surefoot.errors import ConfigurationError
from surefoot.log.kafka_client import END, FIRST, KafkaClient
from surefoot.log.kafka_publisher import KafkaPublisher
from surefoot.log.kafka_reader import KafkaReader
from surefoot.log.kafka_settings import KafkaSettings
from surefoot.log.kafka_subscription import KafkaSubscription
from surefoot.log.port import Rebalanced, TopicPartition, TopicSpec

__all__ = ["KafkaLog", "KafkaSettings"]


class KafkaLog:
    """Opens connections when they are needed; nothing is asked of Kafka before the first call."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self._client = KafkaClient(settings)

    async def publisher(self) -> KafkaPublisher:
        return KafkaPublisher(self.settings, self._client)

    async def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        *,
        on_assigned: Rebalanced | None = None,
        on_revoked: Rebalanced | None = None,
    ) -> KafkaSubscription:
        found = await self._client.topics(topics)
        missing = sorted(set(topics) - set(found))
        if missing:
            raise ConfigurationError(
                f"The group {group} cannot read {', '.join(missing)}: Kafka has no such topic. "
                "Run: surefoot topics create"
            )
        # A consumer that asks for less than a record's size is stuck on that record for ever.
        largest = max((topic.max_message_bytes for topic in found.values()), default=0)
        subscription = KafkaSubscription(
            self.settings,
            group,
            max_fetch_bytes=max(1 << 20, largest),
            on_assigned=on_assigned,
            on_revoked=on_revoked,
        )
        await subscription.join(topics)
        return subscription

    async def read(self, topic: str, offsets: Mapping[TopicPartition, int]) -> KafkaReader:
        found = (await self._client.topics([topic])).get(topic)
        largest = 0 if found is None else found.max_message_bytes
        reader = KafkaReader(self.settings, max_fetch_bytes=max(1 << 20, largest))
        await reader.start(offsets)
        return reader

    async def describe(self, topics: Sequence[str]) -> Mapping[str, TopicSpec]:
        return {name: topic.spec for name, topic in (await self._client.topics(topics)).items()}

    async def create(self, topics: Sequence[TopicSpec]) -> None:
        await self._client.create(topics)

    async def first_offsets(self, topic: str) -> Mapping[TopicPartition, int]:
        return await self._client.offsets(topic, FIRST)

    async def end_offsets(self, topic: str) -> Mapping[TopicPartition, int]:
        return await self._client.offsets(topic, END)

    async def expire(self) -> int:
        return 0  # Kafka does it by itself

    async def close(self) -> None:
        await self._client.close()
