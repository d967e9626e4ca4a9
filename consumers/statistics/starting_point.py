"""Where a worker starts to read: so far back that the last hour is counted again, and no further.

The counts live in memory alone; the topics themselves are what they are rebuilt from. The offsets are committed for the
worker's group before it joins, so that it finds them there as if it had been stopped at that place.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, cast

import structlog

from surefoot.errors import ConfigurationError
from surefoot.log.kafka.aiokafka_typed import (
    CommitFailed,
    Consumer,
    KafkaError,
    kafka_partition,
    new_consumer,
    stop_consumer,
)
from surefoot.log.kafka.failures import unavailable
from surefoot.log.kafka.log import KafkaLog, KafkaSettings
from surefoot.log.port import TopicPartition

log = structlog.get_logger("surefoot.statistics")

RETRY_S = 0.5


class StartingPoint(NamedTuple):
    """The offsets to start at, those that the next records will get, and the largest record to expect."""

    offsets: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    max_record_bytes: int


async def go_back(settings: KafkaSettings, group: str, topics: Sequence[str], history: timedelta) -> StartingPoint:
    """Put the group at where the topics were `history` ago."""
    kafka = KafkaLog(settings)
    try:
        found = await kafka.describe(topics)
        missing = sorted(set(topics) - set(found))
        if missing:
            raise ConfigurationError(
                f"There is nothing to count in {', '.join(missing)}: Kafka has no such topic. "
                "Run: surefoot topics create"
            )
        ends = {where: end for topic in topics for where, end in (await kafka.end_offsets(topic)).items()}
    finally:
        await kafka.close()
    offsets = await _committed(settings, group, ends, history)
    return StartingPoint(offsets, ends, max(topic.max_record_bytes for topic in found.values()))


async def _committed(
    settings: KafkaSettings, group: str, ends: Mapping[TopicPartition, int], history: timedelta
) -> Mapping[TopicPartition, int]:
    partitions = [kafka_partition(*where) for where in ends]
    consumer = new_consumer(settings, group)
    consumer.assign(partitions)
    try:
        async with asyncio.timeout(settings.request_timeout.total_seconds()):
            await consumer.start()
            since_ms = int((time.time() - history.total_seconds()) * 1000)
            found = await cast(Any, consumer).offsets_for_times(dict.fromkeys(partitions, since_ms)) if history else {}
        since = {where: position.offset for where, position in found.items() if position is not None}
        # A partition without a record since then starts at its end.
        offsets = {where: since.get(kafka_partition(*where), end) for where, end in ends.items()}
        await _commit(consumer, group, offsets, patience_s=2 * settings.session_timeout.total_seconds())
    except (KafkaError, OSError) as error:
        raise unavailable(error, settings, "asking where the last minutes of the topics start") from error
    finally:
        await stop_consumer(consumer, settings.request_timeout)
    return offsets


async def _commit(consumer: Consumer, group: str, offsets: Mapping[TopicPartition, int], *, patience_s: float) -> None:
    """Kafka refuses this while the group has members. One that was killed is a member until its session times out."""
    deadline, waiting = time.monotonic() + patience_s, False
    while True:
        try:
            await consumer.commit({kafka_partition(*where): offset for where, offset in offsets.items()})
        except CommitFailed:
            if time.monotonic() > deadline:
                raise ConfigurationError(
                    f"Another statistics worker reads in the group {group}, and each would count but a part: "
                    "give this one a --group of its own."
                ) from None
            if not waiting:
                log.info("a statistics worker of this group is still a member; waiting until it is gone", group=group)
                waiting = True
            await asyncio.sleep(RETRY_S)
        else:
            return
