"""Reading topics as a member of a group: what is read is made true in the database, then the log is told.

The database transaction comes first and bears being repeated. So nothing is lost between the two, and what is read
twice changes nothing. What is away is waited for; what was read meanwhile is kept in hand.
"""

import contextlib
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial

import structlog

from surefoot.database.connection import Connection, connect, explain, is_outage
from surefoot.dlq.metrics import GONE, HEARTBEAT, OUTAGES
from surefoot.dlq.settings import DlqSettings
from surefoot.errors import ConfigurationError, LeaseLost, LogUnavailable
from surefoot.failpoints import failpoint
from surefoot.log.port import EventLog, StoredRecord, Subscription, TopicPartition
from surefoot.log.postgres.line import RecordsGone
from surefoot.service import NO_REST, DatabaseService, Outage
from surefoot.telemetry.health import Finding

log = structlog.get_logger("surefoot.dlq")
POLL = timedelta(milliseconds=500)
SHORTEST_PAUSE = timedelta(milliseconds=50)
LONGEST_PAUSE = timedelta(seconds=3)
LOCK_TIMEOUT = timedelta(seconds=5)
COMMAND_TIMEOUT = timedelta(seconds=15)
Polled = Mapping[TopicPartition, Sequence[StoredRecord]]


class Part(DatabaseService):
    """A part of the dead-letter service that works on the event log and on a connection of its own."""

    def __init__(self, name: str, url: str, event_log: EventLog, settings: DlqSettings) -> None:
        connecting = partial(
            connect,
            url,
            name=f"surefoot dlq {name}",
            lock_timeout=LOCK_TIMEOUT,
            transaction_timeout=settings.transaction_timeout,
            command_timeout=COMMAND_TIMEOUT,
        )
        super().__init__(name, url, connecting, _outage(name, "the database"))
        self.event_log = event_log
        self.settings = settings
        self.log_away = _outage(name, "the event log")

    def readiness(self) -> Iterable[Finding]:
        return [*super().readiness(), self.log_away.finding("log")]

    async def outage_of(self, error: Exception) -> Outage:
        if isinstance(error, LogUnavailable):
            return self.log_away
        outage = await super().outage_of(error)
        if not may_pass(error):
            raise explain(error, self._url) from error
        return outage


def _outage(name: str, what: str) -> Outage:
    counter = OUTAGES.labels(name, what)
    return Outage(f"dlq {name}: {what}", counter, shortest=SHORTEST_PAUSE, longest=LONGEST_PAUSE)


