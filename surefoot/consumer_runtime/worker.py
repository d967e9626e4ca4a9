"""A partition's loop: it runs the batches read from the log and drains the keys that are parked, one after the other,
so that the two never race.

A batch that fails is taken again in smaller parts until the failure stands alone. What then happens depends on whose
fault it is: away (wait, count nothing), contended (again, smaller), transient (park with a rest), permanent (bury).
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

import structlog

from surefoot.consumer import Consumer
from surefoot.consumer.failures import FREE_CONTENTIONS
from surefoot.consumer.handlers import OutsideHandler
from surefoot.consumer_runtime.attempts import Attempts
from surefoot.consumer_runtime.batch import Batches, Carried
from surefoot.consumer_runtime.buffer import BatchSize, Buffer
from surefoot.consumer_runtime.failing import Failing, is_about_what_was_given
from surefoot.consumer_runtime.handling import OutsideCalls, Slots
from surefoot.consumer_runtime.parking import NoLongerParked, ParkedRow, Parking
from surefoot.consumer_runtime.plan import Bad, Delivery, Reading, Told, cut, read, unreadable
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.consumer_runtime.unit import Database, FenceLost, PartFailed, Position
from surefoot.errors import words_of
from surefoot.failpoints import failpoint
from surefoot.log.port import StoredRecord, TopicPartition
from surefoot.telemetry.health import Finding

log = structlog.get_logger("surefoot.consumer")
LOOK_AGAIN_S = 1.0
"""How long an operator's `parked retry` may go unnoticed."""
LOOK_FOR_REVIVED_S = 5.0
"""The same where nothing is due and a dead event may be made so by an operator."""
LOOK_FOR_SLOT_S = 0.05
CONTENTION_PAUSE_S = 0.02
TURN_S = 1.0
"""How long parked events are tried before newly read ones have their turn."""
DRAIN_EVENTS = 200
"""Parked events tried in a row before newly read ones have their turn."""
CHAIN_EVENTS = 100
"""Parked events of one key taken in one transaction, once the first of them has gone through."""


