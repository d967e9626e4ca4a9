"""The event log on Kafka: the production adapter of `surefoot.log.port`.

A reader belongs to no group and commits nothing: it is for tailing, checking and counting.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol, cast

from surefoot.errors import ConfigurationError
from surefoot.log.kafka.aiokafka_typed import (
    Admin,
    KafkaError,
    kafka_partition,
    new_consumer,
    read,
    stop_consumer,
    stored,
    topic_metadata,
)
from surefoot.log.kafka.client import END, FIRST, KafkaClient
from surefoot.log.kafka.failures import NO_SUCH_TOPIC, is_transient, topics_unusable, unavailable
from surefoot.log.kafka.publisher import KafkaPublisher
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.kafka.subscription import KafkaSubscription
from surefoot.log.port import Rebalanced, StoredRecord, TopicPartition, TopicSpec


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


__all__ = ["KafkaLog", "KafkaSettings"]

_COORDINATOR_MOVED = frozenset({14, 15, 16})
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: it is another broker, or soon."""
_COORDINATOR_POLL_S = 0.02


class KafkaLog:
    """Opens connections when they are needed; nothing is asked of Kafka before the first call."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self._client = GroupsClient(settings)

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

    async def topics(self) -> frozenset[str]:
        return await self._client.names()

    async def create(self, topics: Sequence[TopicSpec]) -> None:
        await self._client.create(topics)

    async def first_offsets(self, topic: str) -> Mapping[TopicPartition, int]:
        return await self._client.offsets(topic, FIRST)

    async def end_offsets(self, topic: str) -> Mapping[TopicPartition, int]:
        return await self._client.offsets(topic, END)

    async def group_offsets(self, group: str, topic: str) -> Mapping[TopicPartition, int]:
        return await self._client.group_offsets(group, topic)

    async def expire(self) -> int:
        return 0  # Kafka does it by itself

    async def close(self) -> None:
        await self._client.close()


class GroupsClient(KafkaClient):
    """The admin side, which can also be asked about groups, on the connections that are open already."""

    async def group_offsets(self, group: str, topic: str) -> Mapping[TopicPartition, int]:
        doing = f"asking how far the group {group} has got in {topic}"
        return await self._ask(doing, lambda admin: _group_offsets(admin, group, topic, self._settings))


class _GroupAdmin(Protocol):
    """What aiokafka's admin client knows about groups."""

    async def find_coordinator(self, group_id: str) -> int: ...

    async def list_consumer_group_offsets(
        self, group_id: str, group_coordinator_id: int, partitions: Sequence[Any]
    ) -> Mapping[tuple[str, int], tuple[int, str]]: ...


async def _group_offsets(admin: Admin, group: str, topic: str, settings: KafkaSettings) -> Mapping[TopicPartition, int]:
    [metadata] = await topic_metadata(admin, [topic])
    if metadata["error_code"] in NO_SUCH_TOPIC:
        return {}
    if metadata["error_code"] != 0:
        raise topics_unusable({topic: metadata["error_code"]}, settings)
    asked = [kafka_partition(topic, part["partition"]) for part in metadata["partitions"]]
    groups = cast(_GroupAdmin, admin)
    while True:
        try:
            coordinator = await groups.find_coordinator(group)
            found = await groups.list_consumer_group_offsets(group, coordinator, asked)
        except KafkaError as error:
            if getattr(error, "errno", None) not in _COORDINATOR_MOVED:
                raise
        else:
            # A coordinator that cannot answer names no partition at all, and aiokafka passes over its error code: taken
            # as it is, that would say "never committed". One that can names each, with -1 where nothing is committed.
            if len(found) == len(asked):
                return {TopicPartition(*where): offset for where, (offset, _) in found.items() if offset >= 0}
        await asyncio.sleep(_COORDINATOR_POLL_S)  # a coordinator is being found: whoever asked us bounds the wait
