"""Asking Kafka about topics and their offsets, and making topics.

Promises an answer, or LogUnavailable, within the request timeout."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from surefoot.errors import ConfigurationError, LogUnavailable
from surefoot.log.kafka.aiokafka_typed import (
    Admin,
    KafkaError,
    list_offsets,
    new_admin,
    new_topic,
    topic_config_question,
    topic_metadata,
)
from surefoot.log.kafka.failures import (
    LEADER_MOVED,
    NO_SUCH_TOPIC,
    TopicNotReady,
    is_transient,
    topics_unusable,
    unavailable,
)
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import TopicPartition, TopicSpec

FIRST, END = -2, -1
"""Which offset of a partition is asked for, as Kafka's protocol has it."""

BATCH_OVERHEAD_BYTES = 512
"""`max.message.bytes` bounds a whole record batch. A batch of one record adds, to the bytes of key, value and headers,
61 for its own header, up to 24 for the record's fields, and the lengths of each header's name and value (2 to 4 bytes a
header). 512 leaves room for more than a hundred headers."""

_DEFAULT_CONFIGS = {"max.message.bytes": "1048588", "retention.ms": str(7 * 24 * 60 * 60 * 1000)}
"""Kafka's own defaults, assumed where it does not tell a topic's settings: publishing needs the right Write, not
DescribeConfigs. A lower limit is found out from the broker's refusal; a higher one is not made use of."""

ANY_CODE_OK, ALREADY_EXISTS = 0, 36
_LEADER_POLL_S = 0.02
REPLICATION_FACTOR = 3
"""Of topics that we create, if there are as many brokers."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    spec: TopicSpec
    max_message_bytes: int
    led: bool
    """Every partition has a leader."""


class KafkaClient:
    """The admin side, connected when first needed and again after a failure."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._admin: Admin | None = None
        self._opening = asyncio.Lock()

    async def topics(self, names: Sequence[str]) -> Mapping[str, KafkaTopic]:
        """Those of the topics that exist. LogUnavailable if Kafka does not tell of one whether it does."""
        if not names:
            return {}
        return await self._ask("asking about topics", lambda admin: _describe(admin, names, self._settings))

    async def names(self) -> frozenset[str]:
        """All topics of whom Kafka tells us. One whose leader is being elected is one of them."""
        return await self._ask("asking for all topics", _names)

    async def offsets(self, topic: str, which: int) -> Mapping[TopicPartition, int]:
        """The FIRST offset of each partition, or its END; none if there is no such topic.

        On the connections that are open already: a consumer asks at every assignment."""
        doing = f"asking for the offsets of {topic}"
        return await self._ask(doing, lambda admin: _offsets(admin, topic, which, self._settings))

    async def create(self, topics: Sequence[TopicSpec]) -> None:
        """Create what is missing; return when all of them have leaders, so that the next send finds them."""
        existing = await self.topics([topic.name for topic in topics])
        missing = [topic for topic in topics if topic.name not in existing]
        if missing:
            await self._ask("creating topics", lambda admin: self._create(admin, missing))
        await self._until_led([topic.name for topic in topics])

    async def close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            await admin.close()

    async def _create(self, admin: Admin, topics: Sequence[TopicSpec]) -> None:
        factor = min(REPLICATION_FACTOR, len((await admin.describe_cluster())["brokers"]))
        wanted = [
            new_topic(topic.name, partitions=topic.partitions, replication_factor=factor, configs=_configs(topic))
            for topic in topics
        ]
        response = await admin.create_topics(wanted)
        for name, code, message in response.topic_errors:
            if code not in (ANY_CODE_OK, ALREADY_EXISTS):
                raise ConfigurationError(
                    f"Kafka would not create the topic {name} (error {code}: {message or 'no reason given'}). "
                    "Check its name, its settings and this user's rights."
                )

    async def _until_led(self, names: Sequence[str]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.request_timeout.total_seconds()):
                while True:
                    with contextlib.suppress(TopicNotReady):  # a topic just made may have no leader yet
                        found = await self.topics(names)
                        if all(name in found and found[name].led for name in names):
                            return
                    await asyncio.sleep(_LEADER_POLL_S)
        raise LogUnavailable(
            f"Kafka took the topics {', '.join(names)} but has no leader for all of their partitions yet."
        )

    async def _ask(self, doing: str, question: Callable[[Admin], Awaitable[_T]]) -> _T:
        try:
            async with asyncio.timeout(self._settings.request_timeout.total_seconds()):
                try:
                    return await question(await self._connected())
                except (KafkaError, OSError) as error:
                    if not is_transient(error):
                        raise
                    # A connection that a broker closed while it was idle shows only when it is used: once more, afresh.
                    await self.close()
                    return await question(await self._connected())
        except (KafkaError, OSError) as error:  # TimeoutError is an OSError
            await self.close()
            raise unavailable(error, self._settings, doing) from error

    async def _connected(self) -> Admin:
        async with self._opening:
            if self._admin is None:
                admin = new_admin(self._settings)
                try:
                    await admin.start()
                except BaseException:
                    await admin.close()
                    raise
                self._admin = admin
            return self._admin


