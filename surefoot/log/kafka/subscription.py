"""Reading from Kafka as a member of a group: manual commits, partitions that come and go.

Rebalances are eager (aiokafka has no cooperative one): all partitions are revoked and the new share assigned, with the
sticky assignor so that most stay where they are. `poll` never fails because of one. New partitions are paused until
`poll` has called `on_assigned` for them, so no record arrives before its owner is ready; if that fails, the next `poll`
tries again. `on_revoked` is called as soon as Kafka takes partitions back, and waited for (up to the session timeout).
A partition that our caller paused is not paused in aiokafka, which would throw away what it has fetched, and later wait
for the answer about all other partitions (half a second) before it fetches that again. It is left out of what is asked.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from surefoot.errors import LeaseLost
from surefoot.log.kafka.aiokafka_typed import (
    CommitFailed,
    IllegalState,
    KafkaError,
    kafka_partition,
    new_consumer,
    read,
    rebalance_listener,
    stop_consumer,
    stored,
)
from surefoot.log.kafka.failures import is_transient, said, unavailable
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import Rebalanced, StoredRecord, TopicPartition

_NONE: frozenset[TopicPartition] = frozenset()
_LOOK_UP_S = 0.2
"""However long a poll waits, it looks up this often for partitions that came meanwhile and are still unannounced."""
_AFTER_FAILURE_S = 0.02


class KafkaSubscription:
    def __init__(
        self,
        settings: KafkaSettings,
        group: str,
        *,
        max_fetch_bytes: int,
        on_assigned: Rebalanced | None,
        on_revoked: Rebalanced | None,
    ) -> None:
        self._settings = settings
        self._group = group
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._consumer = new_consumer(settings, group, max_fetch_bytes=max_fetch_bytes)
        self._assigned = self._coming = self._paused = _NONE
        self._moving = asyncio.Lock()
        self._looking: asyncio.Timeout | None = None
        self._failed: Exception | None = None

    async def join(self, topics: Sequence[str]) -> None:
        self._consumer.subscribe(topics, listener=rebalance_listener(self._come, self._go))
        # Kafka holds a newcomer back until the other members have answered or their session has run out.
        patience = self._settings.request_timeout + self._settings.session_timeout
        try:
            async with asyncio.timeout(patience.total_seconds()):
                await self._consumer.start()
        except (KafkaError, OSError) as error:
            await self.close()
            raise unavailable(error, self._settings, f"joining the group {self._group}") from error
        except BaseException:
            await self.close()
            raise

    def assigned(self) -> frozenset[TopicPartition]:
        return self._assigned

    async def poll(
        self, *, max_records: int = 500, timeout: timedelta = timedelta(seconds=1)
    ) -> Mapping[TopicPartition, Sequence[StoredRecord]]:
        deadline = time.monotonic() + timeout.total_seconds()
        while True:
            self._raise_failure()
            if self._coming:
                await self._welcome()
            left_s = max(0.0, deadline - time.monotonic())
            found = await self._read(min(left_s, _LOOK_UP_S), max_records)
            if found or time.monotonic() >= deadline:
                return found

    async def commit(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        wanted = {kafka_partition(*where): offset for where, offset in next_offsets.items()}
        try:
            async with asyncio.timeout(self._settings.request_timeout.total_seconds()):
                await self._consumer.commit(wanted)
        except (CommitFailed, IllegalState) as error:
            raise LeaseLost(
                f"Kafka refused the offsets of the group {self._group}: a partition belongs to another member now, or "
                f"soon ({said(error)}). Stop working on it; its new owner goes on from the last committed offset."
            ) from error
        except (KafkaError, OSError) as error:
            raise unavailable(error, self._settings, f"committing for the group {self._group}") from error

    async def committed(self, where: TopicPartition) -> int | None:
        try:
            async with asyncio.timeout(self._settings.request_timeout.total_seconds()):
                return await self._consumer.committed(kafka_partition(*where))
        except (KafkaError, OSError) as error:
            raise unavailable(error, self._settings, f"asking where the group {self._group} is") from error

    async def seek(self, where: TopicPartition, offset: int) -> None:
        if where not in self._assigned | self._coming:
            raise LeaseLost(f"{where.topic}/{where.partition} is not assigned to us (any more): nothing to seek in.")
        self._consumer.seek(kafka_partition(*where), offset)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused |= (self._assigned | self._coming).intersection(partitions)
        self._look_anew()

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused = self._paused.difference(partitions)
        self._look_anew()

    async def close(self) -> None:
        try:
            await self._go(self._assigned)
        finally:
            await stop_consumer(self._consumer, self._settings.request_timeout)
        self._raise_failure()

    async def _read(self, timeout_s: float, max_records: int) -> Mapping[TopicPartition, Sequence[StoredRecord]]:
        wanted = self._assigned - self._paused if self._paused else None
        try:
            async with asyncio.timeout(None) as self._looking:
                found = await read(self._consumer, timeout_s, max_records, wanted)
        except TimeoutError:
            return {}  # `_look_anew`
        except (KafkaError, OSError) as error:
            if is_transient(error):
                # A leader moved, a broker left: the consumer finds its way by itself, if we let others have their turn.
                await asyncio.sleep(min(timeout_s, _AFTER_FAILURE_S))
                return {}
            raise unavailable(error, self._settings, f"reading for the group {self._group}") from error
        finally:
            self._looking = None
        for where in self._paused.intersection(found):  # paused since we asked: they are to come again
            self._consumer.seek(kafka_partition(*where), found[where][0].offset)
        return {
            TopicPartition(*where): [stored(one) for one in messages]
            for where, messages in found.items()
            if where not in self._paused
        }

    def _look_anew(self) -> None:
        """What a poll that is waiting wants has changed."""
        if self._looking is not None and not self._looking.expired():
            self._looking.reschedule(asyncio.get_running_loop().time())

    def _raise_failure(self) -> None:
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    async def _come(self, partitions: Iterable[tuple[str, int]]) -> None:
        # Before the first await, so before anything is fetched for them.
        self._coming = frozenset(TopicPartition(*one) for one in partitions)
        self._consumer.pause(*(kafka_partition(*one) for one in self._coming))

    async def _welcome(self) -> None:
        async with self._moving:
            coming = self._coming
            self._paused -= coming  # in an earlier time with us, or by an `on_assigned` that failed
            if coming and self._on_assigned is not None:
                await self._on_assigned(coming)
            # What was taken back meanwhile is being waited for by `_go`, which has the next turn.
            self._assigned |= coming
            if self._coming == coming:
                self._coming = _NONE
                self._consumer.resume(*(kafka_partition(*one) for one in coming))

    async def _go(self, _: object) -> None:
        self._coming = _NONE
        async with self._moving:
            going, self._assigned = self._assigned, _NONE
            if not going or self._on_revoked is None:
                return
            try:
                await self._on_revoked(going)
            except Exception as error:
                self._failed = error  # aiokafka would log and forget it: the next poll raises it
