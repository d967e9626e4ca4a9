"""A member of a consumer's group: joins, polls, hands records to the partitions' workers, leaves.

Only the database transaction makes things true. The offsets told to the log follow, for those who watch the lag.
"""

import contextlib
import os
import secrets
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
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
from surefoot.log.port import EventLog, StoredRecord, Subscription, TopicPartition
from surefoot.log.postgres.line import RecordsGone
from surefoot.service import NO_REST, CutOff, LoopService, Outage, Together
from surefoot.telemetry.alerts import Alerts
from surefoot.telemetry.health import Finding

log = structlog.get_logger("surefoot.consumer")
POLL = timedelta(milliseconds=500)
TELL_OF_WAITING_S = 10.0
"""Partitions move within seconds when a member joins; what has not come by then is not about to."""
CUT_OFF_AFTER = timedelta(seconds=1)
"""Nothing rests on what housekeeping is at, nor on what the log is told, when we are to stop."""


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
        self._settings = settings
        self._session_settings = session_settings
        self._database = self._connections(settings.concurrency)
        # Handlers may have all of those for minutes. Partitions are taken all the same, or the polls would stand still.
        self._aside = self._connections(1)
        self._alerts = Alerts(settings.alert_webhook)
        positions = Positions(consumer.name, self.name, self._aside, event_log, begin)
        self._parking = Parking(settings.db_schema)
        controls = Controls(consumer, self._parking)
        handling = Handling(consumer, settings.db_schema, settings.handler_timeout)
        self._attempts = Attempts(consumer, self._database, self._parking, controls)
        self._batches = Batches(consumer, self._database, handling, self._parking, controls, self._attempts)
        self._slots = Slots(settings.outside_calls)
        # What one partition has learned of a topic's events holds for the others.
        self._batch_sizes = {topic.name: BatchSize(settings) for topic in consumer.topics}
        self._failed: Exception | None = None
        self.partitions = Partitions(
            consumer.name,
            positions,
            self._worker,
            handover_s=settings.handover.total_seconds(),
            failed=self._fail,
            is_stopping=lambda: self._stopping.is_set(),
        )
        polls = Polls(consumer, event_log, settings, self.partitions, positions, begin=begin, once=once)
        self._stopping = polls.stopping
        telling = Telling(self.partitions, settings.commit_interval)
        house = Housekeeping(consumer, self._aside, event_log, settings, lambda: self.next_offsets)
        self._parts = Together(polls, CutOff(telling, house, after=CUT_OFF_AFTER))

    def stop(self) -> None:
        """Finish the batches under way, then end `run`."""
        self._parts.stop()

    def readiness(self) -> Iterable[Finding]:
        return self._parts.readiness()

    @property
    def next_offsets(self) -> dict[TopicPartition, int]:
        return self.partitions.next_offsets

    async def run(self) -> None:
        """Consume until stopped. Raises only what waiting cannot mend."""
        watchdog = Watchdog(self._consumer.name)
        watchdog.start()
        try:
            await self._parts.run()
        finally:
            watchdog.stop()
            await self._alerts.close()
            await self._database.close()
            await self._aside.close()
        if self._failed is not None:
            raise explained(self._failed, self._url)

    def _fail(self, error: Exception) -> None:
        """All of it ends; the first failure is the one that is told."""
        self._failed = self._failed or error
        self.stop()

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
            on_room=lambda where: self.partitions.subscription.resume([where]),
        )