class Worker:
    def __init__(
        self,
        consumer: Consumer,
        position: Position,
        *,
        settings: ConsumerSettings,
        database: Database,
        batches: Batches,
        attempts: Attempts,
        parking: Parking,
        failing: Failing,
        slots: Slots,
        batch_size: BatchSize,
        next_offset: int,
        on_room: Callable[[TopicPartition], None],
    ) -> None:
        self.position = position
        self.next_offset = next_offset
        """Up to here everything is committed."""
        self._consumer = consumer
        self._settings = settings
        self._database = database
        self._batches = batches
        self._attempts = attempts
        self._parking = parking
        self._failing = failing
        self._on_room = on_room
        self._woken = asyncio.Event()
        self._stopping = asyncio.Event()
        self._calls = OutsideCalls(position, database, slots, settings.handler_timeout, self._woken.set)
        self._contentions: dict[int, int] = {}
        self._look_at = 0.0  # there may be something parked from before
        self._lacks_slot = False
        """Every slot for outside calls is taken, and one is wanted here."""
        self.buffer = Buffer(settings, expected=next_offset)
        self._batch_size = batch_size
        self.is_paused = False
        """Set by whoever gives it records, when it wants no more."""
        self.idle = asyncio.Event()
        """Set while nothing is to be done but wait: for records, or until a rest is over."""

    def give(self, records: Sequence[StoredRecord]) -> None:
        self.buffer.put(records)
        self._woken.set()
        self.idle.clear()

    def readiness(self) -> Iterable[Finding]:
        return self._failing.readiness()

    def stop(self) -> None:
        """Finish the transaction under way, then end `run`."""
        self._stopping.set()
        self._calls.begin_no_more()
        self._woken.set()

    async def run(self) -> None:
        """Work until stopped, or until FenceLost."""
        try:
            while not self._stopping.is_set():
                self._woken.clear()
                worked = await self._finish_calls()
                worked += await self._drain()
                if self.buffer:
                    await self._work_off()
                elif not worked:
                    await self._rest()
            await self._wait_for_calls()
        finally:
            await self._calls.cancel()

    async def _rest(self) -> None:
        if not self.buffer and not self._calls.under_way() and not self._lacks_slot:
            self.idle.set()
        pause = max(0.0, self._look_at - time.monotonic())
        try:
            async with asyncio.timeout(None if pause == float("inf") else pause):
                await self._woken.wait()
        except TimeoutError:
            return

    # -- from the log ------------------------------------------------------------------------------------------------

    async def _work_off(self) -> None:
        """A batch is taken when a connection is free for it: what came while it waited is in it as well."""
        async with self._database.seats:
            if self._stopping.is_set():
                return
            batch = self._take_batch()
            await failpoint("consumer.polled")
            readings = [read(record, self._consumer) for record in batch]
            carried = await self._commit(readings)
        parts: deque[Sequence[Reading]] = deque(await self._left(readings, carried))
        while parts and not self._stopping.is_set():
            part = parts.popleft()
            async with self._database.seats:
                carried = await self._commit(part)
            parts.extendleft(reversed(await self._left(part, carried)))

    def _take_batch(self) -> list[StoredRecord]:
        batch = self.buffer.take(self._batch_size.records)
        if self.is_paused and self.buffer.has_room:
            self.is_paused = False
            self._on_room(self.position.where)
        return batch

    async def _commit(self, part: Sequence[Reading]) -> Carried | PartFailed:
        began = time.perf_counter()
        try:
            carried = await self._batches.take(self.position, part)
        except PartFailed as failed:
            return failed
        self._batch_size.learn(len(part), time.perf_counter() - began)
        return carried

    async def _left(self, part: Sequence[Reading], carried: Carried | PartFailed) -> list[Sequence[Reading]]:
        """What to take again, and in which parts: nothing, where all went well."""
        if isinstance(carried, PartFailed):
            return await self._after_failure(part, carried)
        if self._contentions:
            self._forget_contentions(part)
        self._failing.works(part[0].record.offset, part[-1].record.offset)
        self.next_offset = part[-1].record.offset + 1
        await self._tell_bad(carried.dead)
        if carried.parked or carried.obeyed:
            self._look_at = 0.0
        return []

    async def _after_failure(self, part: Sequence[Reading], failed: PartFailed) -> list[Sequence[Reading]]:
        if len(part) == 1 and isinstance(part[0], Told):
            failed = PartFailed(failed.error, own=True)  # no handler has a part in it
        kind = await self._failing.judge(failed, self._stopping)
        if kind == "away":
            return [part]
        if len(part) > 1:
            at = None
            if kind != "contended" and failed.culprit is not None:
                at = next(n for n, reading in enumerate(part) if reading is failed.culprit)
            return [part[where] for where in cut(len(part), at)]
        reading = part[0]
        if isinstance(reading, Told) and is_about_what_was_given(failed.error):
            return [[unreadable(reading.record, f"The control record could not be obeyed: {words_of(failed.error)}")]]
        if failed.own or not isinstance(reading, Delivery):
            # No handler was involved: the way to the database broke, or it is a defect of ours, or of the tables.
            await self._failing.own_trouble(failed, self._stopping)
            return [part]
        if kind == "contended" and self._not_yet_counted(reading.record.offset):
            await asyncio.sleep(CONTENTION_PAUSE_S)
            return [part]
        await self._park(reading, failed.error, permanent=kind == "permanent")
        return []

    async def _tell_bad(self, dead: Sequence[Bad]) -> None:
        for bad in dead:
            await self._failing.tell_bad(bad)

    async def _park(self, reading: Delivery, error: BaseException, *, permanent: bool) -> None:
        while True:
            try:
                verdict = await self._attempts.failed_first(self.position, reading, error, permanent=permanent)
                break
            except FenceLost:
                raise
            except Exception as trouble:
                await self._failing.own_trouble(trouble, self._stopping)
        self._contentions.pop(reading.record.offset, None)
        self.next_offset = reading.record.offset + 1
        self._look_at = 0.0
        await self._failing.tell(reading, self.position, verdict, attempts=1)

    def _forget_contentions(self, part: Sequence[Reading]) -> None:
        for reading in part:
            self._contentions.pop(reading.record.offset, None)

    def _not_yet_counted(self, offset: int) -> bool:
        """A single event's deadlocks and lock timeouts count from the tenth."""
        self._contentions[offset] = self._contentions.get(offset, 0) + 1
        return self._contentions[offset] <= FREE_CONTENTIONS

    # -- parked ------------------------------------------------------------------------------------------------------

    async def _drain(self) -> int:
        """Try what is due, as far as one turn goes; how many there were."""
        if time.monotonic() < self._look_at:
            return 0
        try:
            async with self._database.driver() as driver:
                under_way = self._calls.under_way()
                rows = await self._parking.due(driver, self.position, under_way=under_way, at_most=DRAIN_EVENTS)
                wait_s = await self._parking.next_due_s(driver, self.position, under_way=under_way)
                pause_s = LOOK_FOR_REVIVED_S if wait_s is None else min(LOOK_AGAIN_S, max(0.0, wait_s))
                if wait_s is None and not await self._parking.has_any(driver, self.position):
                    pause_s = float("inf")  # nothing is parked here, and nobody else parks anything here
            self._failing.reached()
        except Exception as trouble:
            await self._failing.own_trouble(trouble, self._stopping)
            return 1
        self._look_at = time.monotonic() + pause_s
        tried = 0
        turn_ends = time.monotonic() + TURN_S
        for row in _one_of_each_key(rows):
            if self._stopping.is_set() or time.monotonic() > turn_ends:
                self._look_at = 0.0
                break
            tried += await self._turn(row)
        self._lacks_slot = bool(rows) and not tried
        if self._lacks_slot:
            self._look_at = time.monotonic() + LOOK_FOR_SLOT_S
        return tried

    async def _turn(self, row: ParkedRow) -> int:
        self.idle.clear()
        await failpoint("consumer.turn")
        reading = read(row.record, self._consumer)
        if row.state == "CALLING" and isinstance(reading, Delivery) and isinstance(reading.handler, OutsideHandler):
            return self._calls.start(row, reading)
        if await self._attempt(row, reading) and row.holds:
            await self._follow(row)
        self._look_at = 0.0
        return 1

    async def _attempt(self, row: ParkedRow, reading: Reading) -> bool:
        """Try one; whether it is off the parking table."""
        try:
            carried = await self._batches.take_parked(self.position, [(row, reading)])
        except PartFailed as failed:
            await self._after_parked_failure(row, reading, failed)
            return False
        self._contentions.pop(row.log_offset, None)
        self._failing.works(row.log_offset, row.log_offset)
        await self._tell_bad(carried.dead)
        return bool(carried.resolved)

    async def _follow(self, row: ParkedRow) -> None:
        """The rest of its key, many at a time. If one of them fails, the next turn takes them one by one again."""
        at_most = CHAIN_EVENTS
        while not self._stopping.is_set():
            try:
                async with self._database.driver() as driver:
                    rows = await self._parking.behind(driver, self.position, row, at_most)
                if not rows:
                    return
                carried = await self._batches.take_parked(
                    self.position, [(one, read(one.record, self._consumer)) for one in rows]
                )
            except FenceLost:
                raise
            except Exception:
                return
            await self._tell_bad(carried.dead)
            if len(carried.resolved) < at_most:
                return

    async def _after_parked_failure(self, row: ParkedRow, reading: Reading, failed: PartFailed) -> None:
        if isinstance(failed.error, NoLongerParked):
            at = f"{row.record.topic}/{row.record.partition}:{row.log_offset}"
            log.info("a parked event was settled before its turn; nothing was done", at=at, key=row.key)
            return
        kind = await self._failing.judge(failed, self._stopping)
        if kind == "away" or not isinstance(reading, Delivery):
            return  # it stays due
        if kind == "contended" and self._not_yet_counted(row.log_offset):
            await asyncio.sleep(CONTENTION_PAUSE_S)
            return
        await self._fail(row, reading, failed.error, permanent=kind == "permanent")

    async def _fail(self, row: ParkedRow, reading: Delivery, error: BaseException, *, permanent: bool) -> None:
        while True:
            try:
                verdict = await self._attempts.failed_again(self.position, row, reading, error, permanent=permanent)
                break
            except FenceLost:
                raise
            except Exception as trouble:
                await self._failing.own_trouble(trouble, self._stopping)
        self._contentions.pop(row.log_offset, None)
        self._look_at = 0.0
        if verdict is not None:
            await self._failing.tell(reading, self.position, verdict, attempts=row.attempts + 1)

    # -- outside calls -----------------------------------------------------------------------------------------------

    async def _finish_calls(self) -> int:
        ended = self._calls.ended()
        for called in ended:
            self._look_at = 0.0
            row, delivery, error = called.row, called.delivery, called.error
            if isinstance(error, FenceLost):
                raise error
            if error is None:
                try:
                    await self._batches.finish(self.position, row, delivery, called.result)
                    self._contentions.pop(row.log_offset, None)
                    self._failing.works(row.log_offset, row.log_offset)
                    continue
                except PartFailed as failed:
                    error = failed.error
                    if isinstance(error, NoLongerParked):
                        continue
                    kind = await self._failing.judge(failed, self._stopping)
            else:
                kind = await self._failing.judge_call(error)
            if kind == "away" or (kind == "contended" and self._not_yet_counted(row.log_offset)):
                await self._put_off(row)
            else:
                await self._fail(row, delivery, error, permanent=kind == "permanent")
        return len(ended)

    async def _wait_for_calls(self) -> None:
        """Those under way may end, and are finished as they do. Whoever stops us gives us a little longer than that."""
        ends = time.monotonic() + 0.7 * self._settings.handover.total_seconds()
        while True:
            await self._finish_calls()
            left_s = ends - time.monotonic()
            if not self._calls.under_way() or left_s <= 0:
                return
            await self._calls.one_ended(left_s)

    async def _put_off(self, row: ParkedRow) -> None:
        try:
            await self._attempts.put_off(self.position, row, self._failing.call_rest_s())
        except FenceLost:
            raise
        except Exception as trouble:
            await self._failing.own_trouble(trouble, self._stopping)


def _one_of_each_key(rows: Sequence[ParkedRow]) -> list[ParkedRow]:
    """Whoever has its turn takes those behind it along: what was read of them before that is old. They are looked for
    again in the next turn, which follows at once."""
    held: set[str] = set()
    first = []
    for row in rows:
        if row.holds:
            if row.key in held:
                continue
            held.add(row.key)
        first.append(row)
    return first
