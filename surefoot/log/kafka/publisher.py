"""Writing to Kafka: batches, one in flight per partition, and a plain answer for each.

Promises, per partition: records are sent in order; the next batch goes out when the last is acknowledged by all
replicas in sync; a record that Kafka will never take is found, named, and nothing behind it is sent. Everything that is
not the record's own fault is LogUnavailable, within the request timeout.

An idempotent producer counts what it sends to each partition. After a batch was refused or lost, its count and the
broker's differ, and everything it sends to that partition later is refused too (aiokafka 0.14). So a producer that
failed is retired, and the next batch gets a new one. Batches of other partitions on the old one may end first.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from surefoot.errors import LogUnavailable
from surefoot.failpoints import armed, failpoint
from surefoot.log.kafka.aiokafka_typed import (
    Batch,
    KafkaError,
    Producer,
    abandon_producer,
    new_batch,
    new_producer,
    until_written,
)
from surefoot.log.kafka.client import KafkaClient, KafkaTopic
from surefoot.log.kafka.failures import refusal_of, said, unavailable
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import (
    Acknowledged,
    PublishOutcome,
    Record,
    Refusal,
    Refused,
    TopicPartition,
    TopicSpec,
    record_bytes,
    too_large,
)
from surefoot.log.topics import TopicCache


@dataclass(slots=True, eq=False)
class _Line:
    producer: Producer
    users: int = 0
    retired: bool = False


class Producers:
    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._current: _Line | None = None
        self._starting = asyncio.Lock()
        self._leaving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def borrowed(self) -> AsyncIterator[Producer]:
        """The producer to send one batch with. If the block fails, for whatever reason, it is not used again."""
        line = self._current or await self._start()
        line.users += 1
        try:
            yield line.producer
        except BaseException:
            self._retire(line)
            raise
        finally:
            line.users -= 1
            self._let_go(line)

    async def close(self) -> None:
        if self._current is not None:
            line = self._current
            self._retire(line)
            self._let_go(line)
        while self._leaving:
            await asyncio.gather(*self._leaving)

    async def _start(self) -> _Line:
        async with self._starting:
            if self._current is None:
                producer = new_producer(self._settings)
                try:
                    await producer.start()
                except BaseException:
                    await abandon_producer(producer)
                    raise
                self._current = _Line(producer)
            return self._current

    def _retire(self, line: _Line) -> None:
        line.retired = True
        if self._current is line:
            self._current = None

    def _let_go(self, line: _Line) -> None:
        if line.retired and line.users == 0:
            task = asyncio.create_task(abandon_producer(line.producer))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)


TOPIC_CACHE = timedelta(seconds=5)
"""How long a publisher believes what it knows about a topic."""
MAX_BATCH_BYTES = 1 << 20
"""No batch is longer than this, whatever the topic allows: a larger one gains nothing and is acknowledged later."""


@dataclass(frozen=True, slots=True)
class Filled:
    batch: Batch
    count: int
    oversized: int | None = None
    """The size of the record after these, if no batch of this topic can ever take it."""


def fill(records: Sequence[Record], start: int, stop: int, topic: KafkaTopic) -> Filled:
    """A batch of records[start:…], ended by `stop`, by a full batch, or by a record that is too large."""
    batch = new_batch(min(topic.max_message_bytes, MAX_BATCH_BYTES))
    append = batch.append
    suspicious = topic.spec.max_record_bytes
    now = int(time.time() * 1000)
    for index in range(start, stop):
        key, value, headers = records[index]
        listed = headers if type(headers) is list else list(headers)  # aiokafka's C code takes nothing but a list
        added = append(timestamp=now, key=key, value=value, headers=listed)
        if added is None:
            return Filled(batch, index - start)
        # What a record takes in a batch is always more than its own bytes, so nearly all pass on this one comparison.
        if added.size > suspicious:
            size = record_bytes(records[index])
            if size > suspicious or (index == start and batch.size() > topic.max_message_bytes):
                # It is in the batch already: the batch is made again without it.
                return Filled(fill(records, start, index, topic).batch, index - start, oversized=size)
    return Filled(batch, stop - start)


@dataclass(frozen=True, slots=True)
class _BrokerRefusal:
    reason: Refusal
    said: str


@dataclass(slots=True)
class _Call:
    where: TopicPartition
    records: Sequence[Record]
    given_up: bool = False


class KafkaPublisher:
    def __init__(self, settings: KafkaSettings, client: KafkaClient) -> None:
        self._settings = settings
        self._producers = Producers(settings)
        self._turns: defaultdict[TopicPartition, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._topics = TopicCache(client.topics, TOPIC_CACHE)
        self._calls: set[asyncio.Task[PublishOutcome]] = set()
        self._closed = False

    async def topic(self, name: str) -> TopicSpec | None:
        topic = await self._topics.get(name)
        return None if topic is None else topic.spec

    async def publish(self, where: TopicPartition, records: Sequence[Record]) -> PublishOutcome:
        if self._closed:
            raise LogUnavailable("This publisher was closed; open another one.")
        call = _Call(where, records)
        task = asyncio.create_task(self._in_turn(call))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        try:
            # Shielded: a caller that is cancelled leaves, but the batch on its way keeps the partition's turn until it
            # is acknowledged or lost. Else the next call could overtake it.
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            call.given_up = True
            raise

    async def close(self) -> None:
        self._closed = True
        if self._calls:
            await asyncio.wait(set(self._calls))
        await self._producers.close()

    async def _in_turn(self, call: _Call) -> PublishOutcome:
        async with self._turns[call.where]:
            done = 0
            while done < len(call.records):
                if call.given_up or self._closed:
                    raise LogUnavailable("Publishing was given up before all records were sent.")
                step = await self._next_batch(call, done)
                if isinstance(step, Refused):
                    return step
                done = step.count
            return Acknowledged(done)

    async def _next_batch(self, call: _Call, done: int) -> PublishOutcome:
        """Send the batch that starts at record `done`; say how many of all records are stored then."""
        name = call.where.topic
        topic = await self._topics.get(name)
        if topic is None or call.where.partition >= topic.spec.partitions:
            return Refused(done, "unknown_topic", _no_such(call.where, topic))
        filled = fill(call.records, done, len(call.records), topic)
        if filled.count:
            refused = await self._send(call.where, filled.batch)
            if refused is not None:
                return await self._one_by_one(call, done, done + filled.count)
        if filled.oversized is not None:
            self._topics.forget(name)
            sentence = too_large(filled.oversized, topic.spec.max_record_bytes, name)
            return Refused(done + filled.count, "too_large", sentence)
        return Acknowledged(done + filled.count)

    async def _one_by_one(self, call: _Call, start: int, stop: int) -> PublishOutcome:
        """The broker refused the batch as a whole, none of it is stored: find the culprit, send what is before it."""
        for index in range(start, stop):
            topic = await self._topics.get(call.where.topic)
            if topic is None:
                return Refused(index, "unknown_topic", _no_such(call.where, None))
            single = fill(call.records, index, index + 1, topic)
            if single.oversized is not None:
                sentence = too_large(single.oversized, topic.spec.max_record_bytes, call.where.topic)
                return Refused(index, "too_large", sentence)
            refused = await self._send(call.where, single.batch)
            if refused is not None:
                size = record_bytes(call.records[index])
                return Refused(
                    index,
                    refused.reason,
                    f"Kafka refused the record of {size:,} bytes for {call.where.topic}: {refused.said}. "
                    "It will refuse it again as long as neither the record nor the topic changes.",
                )
        return Acknowledged(stop)

    async def _send(self, where: TopicPartition, batch: Batch) -> _BrokerRefusal | None:
        try:
            async with (
                asyncio.timeout(self._settings.request_timeout.total_seconds()),
                self._producers.borrowed() as producer,
            ):
                acknowledged = await producer.send_batch(batch, where.topic, partition=where.partition)
                if armed("log.sent"):
                    await until_written(producer, where, acknowledged)
                    await failpoint("log.sent")
                await acknowledged
                return None
        except (
            KafkaError,
            OSError,
            AssertionError,
        ) as error:  # AssertionError: the partition is newer than its metadata
            self._topics.forget(where.topic)
            reason = refusal_of(error)
            if reason is None:
                raise unavailable(error, self._settings, f"sending to {where.topic}") from error
            return _BrokerRefusal(reason, said(error))


def _no_such(where: TopicPartition, topic: KafkaTopic | None) -> str:
    if topic is None:
        return (
            f"Kafka has no topic {where.topic}. Create it (surefoot topics create), or correct the event type's topic."
        )
    return f"The topic {where.topic} has {topic.spec.partitions} partitions, there is no number {where.partition}."