class Polls(LoopService):
    """Joins the group, polls, hands records to the partitions' workers, leaves. With `once` it stops when all that was
    there at the start is worked off."""

    def __init__(
        self,
        consumer: Consumer,
        event_log: EventLog,
        settings: ConsumerSettings,
        partitions: Partitions,
        positions: Positions,
        *,
        begin: From | None,
        once: bool,
    ) -> None:
        super().__init__("polls")
        self._consumer = consumer
        self._log = event_log
        self._topics = [topic.name for topic in consumer.topics]
        self._partitions = partitions
        self._positions = positions
        self._begin = begin
        self._once = once
        self._ends: dict[TopicPartition, int] = {}
        self._subscription: Subscription
        self._is_member = False
        self._has_polled = False
        self._poll_size = PollSize(settings)
        self._log_away = outage_of(consumer.name, "the event log", settings)
        self._database_away = outage_of(consumer.name, "the database", settings)

    def stop(self) -> None:
        super().stop()
        for worker in self._partitions.workers.values():
            worker.stop()  # at once: the poll may be waiting for records

    def readiness(self) -> Iterable[Finding]:
        """A member is ready once it has polled: with other members beside it, it may have no partition at all."""
        yield self._log_away.finding("log")
        yield self._database_away.finding("database")
        if self._has_polled:
            yield from self._partitions.readiness()
        else:
            yield Finding("ownership", False, f"{self._consumer.name} has not joined its group yet")

    async def run(self) -> None:
        if self._once:
            for topic in self._topics:
                self._ends |= await self._log.end_offsets(topic)
        await super().run()

    async def round(self) -> timedelta:
        if self._is_member:
            await self._poll()
        else:
            await self._join()
        self._log_away.over()
        return NO_REST

    async def outage_of(self, error: Exception) -> Outage:
        if isinstance(error, LogUnavailable):
            return self._log_away
        if isinstance(error, RecordsGone):
            raise gap(self._consumer.name, error.where, error.wanted, error.first) from error
        if not self._is_member or not is_away(error):
            raise error
        return self._database_away  # taking a partition; the next poll tries again

    async def close(self) -> None:
        """Leave. A member that was told to stop while it joined has to leave as well, or the others wait for it."""
        self.stopping.set()
        if not self._is_member:
            return
        try:
            await self._partitions.stop_all()
            await self._subscription.close()
        except LogUnavailable:
            log.info("the event log is away; its group will notice that we are gone", consumer=self._consumer.name)

    async def _join(self) -> None:
        self._subscription = self._partitions.subscription = await self._log.subscribe(
            self._consumer.name,
            self._topics,
            on_assigned=self._partitions.assigned,
            on_revoked=self._partitions.revoked,
        )
        self._is_member = True
        self._tell_of_waiting_at = time.monotonic() + TELL_OF_WAITING_S

    async def _poll(self) -> None:
        await self._partitions.ask_again()
        found = await self._subscription.poll(max_records=self._poll_size.records, timeout=POLL)
        await self._hand_over(found)
        self._database_away.over()
        self._has_polled = True
        HEARTBEAT.labels(self._consumer.name).set_to_current_time()
        self._poll_size.learn(found.values())
        self._tell_of_waiting()
        if self._ends and not found and self._reached():
            self._tell_of_others()
            self.stop()

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
        worker = self._partitions.workers.get(where)
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
            worker = self._partitions.workers.get(where)
            if worker is not None:
                with contextlib.suppress(LeaseLost):  # it moved: its new owner reads them
                    await self._subscription.seek(where, worker.buffer.expected)

    def _reached(self) -> bool:
        """For `--once`: whether all that was there at the start, in the partitions that are ours, is worked off."""
        workers, ends, ours = self._partitions.workers, self._ends, self._subscription.assigned()
        if not ours:
            return False  # none has come yet
        return all(where in workers and workers[where].next_offset >= ends.get(where, 0) for where in ours) and all(
            worker.idle.is_set() for worker in workers.values()
        )

    def _tell_of_others(self) -> None:
        """For `--once`: what it leaves to others, so that nobody takes it for done."""
        others = sorted(self._ends.keys() - self._subscription.assigned())
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


class Telling(LoopService):
    """Tells the log how far the partitions are."""

    def __init__(self, partitions: Partitions, every: timedelta) -> None:
        super().__init__("telling the log", rest_first=every)
        self._partitions = partitions
        self._every = every

    async def round(self) -> timedelta:
        await self._partitions.tell_what_moved()
        return self._every
