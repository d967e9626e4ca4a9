"""A member of a consumer's group: polls, hands records to the partitions' workers, and follows the rebalances.

Only the database transaction makes things true. The offsets told to the log follow, for those who watch the lag.
"""

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Coroutine, Sequence
from datetime import timedelta

import structlog

from consumers.batch import Batches
from consumers.controls import Controls
from consumers.failing import Failing, GivenUp, explained, is_away, outage_of
from consumers.handling import Handling
from consumers.housekeeping import Housekeeping
from consumers.metrics import FENCED, HEARTBEAT, PARTITIONS
from consumers.parked_batch import ParkedBatches
from consumers.parking import Parking
from consumers.positions import From, Positions, gap
from consumers.settings import ConsumerSettings
from consumers.unit import Database, FenceLost
from consumers.worker import Worker
from surefoot.consumer import Consumer, HandlerMisuse
from surefoot.errors import ConfigurationError, LeaseLost, LogUnavailable
from surefoot.log.port import EventLog, StoredRecord, Subscription, TopicPartition
from surefoot.log.postgres_records import RecordsGone
from surefoot.telemetry.alerts import Alerts
from surefoot.telemetry.outage import Outage
from surefoot.testing.failpoints import failpoint

log = structlog.get_logger("surefoot.consumer")
POLL = timedelta(milliseconds=500)
POLL_RECORDS = 4000


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
    ) -> None:
        if not consumer.handlers:
            raise ConfigurationError(f"The consumer {consumer.name} has no handlers, so there is nothing to run.")
        self.name = member_name(consumer.name)
        self._consumer = consumer
        self._url = database_url
        self._log = event_log
        self._settings = settings
        self._once = once
        self._topics = [topic.name for topic in consumer.topics]
        self._database = Database(
            database_url,
            settings.db_schema,
            name=self.name,
            size=settings.concurrency,
            lock_timeout=settings.lock_timeout,
            handler_timeout=settings.handler_timeout,
        )
        self._alerts = Alerts(settings.alert_webhook)
        self._positions = Positions(consumer.name, self.name, self._database, event_log, begin)
        self._parking = Parking(settings.db_schema)
        controls = Controls(consumer, self._parking)
        handling = Handling(consumer, settings.db_schema, settings.handler_timeout)
        parts = (consumer, self._database, handling, self._parking, controls)
        self._batches, self._parked = Batches(*parts), ParkedBatches(*parts)
        self._slots = asyncio.Semaphore(settings.outside_calls)
        self._stopping = asyncio.Event()
        self._workers: dict[TopicPartition, Worker] = {}
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        self._fenced: set[TopicPartition] = set()
        self._to_start: set[TopicPartition] = set()
        self._told: dict[TopicPartition, int] = {}
        self._failed: Exception | None = None
        self._subscription: Subscription

    def stop(self) -> None:
        """Finish the batches under way, then end `run`."""
        self._stopping.set()

    @property
    def next_offsets(self) -> dict[TopicPartition, int]:
        return {where: worker.next_offset for where, worker in self._workers.items()}

    async def run(self) -> None:
        """Consume until stopped. Raises only what waiting cannot mend."""
        ends = await self._ends() if self._once else {}
        outage = outage_of(self._consumer.name, "the event log", self._settings)
        try:
            if not await self._join(outage):
                return
            house = Housekeeping(self._consumer, self._database, self._log, self._settings)
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
            await self._alerts.close()
            await self._database.close()
        if self._failed is not None:
            raise explained(self._failed, self._url)

    async def _beside(self, work: Coroutine[object, object, None]) -> None:
        """Work that goes on beside the polls. If it fails, all of it ends, and says why."""
        try:
            await work
        except Exception as error:
            self._failed = self._failed or error
            self._stopping.set()

    async def _join(self, outage: Outage) -> bool:
        """Whether we are in: told to stop meanwhile, a member has to leave as well, or the others wait for it."""
        while not self._stopping.is_set():
            try:
                self._subscription = await self._log.subscribe(
                    self._consumer.name, self._topics, on_assigned=self._assigned, on_revoked=self._revoked
                )
            except LogUnavailable as error:
                await outage.wait(error, self._stopping)
            else:
                outage.over()
                return True
        return False

    async def _poll(self, outage: Outage, ends: dict[TopicPartition, int]) -> None:
        database = outage_of(self._consumer.name, "the database", self._settings)
        while not self._stopping.is_set() and self._failed is None:
            try:
                await self._ask_again()
                found = await self._subscription.poll(max_records=POLL_RECORDS, timeout=POLL)
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
            for where, records in found.items():
                await self._hand_over(where, records)
            if ends and not found and self._reached(ends):
                return

    async def _hand_over(self, where: TopicPartition, records: Sequence[StoredRecord]) -> None:
        worker = self._workers.get(where)
        if worker is None:
            return  # taken from us meanwhile, or being asked for again
        expected, first = worker.buffer.expected, records[0].offset
        if first > expected:
            await self._positions.check(where, expected, first)
        worker.give(records)
        if worker.buffer.is_full and not worker.is_paused:
            worker.is_paused = True
            self._subscription.pause([where])

    # -- partitions that come and go ---------------------------------------------------------------------------------

    async def _assigned(self, coming: frozenset[TopicPartition]) -> None:
        try:
            for where in sorted(coming):
                await self._start(where)
        except BaseException:
            await self._stop_workers(coming)  # the log tells us of all of them again, or never
            raise
        log.info("partitions", consumer=self._consumer.name, owned=len(self._workers), gained=_shown(coming))
        PARTITIONS.labels(self._consumer.name).set(len(self._workers))

    async def _revoked(self, going: frozenset[TopicPartition]) -> None:
        self._to_start -= going
        await self._stop_workers(going)
        log.info("partitions", consumer=self._consumer.name, owned=len(self._workers), gone=_shown(going))
        PARTITIONS.labels(self._consumer.name).set(len(self._workers))

    async def _start(self, where: TopicPartition) -> None:
        await self._stop_workers(frozenset([where]))
        position, next_offset = await self._positions.take(where, self._subscription)
        try:
            await self._subscription.seek(where, next_offset)
        except LeaseLost:
            return  # taken from us again while we took it: whoever has it now finds its fence old and raises it again
        worker = Worker(
            self._consumer,
            position,
            settings=self._settings,
            database=self._database,
            batches=self._batches,
            parked=self._parked,
            parking=self._parking,
            failing=Failing(self._consumer, self._url, self._settings, self._alerts),
            slots=self._slots,
            next_offset=next_offset,
            on_room=self._resume,
        )
        self._workers[where] = worker
        self._told[where] = next_offset
        self._tasks[where] = asyncio.create_task(self._work(where, worker))

    def _resume(self, where: TopicPartition) -> None:
        self._subscription.resume([where])

    async def _work(self, where: TopicPartition, worker: Worker) -> None:
        try:
            await worker.run()
        except FenceLost as lost:
            FENCED.labels(self._consumer.name).inc()
            log.warning(str(lost), consumer=self._consumer.name)
            self._fenced.add(where)
        except GivenUp:
            return
        except asyncio.CancelledError:
            if where in self._tasks and not self._stopping.is_set():
                # Not by us. Nobody would notice that this partition stands still.
                self._failed = self._failed or HandlerMisuse(
                    f"A handler cancelled the task it ran in, which is the loop of {where.topic}/{where.partition}: "
                    "cancel only tasks that the handler has made itself."
                )
                self._stopping.set()
            raise
        except Exception as error:
            self._failed = self._failed or error
            self._stopping.set()

    async def _ask_again(self) -> None:
        """A worker found its fence old. The log knows who owns the partition: if it takes our offset, we do, and go on
        under a new fence; if it refuses, somebody else does."""
        for where in sorted(self._fenced):
            self._fenced.discard(where)
            worker = self._workers.get(where)
            if worker is None:
                continue
            try:
                await self._subscription.commit({where: worker.next_offset})
            except LeaseLost:
                await self._stop_workers(frozenset([where]))
            except LogUnavailable:
                self._fenced.add(where)
            else:
                self._to_start.add(where)
        for where in sorted(self._to_start):
            await self._start(where)
            self._to_start.discard(where)
            self._subscription.resume([where])

    async def _stop_workers(self, going: frozenset[TopicPartition]) -> None:
        """Let each finish the transaction it is in, but not longer than the others will wait."""
        tasks = {where: self._tasks.pop(where) for where in going if where in self._tasks}
        workers = {where: self._workers[where] for where in tasks}
        for worker in workers.values():
            worker.stop()
        if tasks:
            _, late = await asyncio.wait(tasks.values(), timeout=self._settings.handover.total_seconds())
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        await self._tell({where: worker.next_offset for where, worker in workers.items()})
        for where in tasks:
            self._workers.pop(where, None)
            self._told.pop(where, None)

    # -- what the log is told ----------------------------------------------------------------------------------------

    async def _tell_log(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._settings.commit_interval.total_seconds())
            moved = {where: at for where, at in self.next_offsets.items() if self._told.get(where) != at}
            await self._tell(moved)

    async def _tell(self, offsets: dict[TopicPartition, int]) -> None:
        if not offsets:
            return
        try:
            await self._subscription.commit(offsets)
        except (LeaseLost, LogUnavailable):
            return  # nothing rests on it: the database knows where work goes on
        self._told |= {where: at for where, at in offsets.items() if where in self._workers}
        await failpoint("consumer.offset")

    # -- the end -----------------------------------------------------------------------------------------------------

    async def _ends(self) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = {}
        for topic in self._topics:
            ends |= await self._log.end_offsets(topic)
        return ends

    def _reached(self, ends: dict[TopicPartition, int]) -> bool:
        """For `--once`: whether all that was there at the start has been worked off by us."""
        workers = self._workers
        return all(where in workers and workers[where].next_offset >= end for where, end in ends.items()) and all(
            worker.idle.is_set() for worker in workers.values()
        )

    async def _leave(self, helpers: Sequence[asyncio.Task[None]]) -> None:
        try:
            await self._stop_workers(frozenset(self._tasks))
            await self._subscription.close()
        except LogUnavailable:
            log.info("the event log is away; its group will notice that we are gone", consumer=self._consumer.name)
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.wait(helpers)


def _shown(partitions: frozenset[TopicPartition]) -> list[str]:
    return [f"{where.topic}/{where.partition}" for where in sorted(partitions)]
