"""The partitions a member owns: workers that are started, fenced off and stopped as the log moves partitions about.

A worker that finds its fence old asks the log by committing an offset: accepted, the partition is still ours, and it
goes on under a new fence; refused, it is somebody else's.

Taking a partition shuts out its owner before, and goes on where the database says that work stopped. A gap (the log no
longer has what comes next) is never jumped over in silence: it stops the consumer with a sentence.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import structlog

from surefoot.consumer_runtime.failing import GivenUp
from surefoot.consumer_runtime.metrics import FENCED, PARTITIONS
from surefoot.consumer_runtime.unit import Database, FenceLost, Position, lock_name
from surefoot.consumer_runtime.worker import Worker
from surefoot.errors import ConfigurationError, HandlerMisuse, LeaseLost, LogUnavailable, SurefootError
from surefoot.failpoints import failpoint
from surefoot.log.port import EventLog, Subscription, TopicPartition, parse_place
from surefoot.telemetry.health import Finding


class PositionLost(SurefootError):
    """The log does not have what this consumer has to read next."""


@dataclass(frozen=True, slots=True)
class From:
    """Where a command line says to begin: everywhere at the start or the end, or at one offset of one partition."""

    everywhere: Literal["start", "end"] | None = None
    where: TopicPartition | None = None
    offset: int = 0


def parse_from(text: str) -> From:
    if text == "start":
        return From("start")
    if text == "end":
        return From("end")
    place = parse_place(text)
    if place is None:
        raise ConfigurationError(
            f"--from {text!r} is neither start, nor end, nor a place such as order.events/3:1200 (topic, partition, "
            "offset)."
        )
    return From(where=place[0], offset=place[1])


class Positions:
    def __init__(self, consumer: str, member: str, database: Database, log: EventLog, begin: From | None) -> None:
        self._consumer = consumer
        self._member = member
        self._database = database
        self._log = log
        self._begin = begin
        self._begun: set[TopicPartition] = set()

    async def take(self, where: TopicPartition) -> tuple[Position, int]:
        """Raise the fence; our position there, and the offset to go on from."""
        position = Position(self._consumer, where, 0)
        sql = self._database.sql
        async with self._database.driver() as driver:
            await driver.fetchval(sql.end_others, lock_name(position))
            row = await driver.fetchrow(sql.take, *position.place, self._member)
        assert row is not None
        position.fence, stored = row[0], row[1]
        first = (await self._log.first_offsets(where.topic)).get(where, 0)
        end = (await self._log.end_offsets(where.topic)).get(where, 0)
        begin = self._wanted(where, stored, first, end)
        if begin is None and stored is None:
            # Not where the log's group has got to: what this database has not handled, it has not handled. It is
            # stored, so that whoever asks how far we are sees that nothing is left of a partition that was emptied
            # before, and so that a gap from here on is one.
            begin = first
        if begin is not None:
            async with self._database.driver() as driver:
                await driver.fetchval(sql.move, *position.place, position.fence, begin)
            return position, begin
        if stored < first:
            raise gap(self._consumer, where, stored, first)
        if stored > end:
            raise PositionLost(
                f"{self._consumer} is to go on at offset {stored} of {where.topic}/{where.partition}, and the log ends "
                f"at {end}: the topic was deleted and made anew, or this is another log. If it is the right one, say "
                "--from start; what was handled before is not handled twice."
            )
        return position, stored

    async def check(self, where: TopicPartition, expected: int, found: int) -> None:
        """The log gave a later offset than expected: fine where it has holes of its own, not where records are gone."""
        first = (await self._log.first_offsets(where.topic)).get(where, 0)
        if first > expected:
            raise gap(self._consumer, where, expected, min(first, found))

    def _wanted(self, where: TopicPartition, stored: int | None, first: int, end: int) -> int | None:
        """Where the command line says to begin here; it counts once, not again after every rebalance."""
        begin = self._begin
        if begin is None or where in self._begun or (begin.where is not None and begin.where != where):
            return None
        self._begun.add(where)
        if begin.everywhere == "start":
            return first
        if begin.everywhere == "end":
            if stored is not None:
                raise ConfigurationError(
                    f"--from end would leave out what {self._consumer} has not read yet in {where.topic}/"
                    f"{where.partition} (offsets {stored} to {end - 1}). It is for a consumer that has never run."
                )
            return end
        if stored is not None and begin.offset > max(stored, first):
            raise ConfigurationError(
                f"--from {where.topic}/{where.partition}:{begin.offset} would leave out records that are still there: "
                f"{self._consumer} goes on at {max(stored, first)}. Only what the log no longer has can be passed over."
            )
        if not first <= begin.offset <= end:
            raise ConfigurationError(
                f"--from {where.topic}/{where.partition}:{begin.offset} is not in the log, which has offsets {first} "
                f"to {end}."
            )
        return begin.offset


def gap(consumer: str, where: TopicPartition, wanted: int, first: int) -> PositionLost:
    place = f"{where.topic}/{where.partition}"
    return PositionLost(
        f"{consumer} is to go on at offset {wanted} of {place}, and the oldest record the log still has is {first}: "
        f"{first - wanted} offset(s) were removed before they were read. Decide what their loss means, then say --from "
        f"{place}:{first} to go on without them; and give the topic a longer retention."
    )


log = structlog.get_logger("surefoot.consumer")
CANCELLED_S = 3.0
"""How long a cancelled batch may take to roll back and clean up. If the database is silent, two seconds of it go by
until its connection is given up."""
MakeWorker = Callable[[Position, int], Worker]


class Partitions:
    subscription: Subscription
    """Set once we have joined, before the first partition comes."""

    def __init__(
        self,
        consumer: str,
        positions: Positions,
        make_worker: MakeWorker,
        *,
        handover_s: float,
        failed: Callable[[Exception], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        self.workers: dict[TopicPartition, Worker] = {}
        self.stuck: set[TopicPartition] = set()
        """Where a handler runs on that nothing in this process can end."""
        self._consumer = consumer
        self._positions = positions
        self._make_worker = make_worker
        self._handover_s = handover_s
        self._on_failure = failed
        self._is_stopping = is_stopping
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        self._fenced: set[TopicPartition] = set()
        self._to_start: set[TopicPartition] = set()
        self._told: dict[TopicPartition, int] = {}

    @property
    def next_offsets(self) -> dict[TopicPartition, int]:
        """Up to where everything is committed."""
        return {where: worker.next_offset for where, worker in self.workers.items()}

    def readiness(self) -> Iterable[Finding]:
        for worker in list(self.workers.values()):
            yield from worker.readiness()
        wanting = self.subscription.assigned() - self.workers.keys()
        if wanting:
            yield Finding("ownership", False, f"{self._consumer} has not taken {len(wanting)} of its partitions yet")
        else:
            yield Finding("ownership", True, f"{self._consumer} works on {len(self.workers)} partition(s)")

    async def assigned(self, coming: frozenset[TopicPartition]) -> None:
        try:
            for where in sorted(coming):
                await self._start(where)
        except BaseException:
            await self.stop(coming)  # the log tells us of all of them again, or never
            raise
        self._tell_people(gained=coming)

    async def revoked(self, going: frozenset[TopicPartition]) -> None:
        self._to_start -= going
        await self.stop(going)
        self._tell_people(gone=going)

    async def ask_again(self) -> None:
        """Settle what became of workers that found their fence old."""
        for where in sorted(self._fenced):
            self._fenced.discard(where)
            worker = self.workers.get(where)
            if worker is None:
                continue
            try:
                await self.subscription.commit({where: worker.next_offset})
            except LeaseLost:
                await self.stop(frozenset([where]))
            except LogUnavailable:
                self._fenced.add(where)
            else:
                self._to_start.add(where)
        for where in sorted(self._to_start):
            await self._start(where)
            self._to_start.discard(where)
            self.subscription.resume([where])

    async def stop(self, going: frozenset[TopicPartition]) -> None:
        """Let each finish the transaction it is in, but not longer than the others will wait."""
        tasks = {where: self._tasks.pop(where) for where in going if where in self._tasks}
        workers = {where: self.workers[where] for where in tasks}
        for worker in workers.values():
            worker.stop()
        if tasks:
            _, late = await asyncio.wait(tasks.values(), timeout=self._handover_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=CANCELLED_S)
            self._tell_stuck([where for where, task in tasks.items() if not task.done()])
        await self.tell({where: worker.next_offset for where, worker in workers.items()})
        for where in tasks:
            self.workers.pop(where, None)
            self._told.pop(where, None)

    async def stop_all(self) -> None:
        await self.stop(frozenset(self._tasks))

    async def tell_what_moved(self) -> None:
        await self.tell({where: at for where, at in self.next_offsets.items() if self._told.get(where) != at})

    async def tell(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Tell the log how far we are. Nothing rests on it: the database knows where work goes on."""
        if not offsets:
            return
        try:
            await self.subscription.commit(offsets)
        except (LeaseLost, LogUnavailable):
            return
        self._told |= {where: at for where, at in offsets.items() if where in self.workers}
        await failpoint("consumer.offset")

    async def _start(self, where: TopicPartition) -> None:
        await self.stop(frozenset([where]))
        position, next_offset = await self._positions.take(where)
        try:
            await self.subscription.seek(where, next_offset)
        except LeaseLost:
            return  # taken from us again while we took it: whoever has it now finds its fence old and raises it again
        self.workers[where] = worker = self._make_worker(position, next_offset)
        self._told[where] = next_offset
        self._tasks[where] = asyncio.create_task(self._work(where, worker))

    async def _work(self, where: TopicPartition, worker: Worker) -> None:
        try:
            await worker.run()
        except FenceLost as lost:
            FENCED.labels(self._consumer).inc()
            log.warning(str(lost), consumer=self._consumer)
            self._fenced.add(where)
        except GivenUp:
            return
        except asyncio.CancelledError:
            if where in self._tasks and not self._is_stopping():
                # Not by us. Nobody would notice that this partition stands still.
                misuse = HandlerMisuse(
                    f"A handler cancelled the task it ran in, which is the loop of {where.topic}/{where.partition}: "
                    "cancel only tasks that the handler has made itself."
                )
                self._on_failure(misuse)
            raise
        except Exception as error:
            self._on_failure(error)

    def _tell_stuck(self, stuck: Sequence[TopicPartition]) -> None:
        for where in stuck:
            misuse = HandlerMisuse(
                f"A handler swallows its cancellation and runs on, in {where.topic}/{where.partition}: the process "
                "ends, the fence protects the data. Let a handler re-raise asyncio.CancelledError when it has cleaned "
                "up."
            )
            log.error(str(misuse), consumer=self._consumer)
            self.stuck.add(where)
            self._on_failure(misuse)

    def _tell_people(self, **moved: frozenset[TopicPartition]) -> None:
        shown = {word: [f"{one.topic}/{one.partition}" for one in sorted(which)] for word, which in moved.items()}
        log.info("partitions", consumer=self._consumer, owned=len(self.workers), **shown)
        PARTITIONS.labels(self._consumer).set(len(self.workers))
