"""Parked events in a transaction: those of one key, in order; and the second half of outside calls.

They are in the inbox already, so nothing is received; what is done is taken off the parking table, and whoever is next
of the key has its turn.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import structlog

from surefoot.consumer import Consumer
from surefoot.consumer.dead_letter import DeadReason, Diagnosis, bad_record, diagnose
from surefoot.consumer.handlers import BatchHandler, OutsideHandler
from surefoot.consumer_runtime import event_lines
from surefoot.consumer_runtime.batch import receive, settle
from surefoot.consumer_runtime.controls import Controls
from surefoot.consumer_runtime.deaths import Deaths
from surefoot.consumer_runtime.handling import Handled, Handling
from surefoot.consumer_runtime.metrics import ATTEMPTS, DEAD, PARKED, PROCESSED
from surefoot.consumer_runtime.parking import Parked, ParkedRow, Parking, with_failure
from surefoot.consumer_runtime.plan import Bad, Delivery, Reading
from surefoot.consumer_runtime.unit import Database, FenceLost, PartFailed, Position, Unit, own
from surefoot.events.text import format_time
from surefoot.failpoints import failpoint
from surefoot.outbox.entry import Entry

log = structlog.get_logger("surefoot.consumer")
NO_HANDLER_REST_S = 30.0


@dataclass(slots=True)
class Drained:
    resolved: list[ParkedRow] = field(default_factory=list)
    settled: list[tuple[str, str, str, str | None]] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    dead: list[Bad] = field(default_factory=list)
    ignored: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a failed event: it rests for so long, or it is dead."""

    diagnosis: Diagnosis
    rest_s: float | None