class Subscriber(Part):
    """Reads topics as a member of a group. `topics` says which, `take` makes their records true."""

    def __init__(self, name: str, url: str, event_log: EventLog, settings: DlqSettings, *, group: str) -> None:
        super().__init__(name, url, event_log, settings)
        self._group = group
        self._reading: frozenset[str] = frozenset()
        self._subscription: Subscription | None = None
        self._look_at = 0.0
        """When to see whether there are other topics."""
        self._told_of_none = False
        self._found: Polled = {}
        """What was read, and is not in the database yet."""
        self._next: dict[TopicPartition, int] = {}
        """The offset that comes next, in the partitions that were read from since they came."""

    @abstractmethod
    async def topics(self) -> frozenset[str]:
        """The topics to read."""

    @abstractmethod
    async def take(self, connection: Connection, records: Sequence[StoredRecord]) -> None:
        """Make records true, in a transaction of its own. It may be given the same ones again."""

    def readiness(self) -> Iterable[Finding]:
        return [*super().readiness(), self._ownership()]

    def _ownership(self) -> Finding:
        if self._subscription is not None:
            return Finding("ownership", True, f"the {self.name} reads {len(self._reading)} topic(s)")
        if self._told_of_none:
            return Finding("ownership", True, f"the {self.name} waits for the first topic that it is to read")
        return Finding("ownership", False, f"the {self.name} has not joined its group yet")

    async def round(self) -> timedelta:
        pause = NO_REST
        if self._subscription is None:
            pause = await self._join()
        elif self._found:
            await self._make_true(self._subscription)
        elif await self._has_other_topics():
            await self._leave()
        else:
            await self._poll(self._subscription)
        self.log_away.over()
        return pause

    async def outage_of(self, error: Exception) -> Outage:
        if not self._found and not isinstance(error, LogUnavailable):
            raise error  # the database is needed for what is in hand, and for nothing else
        return await super().outage_of(error)

    async def close(self) -> None:
        try:
            await self._leave()
        finally:
            await super().close()

    async def _join(self) -> timedelta:
        """Read the topics there are. If there are none yet, or one has gone since they were named, look again."""
        topics = await self.topics()
        if not topics:
            if not self._told_of_none:
                self._told_of_none = True
                log.warning("the log has none of the topics yet; run: surefoot topics create", part=self.name)
            return self.settings.look_for_topics
        try:
            self._subscription = await self.event_log.subscribe(self._group, sorted(topics), on_assigned=self._come)
        except ConfigurationError:
            if await self.topics() == topics:
                raise
            return NO_REST
        log.info("reading", part=self.name, topics=sorted(topics))
        self._told_of_none = False
        self._reading = topics
        self._look_at = self._next_look()
        return NO_REST

    async def _has_other_topics(self) -> bool:
        """Asked now and then."""
        if time.monotonic() < self._look_at:
            return False
        topics = await self.topics()
        self._look_at = self._next_look()
        return topics != self._reading

    def _next_look(self) -> float:
        return time.monotonic() + self.settings.look_for_topics.total_seconds()

    async def _leave(self) -> None:
        subscription, self._subscription = self._subscription, None
        self._found = {}
        if subscription is not None:
            with contextlib.suppress(LogUnavailable):  # its group will notice that we are gone
                await subscription.close()

    async def _poll(self, subscription: Subscription) -> None:
        try:
            found = await subscription.poll(max_records=self.settings.poll_records, timeout=POLL)
        except RecordsGone as gone:
            self._tell_of_gap(gone.where, gone.wanted, gone.first)
            with contextlib.suppress(LeaseLost):  # its new owner finds out by itself
                await subscription.seek(gone.where, gone.first)
            self._next[gone.where] = gone.first
            return
        HEARTBEAT.labels(self.name).set_to_current_time()
        await self._look_for_gaps(subscription, found)
        self._found = found
        if found:
            await self._make_true(subscription)

    async def _make_true(self, subscription: Subscription) -> None:
        """Into the database, and then tell the log. What fails here stays in hand, and the next round tries again."""
        found = self._found
        connection = await self.connected()
        try:
            await self.take(connection, [record for records in found.values() for record in records])
        except Exception as error:
            if not is_contended(error):
                raise
            log.info("somebody else has the same rows in hand; once more", part=self.name)
            return
        self.database_away.over()
        self._found = {}
        await failpoint(f"dlq.{self.name}.taken")
        await self._tell_log(subscription, found)
        await failpoint(f"dlq.{self.name}.committed")

    async def _tell_log(self, subscription: Subscription, found: Polled) -> None:
        next_offsets = {where: records[-1].offset + 1 for where, records in found.items()}
        try:
            await subscription.commit(next_offsets)
        except LeaseLost as error:  # its new owner reads them once more, and nothing comes of it
            log.info("a partition moved while its records were taken", part=self.name, error=str(error))

    async def _come(self, partitions: frozenset[TopicPartition]) -> None:
        """Somebody else may have read on in these, since they were ours before."""
        for where in partitions:
            self._next.pop(where, None)

    async def _look_for_gaps(self, subscription: Subscription, found: Polled) -> None:
        """A log may pass over by itself what was removed. Nobody can bring it back, but somebody has to know."""
        for where, records in found.items():
            with contextlib.suppress(LogUnavailable):  # the records are in hand, and come first
                wanted = self._next.get(where)
                if wanted is None:
                    wanted = await subscription.committed(where)
                if wanted is not None and records[0].offset > wanted:
                    first = (await self.event_log.first_offsets(where.topic)).get(where, 0)
                    if first > wanted:
                        self._tell_of_gap(where, wanted, min(first, records[0].offset))
            self._next[where] = records[-1].offset + 1

    def _tell_of_gap(self, where: TopicPartition, wanted: int, first: int) -> None:
        GONE.labels(where.topic).inc(first - wanted)
        log.error(
            "records were removed from the log before they were read; give the topic a longer retention",
            part=self.name,
            at=f"{where.topic}/{where.partition}",
            offsets=f"{wanted} to {first - 1}",
        )


def is_contended(error: BaseException) -> bool:
    """A deadlock, or a lock that was not had in time. The wait was before the error: it need not be repeated."""
    return getattr(error, "sqlstate", None) in ("40P01", "40001", "55P03")


def may_pass(error: BaseException) -> bool:
    """Whether waiting can mend it. A value that asyncpg cannot encode is an InterfaceError, as a lost connection is."""
    return is_outage(error) and not isinstance(error, ValueError)
