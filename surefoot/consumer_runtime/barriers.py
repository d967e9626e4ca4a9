"""Command barriers: a saga's command is carried out once, and answered as often as it is asked.

An undo that comes before its do leaves a tombstone, and the do that comes late is barred. What died with an unknown
outcome is not stored, so that a retry or a replay may still run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson
from uuid_utils import uuid7

from surefoot.database.connection import Connection
from surefoot.events import Event, EventData, encode_data, event_type_of
from surefoot.events.binding import header_texts
from surefoot.events.event import Command, Direction
from surefoot.log.port import key_hash
from surefoot.outbox.entry import Entry

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from surefoot.consumer_runtime.statements import Statements


class OpenUnit(Protocol):
    """What handlers and barriers need of an open transaction. The consumer's own is a `Unit`; the test kit has one in
    memory."""

    @property
    def barriers(self) -> Barriers: ...

    @property
    def driver(self) -> Connection: ...

    @property
    def sql(self) -> Statements: ...

    @property
    def session(self) -> AsyncSession: ...

    async def after_handler(self) -> None: ...


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


class Barrier(NamedTuple):
    """What is remembered of one direction of a step."""

    barred: bool
    reply_type: str | None = None
    reply_version: int | None = None
    reply_topic: str | None = None
    reply_source: str | None = None
    reply_key: str | None = None
    reply: bytes | None = None


Known = dict[str, Barrier]
"""The barriers of one step, by direction."""


class Barriers:
    """Those of one transaction: what the database remembers, looked up for many commands at once, and what is new."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Known] = {}
        self._new: list[tuple[Command, Barrier]] = []

    async def look_up(self, driver: Connection, sql: str, commands: Sequence[Command]) -> None:
        missing = {(one.saga_id, one.step) for one in commands} - self._known.keys()
        if not missing:
            return
        self._known |= {place: {} for place in missing}
        for row in await driver.fetch(sql, list({saga_id for saga_id, _ in missing})):
            if (row[0], row[1]) in missing:
                self._known[row[0], row[1]][row[2]] = Barrier(*(row[n] for n in range(3, 10)))

    def of(self, command: Command) -> Known:
        return self._known[command.saga_id, command.step]

    def add(self, command: Command, direction: Direction, barrier: Barrier) -> None:
        self.of(command)[direction] = barrier
        self._new.append((replace(command, direction=direction), barrier))

    async def write(self, driver: Connection, sql: str, consumer: str) -> None:
        """All that is new, in one statement."""
        if not self._new:
            return
        rows = [(c.saga_id, c.step, c.direction, consumer, *barrier) for c, barrier in self._new]
        self._new = []
        await driver.execute(sql, *(list(column) for column in zip(*rows, strict=True)))


async def stand(unit: OpenUnit, command: Command, event: Event[Any]) -> Standing:
    """Where this command stands. An undo leaves its tombstone here, before anything else happens."""
    known = await _known(unit, command)
    mine, do = known.get(command.direction), known.get("do")
    if mine is not None:
        return Barred() if mine.barred else Answered(_again(mine, event))
    if command.direction == "undo" and do is None:
        unit.barriers.add(command, "do", Barrier(barred=True))
    return Clear(done=_was_done(do))


async def stand_after_call(unit: OpenUnit, command: Command, event: Event[Any]) -> Standing:
    """Where a command stands when its outside call has been made. If its undo has come by now, it has voided the call
    by its key, and there is nothing to finish. Nor is there if another attempt at it has been finished meanwhile: its
    call was the same one, by its key."""
    known = await _known(unit, command)
    mine = known.get(command.direction)
    if mine is not None:
        return Barred() if mine.barred else Answered(_again(mine, event))
    return Clear(done=command.direction == "undo" and _was_done(known.get("do")))


async def settle(unit: OpenUnit, command: Command, reply: Event[EventData] | None) -> None:
    """Keep the reply for repeats. It is written with the others of the transaction, just before its end."""
    kept = Barrier(barred=False)
    if reply is not None:
        topic = event_type_of(reply.data).topic.name
        kept = Barrier(False, reply.type, reply.version, topic, reply.source, reply.key, encode_data(reply))
    await _known(unit, command)
    unit.barriers.add(command, command.direction, kept)


async def _known(unit: OpenUnit, command: Command) -> Known:
    await unit.barriers.look_up(unit.driver, unit.sql.barriers, [command])
    return unit.barriers.of(command)


def _was_done(do: Barrier | None) -> bool:
    return do is not None and not do.barred


def _again(barrier: Barrier, event: Event[Any]) -> Entry | None:
    """The stored reply as a new event that answers this command. Its data are given again as they are, byte by byte."""
    if barrier.reply_type is None:
        return None
    # A reply is stored with all of its names.
    assert barrier.reply_source is not None
    assert barrier.reply_version is not None
    assert barrier.reply_topic is not None
    assert barrier.reply_key is not None
    reply = Event(
        data=EventData(),  # its bytes are in the row; nothing below looks at the model
        id=str(uuid7()),
        source=barrier.reply_source,
        type=barrier.reply_type,
        version=barrier.reply_version,
        time=datetime.now(UTC),
        key=barrier.reply_key,
        correlation_id=event.correlation_id or event.id,
        causation_id=event.id,
        sequence=None,
        traceparent=event.traceparent,
        tracestate=event.tracestate,
    )
    headers = orjson.dumps(header_texts(reply)).decode()
    hashed = key_hash(reply.key.encode())
    return Entry(reply.id, hashed, barrier.reply_topic, reply.type, reply.key, barrier.reply, headers)
