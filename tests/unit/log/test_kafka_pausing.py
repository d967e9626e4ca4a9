"""Pausing and resuming while a poll is under way: what Kafka itself cannot be made to do at a chosen moment."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from surefoot.log.kafka import subscription as kafka_subscription
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.kafka.subscription import KafkaSubscription
from surefoot.log.port import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
POLL = timedelta(seconds=60)


def message(where: TopicPartition, offset: int) -> Any:
    return SimpleNamespace(
        topic=where.topic, partition=where.partition, offset=offset, timestamp=0, key=None, value=b"v", headers=()
    )


class StubbedConsumer:
    """Has one record of each partition that it is not yet past. Waits as long as it is told to if there is none."""

    def __init__(self) -> None:
        self._subscription = SimpleNamespace(_fetch_count=0, _last_fetch_ended=0.0)
        self.positions: dict[Any, int] = {A: 5, B: 7}
        self.ends: dict[Any, int] = {A: 6, B: 7}
        self.waiting = asyncio.Event()
        self.before_it_answers: Callable[[], None] = lambda: None

    async def getmany(self, *partitions: Any, timeout_ms: int, max_records: int) -> Mapping[Any, Sequence[Any]]:
        found = {
            where: [message(where, offset)]
            for where, offset in self.positions.items()
            if offset < self.ends[where] and (not partitions or where in partitions)
        }
        if not found:
            self.waiting.set()
            await asyncio.sleep(timeout_ms / 1000)
        for where in found:
            self.positions[where] += 1
        self.before_it_answers()
        return found

    def seek(self, where: Any, offset: int) -> None:
        self.positions[where] = offset

    def pause(self, *_: Any) -> None: ...

    def resume(self, *_: Any) -> None: ...

    async def stop(self) -> None: ...


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> StubbedConsumer:
    stubbed = StubbedConsumer()
    monkeypatch.setattr(kafka_subscription, "new_consumer", lambda *_, **__: stubbed)
    monkeypatch.setattr(kafka_subscription, "_LOOK_UP_S", 60.0)
    return stubbed


@pytest.fixture
async def subscription(consumer: StubbedConsumer) -> AsyncIterator[KafkaSubscription]:
    settings = KafkaSettings(bootstrap_servers="broker:9092")
    subscription = KafkaSubscription(settings, "group", max_fetch_bytes=1, on_assigned=None, on_revoked=None)
    await subscription._come([A, B])
    await subscription._welcome()
    yield subscription
    await subscription.close()


async def test_records_fetched_before_a_pause_and_delivered_after_it_come_again_when_it_ends(
    subscription: KafkaSubscription, consumer: StubbedConsumer
) -> None:
    consumer.before_it_answers = lambda: subscription.pause([A])
    assert await subscription.poll(timeout=timedelta(0)) == {}
    consumer.before_it_answers = lambda: None
    assert await subscription.poll(timeout=timedelta(0)) == {}

    subscription.resume([A])
    found = await subscription.poll(timeout=timedelta(0))

    assert [record.offset for record in found[A]] == [5]


async def test_a_waiting_poll_looks_anew_when_a_partition_is_resumed(
    subscription: KafkaSubscription, consumer: StubbedConsumer
) -> None:
    subscription.pause([A, B])
    polling = asyncio.create_task(subscription.poll(timeout=POLL))
    await consumer.waiting.wait()

    subscription.resume([A])
    async with asyncio.timeout(60):
        found = await polling

    assert [record.offset for record in found[A]] == [5]


async def test_changing_ones_mind_over_and_over_disturbs_no_poll(
    subscription: KafkaSubscription, consumer: StubbedConsumer
) -> None:
    subscription.pause([A, B])
    polling = asyncio.create_task(subscription.poll(timeout=POLL))
    await consumer.waiting.wait()
    for _ in range(20):
        subscription.pause([A])
        await asyncio.sleep(0)
        subscription.resume([B])
        await asyncio.sleep(0)
        subscription.pause([B])
    assert not polling.done()

    subscription.resume([A])
    async with asyncio.timeout(60):
        assert list(await polling) == [A]
