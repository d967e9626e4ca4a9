"""One transaction over a part of a partition's events: inbox, handlers, outbox, position, in that order.

The events come from the log, or they are parked: those of one key, in order, which are in the inbox already. What is
done of the parked ones is taken off the parking table, and the next of the key has its turn.

Whatever fails, nothing of the part has happened; the error says which record was at fault, if that is known.

Batches that fight over the same rows take turns for a while. Two batches that update the same few rows, each in the
order of its events, deadlock; Postgres takes a second to notice, and taking both again, even in smaller parts, leads to
the next deadlock. So when one was seen, the batches of this consumer run one at a time, on all its members, by a lock
in the database that each takes before anything else.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, assert_never

import structlog

from surefoot.consumer import Consumer
from surefoot.consumer.dead_letter import bad_record
from surefoot.consumer.failures import classify
from surefoot.consumer.handlers import BatchHandler, OutsideHandler
from surefoot.consumer_runtime import event_lines
from surefoot.consumer_runtime.attempts import Attempts
from surefoot.consumer_runtime.controls import Controls
from surefoot.consumer_runtime.handling import Handled, Handling, Prepared
from surefoot.consumer_runtime.metrics import BATCH_SECONDS, BATCHES, DEAD, DUPLICATES, IGNORED, PARKED, PROCESSED
from surefoot.consumer_runtime.parking import Parked, ParkedRow, Parking
from surefoot.consumer_runtime.plan import (
    Bad,
    Bury,
    Delivery,
    Handle,
    HandleRun,
    Obey,
    Passed,
    Plan,
    Prepare,
    Reading,
    Wait,
    plan,
)
from surefoot.consumer_runtime.unit import Database, FenceLost, PartFailed, Position, Unit, own, receive, settle
from surefoot.failpoints import failpoint
from surefoot.outbox.entry import Entry

log = structlog.get_logger("surefoot.consumer")
NO_HANDLER_REST_S = 30.0


@dataclass(slots=True)
class Carried:
    """What a part has come to."""

    processed: int = 0
    obeyed: int = 0
    """Control records: what they changed may be due at once."""
    parked: list[Parked] = field(default_factory=list)
    resolved: list[ParkedRow] = field(default_factory=list)
    """Parked events that are done."""
    settled: list[tuple[str, str, str, str | None]] = field(default_factory=list)
    """(source, id, outcome, decision) where the inbox says something else."""
    entries: list[Entry] = field(default_factory=list)
    dead: list[Bad] = field(default_factory=list)


class Batches:
    """Takes parts of what was read from the log, or of what is parked. Each part is committed, or fails with PartFailed
    or FenceLost, and then nothing of it has happened."""

    def __init__(
        self,
        consumer: Consumer,
        database: Database,
        handling: Handling,
        parking: Parking,
        controls: Controls,
        attempts: Attempts,
    ) -> None:
        self._consumer = consumer
        self._database = database
        self._handling = handling
        self._parking = parking
        self._controls = controls
        self._attempts = attempts
        self._contention = Contention(consumer)
        self._seconds = BATCH_SECONDS.labels(consumer.name)
        self._shows = event_lines.wanted()

    async def take(self, position: Position, readings: Sequence[Reading]) -> Carried:
        """Those that were read from the log."""
        began = time.perf_counter()
        try:
            made, carried = await self._transact(position, readings)
        except FenceLost:
            BATCHES.labels(self._consumer.name, "fenced").inc()
            raise
        except PartFailed as failed:
            BATCHES.labels(self._consumer.name, "rolled_back").inc()
            if not failed.own:
                self._contention.note(failed.error)
            raise
        self._seconds.observe(time.perf_counter() - began)
        self._tell(position, made, carried)
        if self._shows:
            event_lines.batch_lines(readings, made, carried.settled)
        await failpoint("consumer.committed")
        return carried

    async def take_parked(self, position: Position, rows: Sequence[tuple[ParkedRow, Reading]]) -> Carried:
        """Parked ones: the first of a key, and those behind it."""
        carried = Carried()
        async with self._transaction(position) as unit:
            await unit.begin([])
            for row, reading in rows:
                if not await self._retry(unit, row, reading, carried):
                    break  # the rest of the key waits for this one
            carried.entries[:0] = await unit.after_handlers()
            await self._write(unit, carried)
            await unit.commit(next_offset=None)
        self._tell_resolved(position, carried)
        await failpoint("consumer.drained")
        return carried

    async def finish(self, position: Position, row: ParkedRow, delivery: Delivery, result: Any) -> None:
        """The second half of an outside call."""
        carried = Carried()
        async with self._transaction(position) as unit:
            await unit.begin([])
            try:
                handled = await self._handling.finish(unit, delivery, result)
            except Exception as error:
                raise PartFailed(error, culprit=delivery) from error
            self._resolved(row, handled, carried)
            carried.entries[:0] = await unit.after_handlers()
            await self._write(unit, carried)
            await unit.commit(next_offset=None)
        self._tell_resolved(position, carried)

    @asynccontextmanager
    async def _transaction(self, position: Position) -> AsyncIterator[Unit]:
        try:
            async with self._database.unit(position) as unit:
                yield unit
        except (FenceLost, PartFailed):
            raise
        except Exception as error:
            raise PartFailed(error) from error

    # -- from the log ------------------------------------------------------------------------------------------------

    async def _transact(self, position: Position, readings: Sequence[Reading]) -> tuple[Plan, Carried]:
        known = [reading for reading in readings if not isinstance(reading, Passed)]
        async with self._transaction(position) as unit:
            held = await unit.begin([reading.key for reading in known], alone=self._contention.takes_turns)
            with own():
                fresh = await receive(unit, known)
            await failpoint("consumer.inbox")
            made = plan(readings, held=held, fresh=fresh, when_dead=self._consumer.when_dead)
            carried = await self._carry_out(unit, made)
            carried.entries[:0] = await unit.after_handlers()
            await failpoint("consumer.handled")
            await self._write(unit, carried)
            await failpoint("consumer.outbox")
            await unit.commit(next_offset=readings[-1].record.offset + 1, ignored=made.ignored)
        return made, carried

    async def _carry_out(self, unit: Unit, made: Plan) -> Carried:
        carried = Carried()
        await self._handling.look_ahead(unit, [step.delivery for step in made.steps if isinstance(step, Handle)])
        for step in made.steps:
            match step:
                case Handle(delivery) | Prepare(delivery):
                    await self._deliver(unit, delivery, carried)
                case HandleRun(deliveries):
                    await self._run(unit, deliveries)
                    carried.processed += len(deliveries)
                case Wait(what):
                    event_type = what.event_type if isinstance(what, Bad) else what.event.type
                    row = Parked(what.record, what.key, what.source, what.event_id, event_type, "WAITING")
                    carried.parked.append(row)
                    carried.settled.append((what.source, what.event_id, "PARKED", None))
                case Bury(bad, holds):
                    self._bury(bad, holds, carried)
                case Obey(told):
                    carried.entries += await self._controls.obey(unit, told)
                    carried.processed += 1
                    carried.obeyed += 1
                case _:
                    assert_never(step)
        return carried

    async def _run(self, unit: Unit, deliveries: Sequence[Delivery]) -> None:
        try:
            await self._handling.run(unit, deliveries)
        except Exception as error:
            raise PartFailed(error, culprit=deliveries[0] if len(deliveries) == 1 else None) from error

    async def _deliver(self, unit: Unit, delivery: Delivery, carried: Carried) -> None:
        handled = await self._handle(unit, delivery)
        if isinstance(handled, Handled):
            carried.processed += 1
            carried.entries += handled.entries
            if handled.outcome != "PROCESSED":
                carried.settled.append((delivery.source, delivery.event_id, handled.outcome, None))
            return
        names = (delivery.record, delivery.key, delivery.source, delivery.event_id, delivery.event.type)
        carried.parked.append(Parked(*names, "CALLING", rest_s=0.0, prepared=handled.json))
        carried.settled.append((delivery.source, delivery.event_id, "PARKED", None))

    def _bury(self, bad: Bad, holds: bool, carried: Carried) -> None:
        diagnosis = bad_record(bad.reason, bad.sentence, consumer=self._consumer.name, event_type=bad.event_type)
        names = (bad.record, bad.key, bad.source, bad.event_id, bad.event_type)
        carried.parked.append(Parked(*names, "DEAD", holds=holds, diagnosis=diagnosis))
        carried.settled.append((bad.source, bad.event_id, "DEAD", None))
        carried.entries += self._attempts.deaths.entries(bad, diagnosis)
        carried.dead.append(bad)

    # -- parked ------------------------------------------------------------------------------------------------------

    async def _retry(self, unit: Unit, row: ParkedRow, reading: Reading, carried: Carried) -> bool:
        """Whether those behind it may go on."""
        match reading:
            case Delivery():
                return await self._deliver_again(unit, row, reading, carried)
            case Bad():
                about = {"consumer": self._consumer.name, "event_type": reading.event_type}
                diagnosis = bad_record(reading.reason, reading.sentence, **about)  # type: ignore[arg-type]
                if await self._attempts.bury(unit, row, reading, diagnosis, row.failures):
                    carried.dead.append(reading)
                return not self._attempts.deaths.holds(reading)
            case _:
                await self._wait_for_handler(unit, row, carried)
                return False

    async def _deliver_again(self, unit: Unit, row: ParkedRow, delivery: Delivery, carried: Carried) -> bool:
        handled = await self._handle(unit, delivery, prepared=row.prepared)
        if isinstance(handled, Handled):
            self._resolved(row, handled, carried)
            return True
        with own():
            await unit.driver.fetch(self._parking.sql.calling, *unit.position.place, row.log_offset, handled.json)
        return False

    def _resolved(self, row: ParkedRow, handled: Handled, carried: Carried) -> None:
        carried.resolved.append(row)
        carried.settled.append((row.source, row.event_id, handled.outcome, None))
        carried.entries += handled.entries
        carried.entries += self._controls.handled(row, handled)

    async def _wait_for_handler(self, unit: Unit, row: ParkedRow, carried: Carried) -> None:
        """This member has no handler for it: an older version runs beside a newer one, or a handler was taken out. It
        was received, and perhaps its outside call was made, so it stays until a version comes that can handle it."""
        place = (*unit.position.place, row.log_offset)
        with own():
            (state,) = await unit.driver.fetch(self._parking.sql.no_handler, *place, NO_HANDLER_REST_S)
        sentence = f"{self._consumer.name} has no handler for {row.event_type} in the version that runs."
        if state[0] == "DEAD":
            carried.settled.append((row.source, row.event_id, "DEAD", None))
        carried.entries += self._controls.tried(row, "refused", sentence, outcome="DEAD")
        log.warning("a parked event waits: no handler", event_type=row.event_type, key=row.key, sentence=sentence)

    # -- both --------------------------------------------------------------------------------------------------------

    async def _handle(self, unit: Unit, delivery: Delivery, *, prepared: str | None = None) -> Handled | Prepared:
        """Have its handler run; of an outside one, the first half."""
        try:
            if isinstance(delivery.handler, OutsideHandler):
                return await self._handling.prepare(unit, delivery, prepared=prepared)
            if isinstance(delivery.handler, BatchHandler):
                await self._handling.run(unit, [delivery])
                return Handled("PROCESSED")
            return await self._handling.one(unit, delivery)
        except Exception as error:
            raise PartFailed(error, culprit=delivery) from error

    async def _write(self, unit: Unit, carried: Carried) -> None:
        await settle(unit, carried.settled)
        if carried.parked:
            # An event may wait behind one that a control record has just settled: then it is the first of its key.
            keys = [row.key for row in carried.parked if row.state == "WAITING"]
            with own():
                await self._parking.park(unit.driver, unit.position, carried.parked)
                await self._parking.promote(unit.driver, unit.position, keys)
        if carried.resolved:
            offsets, keys = [row.log_offset for row in carried.resolved], [row.key for row in carried.resolved]
            with own():
                await self._parking.resolve(unit.driver, unit.position, offsets, keys)
        await unit.publish(carried.entries)

    def _tell(self, position: Position, made: Plan, carried: Carried) -> None:
        labels = (self._consumer.name, position.where.topic)
        PROCESSED.labels(*labels).inc(carried.processed)
        DUPLICATES.labels(*labels).inc(made.duplicates)
        IGNORED.labels(*labels).inc(made.ignored)
        PARKED.labels(*labels).inc(sum(row.state in ("WAITING", "DUE") for row in carried.parked))
        for bad in carried.dead:
            DEAD.labels(*labels, bad.reason).inc()
        BATCHES.labels(self._consumer.name, "committed").inc()

    def _tell_resolved(self, position: Position, carried: Carried) -> None:
        PROCESSED.labels(self._consumer.name, position.where.topic).inc(len(carried.resolved))
        if self._shows:
            event_lines.parked_lines(carried.resolved)


TAKE_TURNS_S = 60.0


class Contention:
    """What one member knows; the others find out by themselves."""

    def __init__(self, consumer: Consumer) -> None:
        self._rules = consumer.rules
        self._until = 0.0

    def note(self, error: BaseException) -> None:
        if classify(error, self._rules) == "contended":
            self._until = time.monotonic() + TAKE_TURNS_S

    @property
    def takes_turns(self) -> bool:
        return time.monotonic() < self._until
