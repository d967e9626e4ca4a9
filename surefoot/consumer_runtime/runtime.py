"""A member of a consumer's group: joins, polls, hands records to the partitions' workers, leaves.

Only the database transaction makes things true. The offsets told to the log follow, for those who watch the lag.
"""

import asyncio
import contextlib
import os
import secrets
import socket
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from datetime import timedelta

import structlog

from surefoot.consumer import Consumer
from surefoot.consumer_runtime.attempts import Attempts
from surefoot.consumer_runtime.batch import Batches
from surefoot.consumer_runtime.buffer import BatchSize, PollSize
from surefoot.consumer_runtime.controls import Controls
from surefoot.consumer_runtime.failing import Failing, explained, is_away, outage_of
from surefoot.consumer_runtime.handling import Handling, Slots
from surefoot.consumer_runtime.housekeeping import Housekeeping
from surefoot.consumer_runtime.metrics import HEARTBEAT
from surefoot.consumer_runtime.parking import Parking
from surefoot.consumer_runtime.partitions import From, Partitions, Positions, gap
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.consumer_runtime.unit import Database, Position
from surefoot.consumer_runtime.watchdog import Watchdog
from surefoot.consumer_runtime.worker import Worker
from surefoot.errors import ConfigurationError, LeaseLost, LogUnavailable
from surefoot.log.port import EventLog, StoredRecord, TopicPartition
from surefoot.log.postgres.line import RecordsGone
from surefoot.service import Outage
from surefoot.telemetry.alerts import Alerts

log = structlog.get_logger("surefoot.consumer")
POLL = timedelta(milliseconds=500)
TELL_OF_WAITING_S = 10.0
"""Partitions move within seconds when a member joins; what has not come by then is not about to."""


def member_name(consumer: str) -> str:
    """Says where it runs and is never used twice."""
    return f"{consumer}-{socket.gethostname()[:24]}-{os.getpid()}-{secrets.token_hex(3)}"


