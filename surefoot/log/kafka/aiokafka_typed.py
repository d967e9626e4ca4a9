"""aiokafka, typed. The one module that imports it: everything else uses the protocols and factories below.

It also keeps, in one place, what we know about aiokafka's inside (0.14, pinned): how to let a producer go without
waiting for batches that may never be acknowledged, and when a batch's bytes are on the wire.

And it mends two things. Records whose header names are not UTF-8: brokers take any bytes as a name, aiokafka stops at
the first such record for ever, so one careless producer could wedge a partition for all its readers. Here the bad
bytes of such a name are written out (`\\xff`): the record is delivered, its key and values untouched, and its reader
decides. Only a batch that aiokafka's fast reader fails on is read again slowly. And a start that is cancelled while it
asks the first broker: aiokafka would leave that connection open until the garbage collector finds it.
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import Any, Protocol, cast

import aiokafka
from aiokafka import client as kafka_client
from aiokafka import errors as kafka_errors
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.consumer import fetcher
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import _MemoryRecordsPy

from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import Headers, StoredRecord

_MAGIC_WITH_HEADERS = 2
CLIENT_ID = "surefoot"
"""How we show up in the brokers' logs and quotas."""


def read_any_header_names() -> None:
    """From now on, in this process: aiokafka's consumers look the class up where they use it."""
    fetcher.MemoryRecords = _Batches


class _Batches(_MemoryRecordsPy):  # type: ignore[misc]  # aiokafka is untyped
    def next_batch(self) -> Any:
        raw = self._next_slice
        batch = super().next_batch()
        return _Batch(batch, raw) if raw is not None and raw[self.MAGIC_OFFSET] >= _MAGIC_WITH_HEADERS else batch


class _Batch:
    """A batch read by the fast reader, or from the record on that it fails at, by the lenient one."""

    def __init__(self, fast: Any, raw: memoryview) -> None:
        self._fast = fast
        self._raw = raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fast, name)

    def __iter__(self) -> Iterator[Any]:
        count = 0
        try:
            for record in self._fast:
                yield record
                count += 1
        except UnicodeDecodeError:
            yield from islice(_LenientBatch(self._raw), count, None)

    def __next__(self) -> Any:
        return next(self._fast)  # how aiokafka looks at the one record of a control batch


class _LenientBatch(_DefaultRecordBatchPy):  # type: ignore[misc]  # aiokafka is untyped
    _buffer: bytearray

    def _maybe_uncompress(self) -> None:
        super()._maybe_uncompress()
        self._buffer = _LenientBytes(self._buffer)


class _LenientBytes(bytearray):
    """Bytes whose parts can be decoded, whatever they are."""

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return _LenientBytes(found) if isinstance(index, slice) else found

    def decode(self, encoding: str = "utf-8", errors: str = "backslashreplace") -> str:
        return super().decode(encoding, errors)


def close_cancelled_starts() -> None:
    """From now on, in this process: each start of an aiokafka client connects through the module's `create_conn`."""
    create = kafka_client.create_conn

    async def connected(*where: Any, **options: Any) -> Any:
        connection = await create(*where, **options)
        if "on_close" not in options:  # the connection of a start; every other one belongs to its client
            _close_when_cancelled(connection)
        return connection

    kafka_client.create_conn = connected


def _close_when_cancelled(connection: Any) -> None:
    send = connection.send

    async def answer(*request: Any, **options: Any) -> Any:
        try:
            return await send(*request, **options)
        except asyncio.CancelledError:
            connection.close()
            raise

    connection.send = answer


KafkaError = kafka_errors.KafkaError
CommitFailed = kafka_errors.CommitFailedError
IllegalState = kafka_errors.IllegalStateError


_REBALANCE_GRACE_S = 0.25


class InvalidRecord(kafka_errors.BrokerResponseError):  # type: ignore[misc]  # aiokafka is untyped
    """A broker's code that aiokafka 0.14 has no class for, and would report as 'unknown server error'."""

    errno = 87
    message = "INVALID_RECORD"
    description = "The broker's checks refused the record."


kafka_errors.kafka_errors[InvalidRecord.errno] = InvalidRecord
read_any_header_names()
close_cancelled_starts()


class Appended(Protocol):
    @property
    def size(self) -> int: ...


