"""One transaction over a part of a partition's records: inbox, handlers, outbox, position, in that order.

Whatever fails, nothing of the part has happened; the error says which record was at fault, if that is known.

Batches that fight over the same rows take turns for a while. Two batches that update the same few rows, each in the
order of its events, deadlock; Postgres takes a second to notice, and taking both again, even in smaller parts, leads to
the next deadlock. So when one was seen, the batches of this consumer run one at a time, on all its members, by a lock
in the database that each takes before anything else.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from surefoot.consumer import Consumer
from surefoot.consumer.dead_letter import bad_record
from surefoot.consumer.failures import classify
from surefoot.consumer_runtime import event_lines
from surefoot.consumer_runtime.controls import Controls
from surefoot.consumer_runtime.deaths import Deaths
from surefoot.consumer_runtime.handling import Handled, Handling
from surefoot.consumer_runtime.metrics import BATCH_SECONDS, BATCHES, DEAD, DUPLICATES, IGNORED, PARKED, PROCESSED
from surefoot.consumer_runtime.parking import Parked, Parking
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
from surefoot.consumer_runtime.unit import Database, FenceLost, PartFailed, Position, Unit, own
from surefoot.failpoints import failpoint
from surefoot.outbox.entry import Entry


@dataclass(slots=True)
class Carried:
    """What the steps of a plan have come to."""

    processed: int = 0
    obeyed: int = 0
    """Control records: what they changed may be due at once."""
    parked: list[Parked] = field(default_factory=list)
    settled: list[tuple[str, str, str, str | None]] = field(default_factory=list)
    """(source, id, outcome, decision) where the outcome is not PROCESSED."""
    entries: list[Entry] = field(default_factory=list)
    dead: list[Bad] = field(default_factory=list)


class Batches:
    """Takes parts of what was read from the log."""

    def __init__(
        self, consumer: Consumer, database: Database, handling: Handling, parking: Parking, controls: Controls
    ) -> None:
        self._consumer = consumer
        self._database = database
        self._handling = handling
        self._parking = parking
        self._controls = controls
        self._deaths = Deaths(consumer)
        self._contention = Contention(consumer)
        self._seconds = BATCH_SECONDS.labels(consumer.name)
        self._shows = event_lines.wanted()

    async def take(self, position: Position, readings: Sequence[Reading]) -> Carried:
        """Commit this part, or raise PartFailed or FenceLost."""
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
        self._count(position, made, carried)
        if self._shows:
            event_lines.batch_lines(readings, made, carried.settled)
        await failpoint("consumer.committed")
        return carried

    async def _transact(self, position: Position, readings: Sequence[Reading]) -> tuple[Plan, Carried]:
        known = [reading for reading in readings if not isinstance(reading, Passed)]
        try:
            async with self._database.unit(position) as unit:
                held = await unit.begin([reading.key for reading in known], alone=self._contention.takes_turns)
                with own():
                    fresh = await receive(unit, known)
                await failpoint("consumer.inbox")
                made = plan(readings, held=held, fresh=fresh, when_dead=self._consumer.when_dead)
                carried = await self._carry_out(unit, made)
                carried.entries[:0] = await unit.after_handlers()
                await failpoint("consumer.handled")
                await self._write(unit, position, carried)
                await failpoint("consumer.outbox")
                await unit.commit(next_offset=readings[-1].record.offset + 1, ignored=made.ignored)
        except (FenceLost, PartFailed):
            raise
        except Exception as error:
            raise PartFailed(error) from error
        return made, carried

    async def _carry_out(self, unit: Unit, made: Plan) -> Carried:
        carried = Carried()
        await self._handling.look_ahead(unit, [step.delivery for step in made.steps if isinstance(step, Handle)])
        for step in made.steps:
            match step:
                case Handle(delivery):
                    self._handled(delivery, await self._one(unit, delivery), carried)
                case HandleRun(deliveries):
                    await self._run(unit, deliveries)
                    carried.processed += len(deliveries)
                case Prepare(delivery):
                    await self._prepare(unit, delivery, carried)
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

    async def _one(self, unit: Unit, delivery: Delivery) -> Handled:
        try:
            return await self._handling.one(unit, delivery)
        except Exception as error:
            raise PartFailed(error, culprit=delivery) from error

    async def _run(self, unit: Unit, deliveries: Sequence[Delivery]) -> None:
        try:
            await self._handling.run(unit, deliveries)
        except Exception as error:
            raise PartFailed(error, culprit=deliveries[0] if len(deliveries) == 1 else None) from error

    async def _prepare(self, unit: Unit, delivery: Delivery, carried: Carried) -> None:
        try:
            prepared = await self._handling.prepare(unit, delivery)
        except Exception as error:
            raise PartFailed(error, culprit=delivery) from error
        if isinstance(prepared, Handled):
            self._handled(delivery, prepared, carried)
            return
        names = (delivery.record, delivery.key, delivery.source, delivery.event_id, delivery.event.type)
        carried.parked.append(Parked(*names, "CALLING", rest_s=0.0, prepared=prepared.json))
        carried.settled.append((delivery.source, delivery.event_id, "PARKED", None))

    def _handled(self, delivery: Delivery, handled: Handled, carried: Carried) -> None:
        carried.processed += 1
        carried.entries += handled.entries
        if handled.outcome != "PROCESSED":
            carried.settled.append((delivery.source, delivery.event_id, handled.outcome, None))

    def _bury(self, bad: Bad, holds: bool, carried: Carried) -> None:
        diagnosis = bad_record(bad.reason, bad.sentence, consumer=self._consumer.name, event_type=bad.event_type)
        names = (bad.record, bad.key, bad.source, bad.event_id, bad.event_type)
        carried.parked.append(Parked(*names, "DEAD", holds=holds, diagnosis=diagnosis))
        carried.settled.append((bad.source, bad.event_id, "DEAD", None))
        carried.entries += self._deaths.entries(bad, diagnosis)
        carried.dead.append(bad)

    async def _write(self, unit: Unit, position: Position, carried: Carried) -> None:
        await settle(unit, carried.settled)
        if carried.parked:
            # An event may wait behind one that a control record has just settled: then it is the first of its key.
            keys = [row.key for row in carried.parked if row.state == "WAITING"]
            with own():
                await self._parking.park(unit.driver, position, carried.parked)
                await self._parking.promote(unit.driver, position, keys)
        await unit.publish(carried.entries)

    def _count(self, position: Position, made: Plan, carried: Carried) -> None:
        labels = (self._consumer.name, position.where.topic)
        PROCESSED.labels(*labels).inc(carried.processed)
        DUPLICATES.labels(*labels).inc(made.duplicates)
        IGNORED.labels(*labels).inc(made.ignored)
        PARKED.labels(*labels).inc(sum(row.state in ("WAITING", "DUE") for row in carried.parked))
        for bad in carried.dead:
            DEAD.labels(*labels, bad.reason).inc()
        BATCHES.labels(self._consumer.name, "committed").inc()


async def receive(unit: Unit, known: Sequence[Reading]) -> set[tuple[str, str]] | None:
    """Write all of them into the inbox; those it had not seen, or None if it had seen none of them."""
    if not known:
        return None
    identities = [(reading.source, reading.event_id) for reading in known if not isinstance(reading, Passed)]
    sources, event_ids = zip(*identities, strict=True)
    rows = await unit.driver.fetch(unit.sql.receive, unit.position.consumer, list(sources), list(event_ids))
    return None if len(rows) == len(identities) else {(row[0], row[1]) for row in rows}


async def settle(unit: Unit, settled: Sequence[tuple[str, str, str, str | None]]) -> None:
    """Change outcomes in the inbox."""
    if settled:
        columns = [list(column) for column in zip(*settled, strict=True)]
        with own():
            await unit.driver.execute(unit.sql.settle, unit.position.consumer, *columns)


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
