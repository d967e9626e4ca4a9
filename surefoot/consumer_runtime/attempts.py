"""What is written of an attempt that failed: the event rests and is tried again, or it is dead.

A dead event leaves a letter for the dead-letter topic and, if it is a command, the reply that it failed with an unknown
outcome.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from uuid_utils import uuid7

from surefoot.consumer import Consumer
from surefoot.consumer.contracts import CommandFailed
from surefoot.consumer.dead_letter import Dead, DeadReason, Diagnosis, diagnose, letter
from surefoot.consumer.handlers import is_for_commands
from surefoot.consumer_runtime.controls import Controls
from surefoot.consumer_runtime.metrics import ATTEMPTS, DEAD, PARKED
from surefoot.consumer_runtime.parking import Parked, ParkedRow, Parking, with_failure
from surefoot.consumer_runtime.plan import Bad, Delivery
from surefoot.consumer_runtime.unit import Database, Position, Unit, receive, settle
from surefoot.errors import InvalidEvent
from surefoot.events import Event, Topic, new_event
from surefoot.events.event import Command, command_of
from surefoot.events.text import format_time
from surefoot.failpoints import failpoint
from surefoot.outbox.entry import Entry, entry_of


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a failed event: it rests for so long, or it is dead."""

    diagnosis: Diagnosis
    rest_s: float | None


def judge(
    consumer: Consumer,
    reading: Delivery,
    error: BaseException,
    *,
    permanent: bool,
    attempts: int,
    replayed: bool = False,
) -> Verdict:
    """What the failure of its latest attempt means for the event. A replay is one attempt: an operator is waiting for
    the answer."""
    rest = None if permanent or replayed else consumer.retry.rest(attempts, random.random())
    reason: DeadReason = "permanent" if permanent else "out_of_attempts"
    event = reading.event
    diagnosis = diagnose(error, reason, consumer=consumer.name, event_type=event.type, data=event.data)
    return Verdict(diagnosis, None if rest is None else rest.total_seconds())