async def _names(admin: Admin) -> frozenset[str]:
    found = await topic_metadata(admin, None)
    return frozenset(topic["topic"] for topic in found if topic["error_code"] not in NO_SUCH_TOPIC)


async def _describe(admin: Admin, names: Sequence[str], settings: KafkaSettings) -> dict[str, KafkaTopic]:
    answers = {topic["topic"]: topic for topic in await topic_metadata(admin, names)}
    codes = {name: topic["error_code"] for name, topic in answers.items() if topic["error_code"] not in NO_SUCH_TOPIC}
    failed = {name: code for name, code in codes.items() if code != 0}
    if failed:
        # Never "missing": a relay would give up on events because of a right or a leader that is not there yet.
        raise topics_unusable(failed, settings)
    if not codes:
        return {}
    configs: dict[str, dict[str, str]] = {name: {} for name in codes}
    for response in await admin.describe_configs([topic_config_question(name) for name in codes]):
        for resource in response.resources:
            code, _, _, name, entries = resource[:5]
            if code in NO_SUCH_TOPIC:  # deleted between the two questions
                configs.pop(name, None)
            elif code == 0:
                configs[name] = {entry[0]: entry[1] for entry in entries if entry[1] is not None}
    return {name: _topic(answers[name]["partitions"], told, name) for name, told in configs.items()}


async def _offsets(admin: Admin, topic: str, which: int, settings: KafkaSettings) -> dict[TopicPartition, int]:
    while True:
        [metadata] = await topic_metadata(admin, [topic])
        if metadata["error_code"] in NO_SUCH_TOPIC:
            return {}
        if metadata["error_code"] != 0:
            raise topics_unusable({topic: metadata["error_code"]}, settings)
        led: dict[int, list[int]] = defaultdict(list)
        for part in metadata["partitions"]:
            led[part["leader"]].append(part["partition"])
        if led and min(led) >= 0:
            questions = (list_offsets(admin, leader, topic, partitions, which) for leader, partitions in led.items())
            found = {number: told for answer in await asyncio.gather(*questions) for number, told in answer.items()}
            failed = {code for code, _ in found.values() if code != 0}
            if not failed:
                return {TopicPartition(topic, number): offset for number, (_, offset) in found.items()}
            if failed - LEADER_MOVED:
                raise topics_unusable({topic: min(failed - LEADER_MOVED)}, settings)
        await asyncio.sleep(_LEADER_POLL_S)  # a leader is being elected: whoever asked us bounds the wait


def _topic(partitions: Sequence[Mapping[str, int]], told: Mapping[str, str], name: str) -> KafkaTopic:
    configs = {**_DEFAULT_CONFIGS, **told}
    largest = int(configs["max.message.bytes"])
    retention_ms = int(configs["retention.ms"])
    spec = TopicSpec(
        name=name,
        partitions=len(partitions),
        retention=timedelta.max if retention_ms < 0 else timedelta(milliseconds=retention_ms),
        max_record_bytes=max(1, largest - BATCH_OVERHEAD_BYTES),
    )
    return KafkaTopic(spec, largest, led=bool(partitions) and all(part["leader"] >= 0 for part in partitions))


def _configs(topic: TopicSpec) -> dict[str, str]:
    kept_for_ever = topic.retention == timedelta.max
    return {
        "retention.ms": "-1" if kept_for_ever else str(int(topic.retention.total_seconds() * 1000)),
        "max.message.bytes": str(topic.max_record_bytes + BATCH_OVERHEAD_BYTES),
    }
