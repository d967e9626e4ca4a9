"""Command barriers: a saga's command is carried out once, and answered as often as it is asked.

An undo that comes before its do leaves a tombstone, and the do that comes late is barred. What died with an unknown
outcome is not stored, so that a retry or a replay may still run.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from uuid_utils import uuid7

from consumers.unit import Unit
from surefoot.database.connection import Row
from surefoot.events import Event, EventData, encode_data, event_type_of
from surefoot.events.binding import header_texts
from surefoot.events.commands import Command
from surefoot.log.partitioner import key_hash
from surefoot.outbox.entry import Entry

_NO_REPLY = (None, None, None, None, None, None)


@dataclass(frozen=True, slots=True)
class Answered:
    """It was carried out before: this is the reply to give again (None if it has none)."""

    reply: Entry | None


@dataclass(frozen=True, slots=True)
class Barred:
    """Its undo came first: it must never be carried out."""


@dataclass(frozen=True, slots=True)
class Clear:
    """It may be carried out. `done`, for an undo: whether its do was."""

    done: bool


Standing = Answered | Barred | Clear


async def stand(unit: Unit, command: Command, event: Event[Any]) -> Standing:
    """Where this command stands. An undo leaves its tombstone here, before anything else happens."""
    known = await _known(unit, command)
    mine, do = known.get(command.direction), known.get("do")
    if mine is not None:
        return Barred() if mine["barred"] else Answered(_again(mine, event))
    if command.direction == "undo" and do is None:
        tombstone = (command.saga_id, command.step, "do", unit.position.consumer, True, *_NO_REPLY)
        await unit.driver.execute(unit.sql.set_barrier, *tombstone)
    return Clear(done=_was_done(do))


async def stand_after_call(unit: Unit, command: Command) -> Barred | Clear:
    """Where a command stands when its outside call has been made. If its undo has come by now, it has voided the call
    by its key, and there is nothing to finish."""
    known = await _known(unit, command)
    mine = known.get(command.direction)
    if mine is not None and mine["barred"]:
        return Barred()
    return Clear(done=command.direction == "undo" and _was_done(known.get("do")))


async def settle(unit: Unit, command: Command, reply: Event[EventData] | None) -> None:
    """Keep the reply for repeats."""
    kept: tuple[object, ...] = _NO_REPLY
    if reply is not None:
        topic = event_type_of(reply.data).topic.name
        kept = (reply.type, reply.version, topic, reply.source, reply.key, encode_data(reply))
    names = (command.saga_id, command.step, command.direction, unit.position.consumer, False)
    await unit.driver.execute(unit.sql.set_barrier, *names, *kept)


async def _known(unit: Unit, command: Command) -> dict[str, Row]:
    rows = await unit.driver.fetch(unit.sql.barriers, command.saga_id, command.step)
    return {row["direction"]: row for row in rows}


def _was_done(do: Row | None) -> bool:
    return do is not None and not do["barred"]


def _again(row: Row, event: Event[Any]) -> Entry | None:
    """The stored reply as a new event that answers this command. Its data are given again as they are, byte by byte."""
    if row["reply_type"] is None:
        return None
    reply = Event(
        data=EventData(),  # its bytes are in the row; nothing below looks at the model
        id=str(uuid7()),
        source=row["reply_source"],
        type=row["reply_type"],
        version=row["reply_version"],
        time=datetime.now(UTC),
        key=row["reply_key"],
        correlation_id=event.correlation_id or event.id,
        causation_id=event.id,
        sequence=None,
        traceparent=event.traceparent,
        tracestate=event.tracestate,
    )
    headers = orjson.dumps(header_texts(reply)).decode()
    hashed = key_hash(reply.key.encode())
    return Entry(reply.id, hashed, row["reply_topic"], reply.type, reply.key, row["reply"], headers)