class ConsumerRuntime:
    def __init__(
        self,
        consumer: Consumer,
        database_url: str,
        event_log: EventLog,
        settings: ConsumerSettings,
        *,
        begin: From | None = None,
        once: bool = False,
        session_settings: Mapping[str, str] | None = None,
    ) -> None:
        """`session_settings`: of the database, for handlers that need others than its own."""
        if not consumer.handlers:
            raise ConfigurationError(f"The consumer {consumer.name} has no handlers, so there is nothing to run.")
        self.name = member_name(consumer.name)
        self._consumer = consumer
        self._url = database_url
        self._log = event_log
        self._settings = settings
        self._begin = begin
        self._once = once
        self._session_settings = session_settings
        self._topics = [topic.name for topic in consumer.topics]
        self._database = self._connections(settings.concurrency)
        # Handlers may have all of those for minutes. Partitions are taken all the same, or the polls would stand still.
        self._aside = self._connections(1)
        self._alerts = Alerts(settings.alert_webhook)
        self._positions = Positions(consumer.name, self.name, self._aside, event_log, begin)
        self._parking = Parking(settings.db_schema)
        controls = Controls(consumer, self._parking)
        handling = Handling(consumer, settings.db_schema, settings.handler_timeout)
        self._attempts = Attempts(consumer, self._database, self._parking, controls)
        self._batches = Batches(consumer, self._database, handling, self._parking, controls, self._attempts)
        self._slots = Slots(settings.outside_calls)
        # What one partition has learned of a topic's events holds for the others.
        self._batch_sizes = {topic: BatchSize(settings) for topic in self._topics}
        self._stopping = asyncio.Event()
        self._failed: Exception | None = None
        self._poll_size = PollSize(settings)
        self.partitions = Partitions(
            consumer.name,
            self._positions,
            self._worker,
            handover_s=settings.handover.total_seconds(),
            failed=self._fail,
            is_stopping=self._stopping.is_set,
        )

    def stop(self) -> None:
        """Finish the batches under way, then end `run`."""
        self._stopping.set()
        for worker in self.partitions.workers.values():
            worker.stop()  # at once: the loop that polls may be waiting for records

    @property
    def next_offsets(self) -> dict[TopicPartition, int]:
        return self.partitions.next_offsets

    async def run(self) -> None:
        """Consume until stopped. Raises only what waiting cannot mend."""
        ends = await self._ends() if self._once else {}
        outage = outage_of(self._consumer.name, "the event log", self._settings)
        watchdog = Watchdog(self._consumer.name)
        watchdog.start()
        try:
            if not await self._join(outage):
                return
            house = Housekeeping(self._consumer, self._aside, self._log, self._settings)
            helpers = [
                asyncio.create_task(self._beside(self._tell_log())),
                asyncio.create_task(self._beside(house.keep(lambda: self.next_offsets, self._stopping))),
            ]
            try:
                await self._poll(outage, ends)
            finally:
                self._stopping.set()
                await self._leave(helpers)
        finally:
            watchdog.stop()
            await self._alerts.close()
            await self._database.close()
            await self._aside.close()
        if self._failed is not None:
            raise explained(self._failed, self._url)

    async def _beside(self, work: Coroutine[object, object, None]) -> None:
        """Work that goes on beside the polls. If it fails, all of it ends, and says why."""
        try:
            await work
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """All of it ends; the first failure is the one that is told."""
        self._failed = self._failed or error
        self._stopping.set()

    def _connections(self, size: int) -> Database:
        lock_timeout, handler_timeout = self._settings.lock_timeout, self._settings.handler_timeout
        return Database(
            self._url,
            self._settings.db_schema,
            name=self.name,
            size=size,
            lock_timeout=lock_timeout,
            handler_timeout=handler_timeout,
            session_settings=self._session_settings,
        )

    def _worker(self, position: Position, next_offset: int) -> Worker:
        return Worker(
            self._consumer,
            position,
            settings=self._settings,
            database=self._database,
            batches=self._batches,
            attempts=self._attempts,
            parking=self._parking,
            failing=Failing(self._consumer, self._url, self._settings, self._alerts),
            slots=self._slots,
            batch_size=self._batch_sizes[position.where.topic],
            next_offset=next_offset,
            on_room=lambda where: self._subscription.resume([where]),
        )

    async def _join(self, outage: Outage) -> bool:
        """Whether we are in: told to stop meanwhile, a member has to leave as well, or the others wait for it."""
        while not self._stopping.is_set():
            try:
                self._subscription = self.partitions.subscription = await self._log.subscribe(
                    self._consumer.name,
                    self._topics,
                    on_assigned=self.partitions.assigned,
                    on_revoked=self.partitions.revoked,
                )
            except LogUnavailable as error:
                await outage.wait(error, self._stopping)
            else:
                outage.over()
                return True
        return False

    async def _poll(self, outage: Outage, ends: dict[TopicPartition, int]) -> None:
        database = outage_of(self._consumer.name, "the database", self._settings)
        self._tell_of_waiting_at = time.monotonic() + TELL_OF_WAITING_S
        while not self._stopping.is_set() and self._failed is None:
            try:
                await self.partitions.ask_again()
                found = await self._subscription.poll(max_records=self._poll_size.records, timeout=POLL)
                await self._hand_over(found)
            except LogUnavailable as error:
                await outage.wait(error, self._stopping)
                continue
            except RecordsGone as gone:
                raise gap(self._consumer.name, gone.where, gone.wanted, gone.first) from gone
            except Exception as error:
                if not is_away(error):
                    raise
                await database.wait(error, self._stopping)  # taking a partition; the next poll tries again
                continue
            outage.over()
            database.over()
            HEARTBEAT.labels(self._consumer.name).set_to_current_time()
            self._poll_size.learn(found.values())
            self._tell_of_waiting()
            if ends and not found and self._reached(ends):
                self._tell_of_others(ends)
                return

    async def _hand_over(self, found: Mapping[TopicPartition, Sequence[StoredRecord]]) -> None:
        """Give each worker its records. If the log goes away meanwhile, those that nobody got are read again."""
        left = dict(found)
        try:
            for where, records in found.items():
                await self._give(where, records)
                del left[where]
        except Exception:
            await self._read_again(left)
            raise

    async def _give(self, where: TopicPartition, records: Sequence[StoredRecord]) -> None:
        worker = self.partitions.workers.get(where)
        if worker is None:
            return  # taken from us meanwhile, or being asked for again
        expected, first = worker.buffer.expected, records[0].offset
        if first > expected:
            await self._positions.check(where, expected, first)
        worker.give(records)
        if worker.buffer.is_full and not worker.is_paused:
            worker.is_paused = True
            self._subscription.pause([where])

    async def _read_again(self, partitions: Iterable[TopicPartition]) -> None:
        for where in partitions:
            worker = self.partitions.workers.get(where)
            if worker is not None:
                with contextlib.suppress(LeaseLost):  # it moved: its new owner reads them
                    await self._subscription.seek(where, worker.buffer.expected)

    async def _tell_log(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._settings.commit_interval.total_seconds())
            await self.partitions.tell_what_moved()

    async def _ends(self) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = {}
        for topic in self._topics:
            ends |= await self._log.end_offsets(topic)
        return ends

    def _reached(self, ends: dict[TopicPartition, int]) -> bool:
        """For `--once`: whether all that was there at the start, in the partitions that are ours, is worked off."""
        workers, ours = self.partitions.workers, self._subscription.assigned()
        if not ours:
            return False  # none has come yet
        return all(where in workers and workers[where].next_offset >= ends.get(where, 0) for where in ours) and all(
            worker.idle.is_set() for worker in workers.values()
        )

    def _tell_of_others(self, ends: Mapping[TopicPartition, int]) -> None:
        """For `--once`: what it leaves to others, so that nobody takes it for done."""
        others = sorted(ends.keys() - self._subscription.assigned())
        if others:
            log.warning(
                "worked off what is ours; the other partitions belong to other members, which work them off",
                consumer=self._consumer.name,
                others=[f"{where.topic}/{where.partition}" for where in others],
            )

    def _tell_of_waiting(self) -> None:
        """Once: that `--from` has no effect as long as its partition is not ours."""
        where = None if self._begin is None else self._begin.where
        if where is None or self._begin is None:
            return
        if where in self._subscription.assigned():
            self._begin = None  # it has had its effect, which counts once
        elif time.monotonic() >= self._tell_of_waiting_at:
            self._tell_of_waiting_at = float("inf")
            log.warning(
                f"--from {where.topic}/{where.partition}:{self._begin.offset} waits: that partition belongs to another "
                "member. Stop the other members, or wait until it moves here.",
                consumer=self._consumer.name,
            )

    async def _leave(self, helpers: Sequence[asyncio.Task[None]]) -> None:
        try:
            await self.partitions.stop_all()
            await self._subscription.close()
        except LogUnavailable:
            log.info("the event log is away; its group will notice that we are gone", consumer=self._consumer.name)
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.wait(helpers)