class Batch(Protocol):
    def append(
        self, *, timestamp: int | None, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
    ) -> Appended | None: ...

    def size(self) -> int: ...


class Producer(Protocol):
    async def start(self) -> None: ...

    async def send_batch(self, batch: Batch, topic: str, *, partition: int) -> Awaitable[object]: ...


class Message(Protocol):
    """A record as aiokafka reads it; its headers are a tuple of pairs."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Consumer(Protocol):
    def subscribe(self, topics: Sequence[str], *, listener: object) -> None: ...

    def assign(self, partitions: Sequence[Any]) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def getmany(
        self, *partitions: Any, timeout_ms: int, max_records: int
    ) -> Mapping[tuple[str, int], Sequence[Message]]: ...

    async def commit(self, offsets: Mapping[Any, int]) -> None: ...

    async def committed(self, partition: Any) -> int | None: ...

    def seek(self, partition: Any, offset: int) -> None: ...

    def pause(self, *partitions: Any) -> None: ...

    def resume(self, *partitions: Any) -> None: ...


class Admin(Protocol):
    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def create_topics(self, new_topics: Sequence[object]) -> Any: ...

    async def describe_cluster(self) -> Mapping[str, Any]: ...

    async def describe_configs(self, config_resources: Sequence[object]) -> Sequence[Any]: ...


def connection_arguments(settings: KafkaSettings) -> dict[str, object]:
    """What producer, consumer and admin take alike."""
    arguments: dict[str, object] = {
        "bootstrap_servers": settings.servers,
        "client_id": CLIENT_ID,
        "request_timeout_ms": int(settings.request_timeout.total_seconds() * 1000),
        "security_protocol": settings.security_protocol,
    }
    if settings.security_protocol.endswith("SSL"):
        context = ssl.create_default_context(cafile=settings.ssl_cafile)
        if settings.ssl_certfile is not None:
            context.load_cert_chain(settings.ssl_certfile, settings.ssl_keyfile)
        arguments["ssl_context"] = context
    if settings.security_protocol.startswith("SASL") and settings.sasl_password is not None:
        arguments["sasl_mechanism"] = settings.sasl_mechanism
        arguments["sasl_plain_username"] = settings.sasl_username
        arguments["sasl_plain_password"] = settings.sasl_password.get_secret_value()
    return arguments


def new_batch(max_bytes: int) -> Batch:
    """A batch that takes records until it would be longer than `max_bytes` (the first record it always takes).

    Not `producer.create_batch`: that has one size for all topics."""
    return cast(Batch, BatchBuilder(max_bytes, 0))


def new_producer(settings: KafkaSettings) -> Producer:
    producer = aiokafka.AIOKafkaProducer(
        **connection_arguments(settings), enable_idempotence=True, acks="all", linger_ms=0, retry_backoff_ms=50
    )
    producer.surefoot_requests = requests = set()
    send_request = producer._sender._send_produce_req

    async def remembered(node: object, batches: object) -> None:
        task = asyncio.current_task()
        requests.add(task)
        try:
            await send_request(node, batches)
        finally:
            requests.discard(task)

    producer._sender._send_produce_req = remembered
    return cast(Producer, producer)


async def abandon_producer(producer: Producer) -> None:
    """Let a producer go at once, whatever it has in flight.

    `stop()` waits until every batch is acknowledged, and an idempotent producer retries a batch for ever: beside a dead
    broker it would never return. So its requests and its sender are cancelled and its connections closed."""
    inside = cast(Any, producer)
    if inside._closed:
        return
    inside._closed = True
    tasks = [task for task in [*inside.surefoot_requests, inside._sender.sender_task] if task is not None]
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                task.result()
    await inside.client.close()


async def until_written(producer: Producer, where: tuple[str, int], acknowledged: Awaitable[object]) -> None:
    """Let the loop turn until this partition's batch is on the wire (used by crash tests only).

    The sender mutes a partition when it hands its batch to a request; a few turns later that has been written."""
    inside, done = cast(Any, producer), cast("asyncio.Future[object]", acknowledged)
    while where not in inside._sender._muted_partitions and not done.done():  # noqa: ASYNC110  # aiokafka has no event
        await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)


def new_consumer(settings: KafkaSettings, group: str | None, *, max_fetch_bytes: int = 1 << 20) -> Consumer:
    session_ms = int(settings.session_timeout.total_seconds() * 1000)
    consumer = aiokafka.AIOKafkaConsumer(
        **connection_arguments(settings),
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        partition_assignment_strategy=(StickyPartitionAssignor,),
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=max(100, session_ms // 3),
        max_poll_interval_ms=int(settings.max_poll_interval.total_seconds() * 1000),
        max_partition_fetch_bytes=max_fetch_bytes,
    )
    return cast(Consumer, consumer)


async def read(
    consumer: Consumer, timeout_s: float, max_records: int, partitions: Iterable[tuple[str, int]] | None = None
) -> Mapping[tuple[str, int], Sequence[Message]]:
    """`getmany` of these partitions, or of all, which by itself waits without end while a rebalance is going on.

    It also loses count of its callers when it is cancelled or fails, and then never again notices that nobody polls."""
    inside = cast(Any, consumer)
    # No partition is how aiokafka says all of them, and one that nobody has is how we say none.
    some = () if partitions is None else [kafka_partition(*one) for one in partitions] or [kafka_partition("", -1)]
    try:
        async with asyncio.timeout(timeout_s + _REBALANCE_GRACE_S):
            return await consumer.getmany(*some, timeout_ms=int(timeout_s * 1000), max_records=max_records)
    except TimeoutError:
        return {}
    finally:
        inside._subscription._fetch_count = 0
        inside._subscription._last_fetch_ended = time.monotonic()


def stored(message: Message) -> StoredRecord:
    one = message
    return StoredRecord(one.topic, one.partition, one.offset, one.timestamp, one.key, one.value, one.headers)


async def stop_consumer(consumer: Consumer, patience: timedelta) -> None:
    """Leave the group and close. If Kafka is out of reach, close anyway, after `patience`."""
    inside = cast(Any, consumer)
    with contextlib.suppress(KafkaError, OSError):  # TimeoutError is an OSError
        async with asyncio.timeout(patience.total_seconds()):
            await consumer.stop()
            return
    coordinator = inside._coordinator
    names = ("_coordination_task", "_heartbeat_task", "_commit_refresh_task")
    tasks = [task for name in names if (task := getattr(coordinator, name, None)) is not None]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if inside._fetcher is not None:
        await inside._fetcher.close()
    await inside._client.close()


def kafka_partition(topic: str, partition: int) -> Any:
    """aiokafka looks at `.topic` and `.partition` and compares as tuples do; this is its own class of it."""
    return aiokafka.TopicPartition(topic, partition)


def rebalance_listener(
    assigned: Callable[[Iterable[tuple[str, int]]], Awaitable[None]],
    revoked: Callable[[Iterable[tuple[str, int]]], Awaitable[None]],
) -> object:
    class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is untyped
        async def on_partitions_assigned(self, partitions: Iterable[tuple[str, int]]) -> None:
            await assigned(partitions)

        async def on_partitions_revoked(self, partitions: Iterable[tuple[str, int]]) -> None:
            await revoked(partitions)

    return Listener()


def new_admin(settings: KafkaSettings) -> Admin:
    return cast(Admin, AIOKafkaAdminClient(**connection_arguments(settings)))


def new_topic(name: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> object:
    return NewTopic(name, partitions, replication_factor, topic_configs=dict(configs))


def topic_config_question(name: str) -> object:
    return ConfigResource(ConfigResourceType.TOPIC, name, {"max.message.bytes": "", "retention.ms": ""})


async def topic_metadata(admin: Admin, names: Sequence[str] | None) -> Sequence[Mapping[str, Any]]:
    """The brokers' view of these topics, or of all. Auto-creation is off: looking at a topic must not make it."""
    inside = cast(Any, admin)
    wanted = None if names is None else list(names)
    response = await inside._send_request(MetadataRequest(wanted, allow_auto_topic_creation=False))
    return cast(Sequence[Mapping[str, Any]], response.to_object()["topics"])


async def list_offsets(
    admin: Admin, leader: int, topic: str, partitions: Sequence[int], which: int
) -> Mapping[int, tuple[int, int]]:
    """What a leader answers about each of its partitions: an error code (0 if all is well) and the offset."""
    question = OffsetRequest(-1, 0, [(topic, [(partition, which) for partition in partitions])])
    response = await cast(Any, admin)._send_request(question, leader)
    [(_, answers)] = response.topics
    return {partition: (code, offset) for partition, code, _, offset in answers}