class ParkedBatches:
    def __init__(
        self, consumer: Consumer, database: Database, handling: Handling, parking: Parking, controls: Controls
    ) -> None:
        self._consumer = consumer
        self._database = database
        self._handling = handling
        self._parking = parking
        self._controls = controls
        self._deaths = Deaths(consumer)
        self._shows = event_lines.wanted()

    async def take(self, position: Position, rows: Sequence[tuple[ParkedRow, Reading]]) -> Drained:
        """Try these, the first of one key; all of them, or PartFailed and none."""
        try:
            async with self._database.unit(position) as unit:
                await unit.begin([])
                drained = Drained()
                for row, reading in rows:
                    if not await self._try(unit, row, reading, drained):
                        break  # the rest of the key waits for this one
                drained.entries[:0] = await unit.after_handlers()
                await self._write(unit, position, drained)
                await unit.commit(next_offset=None, ignored=drained.ignored)
        except (FenceLost, PartFailed):
            raise
        except Exception as error:
            raise PartFailed(error) from error
        self._tell_done(position, drained)
        await failpoint("consumer.drained")
        return drained

    async def finish(self, position: Position, row: ParkedRow, delivery: Delivery, result: Any) -> None:
        """The second half of an outside call."""
        try:
            async with self._database.unit(position) as unit:
                await unit.begin([])
                drained = Drained()
                try:
                    handled = await self._handling.finish(unit, delivery, result)
                except Exception as error:
                    raise PartFailed(error, culprit=delivery) from error
                self._done(row, handled, drained)
                drained.entries[:0] = await unit.after_handlers()
                await self._write(unit, position, drained)
                await unit.commit(next_offset=None)
        except (FenceLost, PartFailed):
            raise
        except Exception as error:
            raise PartFailed(error) from error
        self._tell_done(position, drained)

    async def failed_again(
        self, position: Position, row: ParkedRow, reading: Delivery, error: BaseException, *, permanent: bool
    ) -> Verdict | None:
        """An attempt at a parked event failed: let it rest, or bury it. None if it had gone through after all."""
        verdict = self._judge(reading, error, permanent, attempts=row.attempts + 1, replayed=row.control_id is not None)
        failures = with_failure(row.failures, _now(), verdict.diagnosis.error)
        dead = verdict.rest_s is None
        async with self._database.unit(position) as unit:
            await unit.begin([])
            if dead:
                found = await self._bury(unit, position, row, reading, verdict.diagnosis, failures)
            else:
                found = await self._parking.failed(
                    unit.driver,
                    position,
                    row,
                    state="CALLING" if row.state == "CALLING" else "DUE",
                    holds=row.holds,
                    attempts=row.attempts + 1,
                    rest_s=verdict.rest_s or 0.0,
                    diagnosis=verdict.diagnosis,
                    failures=failures,
                )
            await unit.commit(next_offset=None)
        if not found:
            return None
        self._count_attempt(reading)
        return verdict

    async def failed_first(
        self, position: Position, reading: Delivery, error: BaseException, *, permanent: bool
    ) -> Verdict:
        """The first attempt at an event failed: park it, or bury it, and go on behind it."""
        verdict = self._judge(reading, error, permanent, attempts=1, replayed=False)
        diagnosis = verdict.diagnosis
        failures = with_failure((), _now(), diagnosis.error)
        dead = verdict.rest_s is None
        row = Parked(
            record=reading.record,
            key=reading.key,
            source=reading.source,
            event_id=reading.event_id,
            event_type=reading.event.type,
            state="DEAD" if dead else "DUE",
            holds=not dead or self._deaths.holds(reading),
            attempts=1,
            rest_s=verdict.rest_s,
            diagnosis=diagnosis,
            failures=failures,
        )
        async with self._database.unit(position) as unit:
            await unit.begin([])
            if await receive(unit, [reading]) is None:
                await settle(unit, [(reading.source, reading.event_id, "DEAD" if dead else "PARKED", None)])
                await self._parking.park(unit.driver, position, [row])
                if dead:
                    await unit.publish(self._deaths.entries(reading, diagnosis, failures=failures, attempts=1))
            await unit.commit(next_offset=reading.record.offset + 1)
        self._count_attempt(reading)
        labels = (self._consumer.name, position.where.topic)
        if dead:
            DEAD.labels(*labels, diagnosis.reason).inc()
        else:
            PARKED.labels(*labels).inc()
        await failpoint("consumer.parked")
        return verdict

    async def put_off(self, position: Position, row: ParkedRow, rest_s: float) -> None:
        """Not now, through no fault of its own: no attempt is counted."""
        async with self._database.unit(position) as unit:
            await unit.begin([])
            await unit.driver.execute(self._parking.sql.put_off, *position.place, row.log_offset, rest_s)
            await unit.commit(next_offset=None)

    async def _try(self, unit: Unit, row: ParkedRow, reading: Reading, drained: Drained) -> bool:
        """Whether those behind it may go on."""
        match reading:
            case Delivery():
                return await self._deliver(unit, row, reading, drained)
            case Bad():
                about = {"consumer": self._consumer.name, "event_type": reading.event_type}
                diagnosis = bad_record(reading.reason, reading.sentence, **about)  # type: ignore[arg-type]
                if await self._bury(unit, unit.position, row, reading, diagnosis, row.failures):
                    drained.dead.append(reading)
                return not self._deaths.holds(reading)
            case _:
                await self._wait_for_handler(unit, row, drained)
                return False

    async def _wait_for_handler(self, unit: Unit, row: ParkedRow, drained: Drained) -> None:
        """This member has no handler for it: an older version runs beside a newer one, or a handler was taken out. It
        was received, and perhaps its outside call was made, so it stays until a version comes that can handle it."""
        place = (*unit.position.place, row.log_offset)
        with own():
            (state,) = await unit.driver.fetch(self._parking.sql.no_handler, *place, NO_HANDLER_REST_S)
        sentence = f"{self._consumer.name} has no handler for {row.event_type} in the version that runs."
        if state[0] == "DEAD":
            drained.settled.append((row.source, row.event_id, "DEAD", None))
        drained.entries += self._controls.tried(row, "refused", sentence, outcome="DEAD")
        log.warning("a parked event waits: no handler", event_type=row.event_type, key=row.key, sentence=sentence)

    async def _deliver(self, unit: Unit, row: ParkedRow, delivery: Delivery, drained: Drained) -> bool:
        try:
            if isinstance(delivery.handler, OutsideHandler):
                prepared = await self._handling.prepare(unit, delivery, prepared=row.prepared)
                if not isinstance(prepared, Handled):
                    calling = self._parking.sql.calling
                    with own():
                        await unit.driver.fetch(calling, *unit.position.place, row.log_offset, prepared.json)
                    return False
                self._done(row, prepared, drained)
            elif isinstance(delivery.handler, BatchHandler):
                await self._handling.run(unit, [delivery])
                self._done(row, Handled("PROCESSED"), drained)
            else:
                self._done(row, await self._handling.one(unit, delivery), drained)
        except PartFailed:
            raise
        except Exception as error:
            raise PartFailed(error, culprit=delivery) from error
        return True

    def _done(self, row: ParkedRow, handled: Handled, drained: Drained) -> None:
        drained.resolved.append(row)
        drained.settled.append((row.source, row.event_id, handled.outcome, None))
        drained.entries += handled.entries
        drained.entries += self._controls.handled(row, handled)

    async def _write(self, unit: Unit, position: Position, drained: Drained) -> None:
        await settle(unit, drained.settled)
        if drained.resolved:
            offsets, keys = [row.log_offset for row in drained.resolved], [row.key for row in drained.resolved]
            with own():
                await self._parking.resolve(unit.driver, position, offsets, keys)
        await unit.publish(drained.entries)

    async def _bury(
        self,
        unit: Unit,
        position: Position,
        row: ParkedRow,
        reading: Delivery | Bad,
        diagnosis: Diagnosis,
        failures: tuple[tuple[str, str], ...],
    ) -> bool:
        attempts = row.attempts + 1
        holds = row.holds and self._deaths.holds(reading)
        found = await self._parking.failed(
            unit.driver,
            position,
            row,
            state="DEAD",
            holds=holds,
            attempts=attempts,
            rest_s=0.0,
            diagnosis=diagnosis,
            failures=failures,
        )
        if not found:
            return False
        await settle(unit, [(row.source, row.event_id, "DEAD", None)])
        if not holds:
            await self._parking.promote(unit.driver, position, [row.key])
        entries = self._deaths.entries(reading, diagnosis, failures=failures, attempts=attempts, replays=row.replays)
        await unit.publish([*entries, *self._controls.tried(row, "failed_again", diagnosis.error, outcome="DEAD")])
        DEAD.labels(self._consumer.name, position.where.topic, diagnosis.reason).inc()
        return True

    def _judge(
        self, reading: Delivery, error: BaseException, permanent: bool, *, attempts: int, replayed: bool
    ) -> Verdict:
        """A replay is one attempt: an operator is waiting for the answer."""
        rest = None if permanent or replayed else self._consumer.retry.rest(attempts, random.random())
        reason: DeadReason = "permanent" if permanent else "out_of_attempts"
        event = reading.event
        diagnosis = diagnose(error, reason, consumer=self._consumer.name, event_type=event.type, data=event.data)
        return Verdict(diagnosis, None if rest is None else rest.total_seconds())

    def _tell_done(self, position: Position, drained: Drained) -> None:
        PROCESSED.labels(self._consumer.name, position.where.topic).inc(len(drained.resolved))
        if self._shows:
            event_lines.parked_lines(drained.resolved)

    def _count_attempt(self, reading: Delivery) -> None:
        ATTEMPTS.labels(self._consumer.name, reading.event.type).inc()


def _now() -> str:
    return format_time(datetime.now(UTC))
