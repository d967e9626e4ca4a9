"""A line for each event, for those who watch (`surefoot consume --once` or `--verbose`): what became of it.

They are written when the transaction has committed, and only put together when somebody wants them.
"""

import logging
from collections.abc import Sequence

import structlog

from surefoot.consumer_runtime.parking import ParkedRow
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
    Step,
    Told,
    Wait,
)
from surefoot.events import BadRecord, decode
from surefoot.log.port import StoredRecord

log = structlog.get_logger("surefoot.consumer")


def wanted() -> bool:
    """Asked once, when a consumer starts: asking costs more than a small batch should pay."""
    return bool(log.is_enabled_for(logging.DEBUG))


def batch_lines(readings: Sequence[Reading], made: Plan, settled: Sequence[tuple[str, str, str, str | None]]) -> None:
    """One line for each record of a batch that was committed."""
    outcomes = {(source, event_id): outcome for source, event_id, outcome, _ in settled}
    words: dict[int, str] = {}
    for step in made.steps:
        words |= {id(reading): _word(step, outcomes.get((reading.source, reading.event_id))) for reading in _in(step)}
    for reading in readings:
        if isinstance(reading, Passed):
            if reading.ignored:
                log.debug("ignored: no handler for it", event_type=_type_of(reading.record), **_place(reading.record))
        else:
            log.debug(words.get(id(reading), "duplicate: seen before"), **_names(reading), **_place(reading.record))


def parked_lines(rows: Sequence[ParkedRow]) -> None:
    """One line for each parked event that is done."""
    for row in rows:
        log.debug("handled after it was parked", event_type=row.event_type, key=row.key, **_place(row.record))


def _word(step: Step, outcome: str | None) -> str:
    match step:
        case Handle() | HandleRun():
            return "handled" if outcome is None else "barred: its undo came first"
        case Prepare():
            return {None: "handled", "PARKED": "prepared: its outside call is next"}.get(outcome, "barred")
        case Wait():
            return "parked behind its key"
        case Bury(bad):
            return f"dead: {bad.sentence}"
        case Obey(told):
            return f"control record obeyed: {told.control.action}"


def _in(step: Step) -> Sequence[Delivery | Bad | Told]:
    match step:
        case Handle(delivery) | Prepare(delivery):
            return [delivery]
        case HandleRun(deliveries):
            return deliveries
        case Wait(what):
            return [what]
        case Bury(bad):
            return [bad]
        case Obey(told):
            return [told]


def _names(reading: Delivery | Bad | Told) -> dict[str, str | None]:
    match reading:
        case Delivery():
            return {"event_type": reading.event.type, "key": reading.key}
        case Bad():
            return {"event_type": reading.event_type, "key": reading.key}
        case Told():
            return {"event_id": reading.control.event_id, "key": reading.key}


def _place(record: StoredRecord) -> dict[str, str]:
    return {"at": f"{record.topic}/{record.partition}:{record.offset}"}


def _type_of(record: StoredRecord) -> str:
    try:
        return decode(record.headers, record.value, record.key).type
    except BadRecord:
        return ""
