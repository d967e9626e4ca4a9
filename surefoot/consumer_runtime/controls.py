"""Obeying control records: a dead event is replayed, discarded, superseded or looked at, once, and the answer is told.

Everything is a compare-and-set from DEAD in the transaction of the batch that had the control record in it. A replay
only puts the event back to the head of its key; the worker tries it as it tries any parked event, and answers when it
knows how that went.
"""

from dataclasses import dataclass

from surefoot.consumer import Consumer
from surefoot.consumer.contracts import Answer, Control, ControlOutcome
from surefoot.consumer_runtime.handling import Handled
from surefoot.consumer_runtime.metrics import CONTROLS
from surefoot.consumer_runtime.parking import ParkedRow, Parking, headers_json, parked_row
from surefoot.consumer_runtime.plan import Bad, Delivery, Told, read
from surefoot.consumer_runtime.unit import Unit
from surefoot.database.connection import Row
from surefoot.events import new_event
from surefoot.events.text import printable
from surefoot.log.port import StoredRecord
from surefoot.outbox.entry import Entry, entry_of

_MAX_DECISION = 500


@dataclass(frozen=True, slots=True)
class Found:
    """What this consumer knows of the event a control record is about."""

    row: ParkedRow | None
    waiting_behind: int
    outcome: str | None


class Controls:
    def __init__(self, consumer: Consumer, parking: Parking) -> None:
        self._consumer = consumer
        self._parking = parking

    async def obey(self, unit: Unit, told: Told) -> list[Entry]:
        """Carry it out; the answers to publish (none yet for a replay that is about to be tried)."""
        control = told.control
        CONTROLS.labels(self._consumer.name, control.action).inc()
        found = await self._find(unit, control)
        if control.action == "inspect":
            return [self._answer(told, found, "inspected", "This is how it stands.")]
        if found.row is None or found.row.state != "DEAD":
            return [self._not_dead(told, found)]
        if control.action == "discard":
            return await self._discard(unit, told, found, found.row)
        if control.action == "supersede":
            return await self._supersede(unit, told, found, found.row)
        asked_by = f"replay:{told.event_id}"
        await unit.driver.fetch(self._parking.sql.replay, *unit.position.place, found.row.log_offset, asked_by)
        await self._reopen(unit, found.row, None)
        return []

    def handled(self, row: ParkedRow, handled: Handled) -> list[Entry]:
        """The answer where the attempt that a control record asked for succeeded."""
        if handled.outcome == "BARRED":
            sentence = "Its undo came first, so it was barred: it had no effect, and never will."
            return self.tried(row, "already_settled", sentence, outcome="BARRED")
        return self.tried(row, "done", "It was tried again, and its effect has been had.", outcome="PROCESSED")

    def tried(self, row: ParkedRow, answer: Answer, sentence: str, *, outcome: str | None) -> list[Entry]:
        """The answer to the control record that asked for the attempt, now that it was made."""
        if row.control_id is None:
            return []
        action, _, control_id = row.control_id.partition(":")
        told = ControlOutcome(
            control_id=control_id,
            action="supersede" if action == "supersede" else "replay",
            consumer=self._consumer.name,
            source=row.source,
            event_id=row.event_id,
            answer=answer,
            sentence=sentence,
            outcome=outcome,
            state="DEAD" if outcome == "DEAD" else None,
        )
        return [entry_of(new_event(told))]

    async def _find(self, unit: Unit, control: Control) -> Found:
        rows = await unit.driver.fetch(self._parking.sql.find, *unit.position.place, control.source, control.event_id)
        inbox: list[Row] = await unit.driver.fetch(
            unit.sql.outcome, unit.position.consumer, control.source, control.event_id
        )
        row = parked_row(rows[0], unit.position) if rows else None
        return Found(row, rows[0][16] if rows else 0, inbox[0][0] if inbox else None)

    def _not_dead(self, told: Told, found: Found) -> Entry:
        if found.row is not None:
            return self._answer(told, found, "not_dead", "It is not dead: it is waiting for its turn, or being tried.")
        match found.outcome:
            case None:
                sentence = "This consumer knows nothing of it: it was never received, or is past dedup retention."
                return self._answer(told, found, "unknown", sentence)
            case "PROCESSED":
                return self._answer(told, found, "already_done", "Its effect has been had already.")
            case _:
                return self._answer(told, found, "already_settled", f"It was settled before: {found.outcome}.")

    async def _discard(self, unit: Unit, told: Told, found: Found, row: ParkedRow) -> list[Entry]:
        decided = (row.source, row.event_id, "DISCARDED", _decision(told.control))
        await unit.driver.execute(unit.sql.settle, unit.position.consumer, *[[part] for part in decided])
        await self._parking.resolve(unit.driver, unit.position, [row.log_offset], [row.key])
        return [self._answer(told, found, "discarded", "It will not be tried again; its key goes on without it.")]

    async def _supersede(self, unit: Unit, told: Told, found: Found, row: ParkedRow) -> list[Entry]:
        replacement = told.control.replacement
        if replacement is None:
            return [self._answer(told, found, "refused", "The control record has no replacement for the event.")]
        old = row.record
        record = StoredRecord(
            old.topic,
            old.partition,
            old.offset,
            old.timestamp_ms,
            old.key,
            replacement.value_bytes(),
            replacement.header_bytes(),
        )
        edited = read(record, self._consumer)
        if not isinstance(edited, Delivery):
            why = edited.sentence if isinstance(edited, Bad) else "This consumer has no handler for its type."
            return [self._answer(told, found, "refused", f"The edited event cannot be taken. {why}")]
        fresh = await unit.driver.fetch(unit.sql.receive, unit.position.consumer, [edited.source], [edited.event_id])
        if not fresh:
            return [self._answer(told, found, "refused", "The edited event has an id that was received before.")]
        decided = (row.source, row.event_id, "SUPERSEDED", _decision(told.control))
        await unit.driver.execute(unit.sql.settle, unit.position.consumer, *[[part] for part in decided])
        await unit.driver.fetch(
            self._parking.sql.supersede,
            *unit.position.place,
            row.log_offset,
            f"supersede:{told.event_id}",
            edited.source,
            edited.event_id,
            edited.event.type,
            record.value,
            headers_json(record.headers),
        )
        await self._reopen(unit, row, (edited.source, edited.event_id))
        return []

    async def _reopen(self, unit: Unit, row: ParkedRow, other: tuple[str, str] | None) -> None:
        source, event_id = other or (row.source, row.event_id)
        await unit.driver.execute(unit.sql.settle, unit.position.consumer, [source], [event_id], ["PARKED"], [None])

    def _answer(self, told: Told, found: Found, answer: Answer, sentence: str) -> Entry:
        control = told.control
        outcome = ControlOutcome(
            control_id=told.event_id,
            action=control.action,
            consumer=self._consumer.name,
            source=control.source,
            event_id=control.event_id,
            answer=answer,
            sentence=sentence,
            state=None if found.row is None or answer == "discarded" else found.row.state,
            outcome="DISCARDED" if answer == "discarded" else found.outcome,
            waiting_behind=found.waiting_behind,
            past_retention=found.outcome is None,
        )
        return entry_of(new_event(outcome))


def _decision(control: Control) -> str:
    return printable(f"{control.by}: {control.why}", _MAX_DECISION)
