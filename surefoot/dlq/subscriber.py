"""Reading topics as a member of a group: what is read is made true in the database, then the log is told.

The database transaction comes first and bears being repeated. So nothing is lost between the two, and what is read
twice changes nothing. What is away is waited for; what was read meanwhile is kept in hand.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta

import structlog

from surefoot.database.connection import Connection, close_quietly, connect, explain, is_database_error, is_outage
from surefoot.dlq.metrics import GONE, HEARTBEAT, OUTAGES
from surefoot.dlq.settings import DlqSettings
from surefoot.errors import ConfigurationError, LeaseLost, LogUnavailable
from surefoot.failpoints import failpoint
from surefoot.log.port import EventLog, StoredRecord, Subscription, TopicPartition
from surefoot.log.postgres.records import RecordsGone
from surefoot.telemetry.outage import Outage

log = structlog.get_logger("surefoot.dlq")
POLL = timedelta(milliseconds=500)
SHORTEST_PAUSE = timedelta(milliseconds=50)
LONGEST_PAUSE = timedelta(seconds=3)
LOCK_TIMEOUT = timedelta(seconds=5)
COMMAND_TIMEOUT = timedelta(seconds=15)

Take = Callable[[Connection, Sequence[StoredRecord]], Awaitable[None]]
"""Make records true, in a transaction of its own. It may be given the same ones again."""
Topics = Callable[[], Awaitable[frozenset[str]]]


class Member:
    def __init__(
        self, part: str, url: str, event_log: EventLog, settings: DlqSettings, *, group: str, topics: Topics, take: Take
    ) -> None:
        self._part = part
        self._url = url
        self._log = event_log
        self._settings = settings
        self._group = group
        self._topics = topics
        self._take = take
        self._log_away = self._outage("the event log")
        self._database_away = self._outage("the database")
        self._connection: Connection | None = None
        self._told_of_none = False
        self._next: dict[TopicPartition, int] = {}
        """The offset that comes next, in the partitions that were read from since they came."""
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        """Until stopped. Raises only what waiting cannot mend."""
        try:
            while not self._stopping.is_set():
                try:
                    topics = await self._topics()
                    if not topics:
                        await self._wait_for_topics()
                    elif (subscription := await self._joined(topics)) is not None:
                        await self._follow(subscription, topics)
                except LogUnavailable as error:
                    await self._log_away.wait(error, self._stopping)
        finally:
            await self._disconnect()

    async def _joined(self, topics: frozenset[str]) -> Subscription | None:
        """None if one of the topics has gone since they were named."""
        try:
            return await self._log.subscribe(self._group, sorted(topics), on_assigned=self._come)
        except ConfigurationError:
            if await self._topics() == topics:
                raise
            return None

    async def _follow(self, subscription: Subscription, topics: frozenset[str]) -> None:
        """Read these topics, until there are others."""
        self._log_away.over()
        log.info("reading", part=self._part, topics=sorted(topics))
        self._told_of_none = False
        look_at = self._next_look()
        try:
            while not self._stopping.is_set():
                try:
                    if time.monotonic() >= look_at:
                        if await self._topics() != topics:
                            return
                        look_at = self._next_look()
                    await self._round(subscription)
                except LogUnavailable as error:
                    await self._log_away.wait(error, self._stopping)
                else:
                    self._log_away.over()
        finally:
            with contextlib.suppress(LogUnavailable):  # its group will notice that we are gone
                await subscription.close()

    async def _round(self, subscription: Subscription) -> None:
        try:
            found = await subscription.poll(max_records=self._settings.poll_records, timeout=POLL)
        except RecordsGone as gone:
            self._tell_of_gap(gone.where, gone.wanted, gone.first)
            with contextlib.suppress(LeaseLost):  # its new owner finds out by itself
                await subscription.seek(gone.where, gone.first)
            self._next[gone.where] = gone.first
            return
        HEARTBEAT.labels(self._part).set_to_current_time()
        await self._look_for_gaps(subscription, found)
        if found and await self._made_true([record for records in found.values() for record in records]):
            await failpoint(f"dlq.{self._part}.taken")
            await self._tell_log(subscription, found)
            await failpoint(f"dlq.{self._part}.committed")

    async def _made_true(self, records: Sequence[StoredRecord]) -> bool:
        """Whether they are in the database; not if we are to stop first, and whoever reads next gets them again."""
        while not self._stopping.is_set():
            try:
                if self._connection is None:
                    self._connection = await self._connected()
                await self._take(self._connection, records)
            except Exception as error:
                if is_contended(error):
                    log.info("somebody else has the same rows in hand; once more", part=self._part)
                    continue
                await self._disconnect()
                if not may_pass(error):
                    raise explain(error, self._url) if is_database_error(error) else error from error
                await self._database_away.wait(error, self._stopping)
            else:
                self._database_away.over()
                return True
        return False

    async def _tell_log(
        self, subscription: Subscription, found: Mapping[TopicPartition, Sequence[StoredRecord]]
    ) -> None:
        next_offsets = {where: records[-1].offset + 1 for where, records in found.items()}
        try:
            await subscription.commit(next_offsets)
        except LeaseLost as error:  # its new owner reads them once more, and nothing comes of it
            log.info("a partition moved while its records were taken", part=self._part, error=str(error))

    async def _come(self, partitions: frozenset[TopicPartition]) -> None:
        """Somebody else may have read on in these, since they were ours before."""
        for where in partitions:
            self._next.pop(where, None)

    async def _look_for_gaps(
        self, subscription: Subscription, found: Mapping[TopicPartition, Sequence[StoredRecord]]
    ) -> None:
        """A log may pass over by itself what was removed. Nobody can bring it back, but somebody has to know."""
        for where, records in found.items():
            with contextlib.suppress(LogUnavailable):  # the records are in hand, and come first
                wanted = self._next.get(where)
                if wanted is None:
                    wanted = await subscription.committed(where)
                if wanted is not None and records[0].offset > wanted:
                    first = (await self._log.first_offsets(where.topic)).get(where, 0)
                    if first > wanted:
                        self._tell_of_gap(where, wanted, min(first, records[0].offset))
            self._next[where] = records[-1].offset + 1

    def _tell_of_gap(self, where: TopicPartition, wanted: int, first: int) -> None:
        GONE.labels(where.topic).inc(first - wanted)
        log.error(
            "records were removed from the log before they were read; give the topic a longer retention",
            part=self._part,
            at=f"{where.topic}/{where.partition}",
            offsets=f"{wanted} to {first - 1}",
        )

    async def _wait_for_topics(self) -> None:
        self._log_away.over()
        if not self._told_of_none:
            self._told_of_none = True
            log.warning("the log has none of the topics yet; run: surefoot topics create", part=self._part)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), self._settings.look_for_topics.total_seconds())

    async def _connected(self) -> Connection:
        return await connect(
            self._url,
            name=f"surefoot dlq {self._part}",
            lock_timeout=LOCK_TIMEOUT,
            transaction_timeout=self._settings.transaction_timeout,
            command_timeout=COMMAND_TIMEOUT,
        )

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await close_quietly(connection)

    def _next_look(self) -> float:
        return time.monotonic() + self._settings.look_for_topics.total_seconds()

    def _outage(self, what: str) -> Outage:
        counter = OUTAGES.labels(self._part, what)
        return Outage(f"dlq {self._part}: {what}", counter, shortest=SHORTEST_PAUSE, longest=LONGEST_PAUSE)


def is_contended(error: BaseException) -> bool:
    """A deadlock, or a lock that was not had in time. The wait was before the error: it need not be repeated."""
    return getattr(error, "sqlstate", None) in ("40P01", "40001", "55P03")


def may_pass(error: BaseException) -> bool:
    """Whether waiting can mend it. A value that asyncpg cannot encode is an InterfaceError, as a lost connection is."""
    return is_outage(error) and not isinstance(error, ValueError)