class Attempts:
    def __init__(self, consumer: Consumer, database: Database, parking: Parking, controls: Controls) -> None:
        self._consumer = consumer
        self._database = database
        self._parking = parking
        self._controls = controls
        self.deaths = Deaths(consumer)

    async def failed_first(
        self, position: Position, reading: Delivery, error: BaseException, *, permanent: bool
    ) -> Verdict:
        """The first attempt at an event failed: park it, or bury it, and go on behind it."""
        verdict = judge(self._consumer, reading, error, permanent=permanent, attempts=1)
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
            holds=not dead or self.deaths.holds(reading),
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
                    await unit.publish(self.deaths.entries(reading, diagnosis, failures=failures, attempts=1))
            await unit.commit(next_offset=reading.record.offset + 1)
        self._count_attempt(reading)
        labels = (self._consumer.name, position.where.topic)
        if dead:
            DEAD.labels(*labels, diagnosis.reason).inc()
        else:
            PARKED.labels(*labels).inc()
        await failpoint("consumer.parked")
        return verdict

    async def failed_again(
        self, position: Position, row: ParkedRow, reading: Delivery, error: BaseException, *, permanent: bool
    ) -> Verdict | None:
        """An attempt at a parked event failed: let it rest, or bury it. None if it had gone through after all."""
        attempts, replayed = row.attempts + 1, row.control_id is not None
        verdict = judge(self._consumer, reading, error, permanent=permanent, attempts=attempts, replayed=replayed)
        failures = with_failure(row.failures, _now(), verdict.diagnosis.error)
        dead = verdict.rest_s is None
        async with self._database.unit(position) as unit:
            await unit.begin([])
            if dead:
                found = await self.bury(unit, row, reading, verdict.diagnosis, failures)
            else:
                found = await self._parking.failed(
                    unit.driver,
                    position,
                    row,
                    state="CALLING" if row.state == "CALLING" else "DUE",
                    holds=row.holds,
                    attempts=attempts,
                    rest_s=verdict.rest_s or 0.0,
                    diagnosis=verdict.diagnosis,
                    failures=failures,
                )
            await unit.commit(next_offset=None)
        if not found:
            return None
        self._count_attempt(reading)
        return verdict

    async def put_off(self, position: Position, row: ParkedRow, rest_s: float) -> None:
        """Not now, through no fault of its own: no attempt is counted."""
        async with self._database.unit(position) as unit:
            await unit.begin([])
            await unit.driver.execute(self._parking.sql.put_off, *position.place, row.log_offset, rest_s)
            await unit.commit(next_offset=None)

    async def bury(
        self,
        unit: Unit,
        row: ParkedRow,
        reading: Delivery | Bad,
        diagnosis: Diagnosis,
        failures: tuple[tuple[str, str], ...],
    ) -> bool:
        """A parked event is dead, in the transaction that is open. False if it had gone through after all."""
        attempts = row.attempts + 1
        holds = row.holds and self.deaths.holds(reading)
        found = await self._parking.failed(
            unit.driver,
            unit.position,
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
            await self._parking.promote(unit.driver, unit.position, [row.key])
        entries = self.deaths.entries(reading, diagnosis, failures=failures, attempts=attempts, replays=row.replays)
        await unit.publish([*entries, *self._controls.tried(row, "failed_again", diagnosis.error, outcome="DEAD")])
        DEAD.labels(self._consumer.name, unit.position.where.topic, diagnosis.reason).inc()
        return True

    def _count_attempt(self, reading: Delivery) -> None:
        ATTEMPTS.labels(self._consumer.name, reading.event.type).inc()


class Deaths:
    """What is published when an event is given up. Pure, but for the clock and the letter's id."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._topics: Mapping[str, Topic] = {topic.name: topic for topic in consumer.topics}

    def holds(self, what: Delivery | Bad) -> bool:
        """Whether the later events of its key wait for what an operator decides. A dead command lets them go on: its
        own undo is among them."""
        if isinstance(what, Bad):
            return what.identified and self._consumer.when_dead == "hold"
        return self._consumer.when_dead == "hold" and not is_command(what)

    def entries(
        self,
        what: Delivery | Bad,
        diagnosis: Diagnosis,
        *,
        failures: tuple[tuple[str, str], ...] = (),
        attempts: int = 0,
        replays: int = 0,
    ) -> list[Entry]:
        dead = Dead(
            consumer=self._consumer.name,
            record=what.record,
            key=what.key,
            source=what.source,
            event_id=what.event_id,
            event_type=what.event_type if isinstance(what, Bad) else what.event.type,
            correlation_id=what.correlation_id if isinstance(what, Bad) else what.event.correlation_id,
            diagnosis=diagnosis,
            failures=failures,
            attempts=attempts,
            replays=replays,
            held=self.holds(what),
        )
        limit = self._topics[what.record.topic].dead_letters.max_record_bytes
        written = [letter(dead, letter_id=str(uuid7()), now=datetime.now(UTC), max_bytes=limit)]
        command = None if isinstance(what, Bad) else _command(what)
        if command is not None and isinstance(what, Delivery):
            written.append(self._failed(what.event, command, diagnosis))
        return written

    def _failed(self, event: Event[Any], command: Command, diagnosis: Diagnosis) -> Entry:
        reply = CommandFailed(
            saga_id=command.saga_id,
            step=command.step,
            direction=command.direction,
            attempt=command.attempt,
            consumer=self._consumer.name,
            reason=diagnosis.reason,
            error=diagnosis.error,
        )
        return entry_of(new_event(reply, caused_by=event))


def is_command(delivery: Delivery) -> bool:
    return is_for_commands(delivery.handler)


def _command(delivery: Delivery) -> Command | None:
    if not is_command(delivery):
        return None
    try:
        return command_of(delivery.event)
    except InvalidEvent:
        return None  # half of a command: nobody to answer


def _now() -> str:
    return format_time(datetime.now(UTC))
