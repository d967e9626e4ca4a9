"""Taking dead letters in: every record of every dead-letter topic becomes a row, once, or comes back to its row.

A polled batch is one transaction, and its letters are written together. The inbox tells fresh letters from those seen
before, as it does for any consumer, and no fence is needed: letters of one event are in one partition, in order. What
cannot be read is kept raw.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

import structlog
from uuid_utils import uuid7

from surefoot.database.connection import Connection
from surefoot.database.schema import checked_schema
from surefoot.dlq.intake.letters import Letter, Unreadable, kept_raw, read_letter
from surefoot.dlq.metrics import LETTERS
from surefoot.dlq.settings import DlqSettings
from surefoot.dlq.subscriber import Subscriber, may_pass
from surefoot.errors import words_of
from surefoot.failpoints import failpoint
from surefoot.log.port import EventLog, StoredRecord

log = structlog.get_logger("surefoot.dlq")
Counts = Counter[tuple[str, str]]
"""By topic and result."""
DEAD_LETTERS = ".dlq"
"""How the name of a topic of dead letters ends."""
# Column by column: how the row is made from a Letter, and what a later letter replaces.
_TYPES = {
    "consumer": "text",
    "source": "text",
    "event_id": "text",
    "event_type": "text",
    "topic": "text",
    "partition": "int",
    "log_offset": "bigint",
    "key": "text",
    "correlation_id": "text",
    "saga_id": "text",
    "recorded_at": "timestamptz",
    "record_key": "bytea",
    "value": "bytea",
    "headers": "text",
    "headers_left_out": "int",
    "reason": "text",
    "error_type": "text",
    "error": "text",
    "stack": "text",
    "fingerprint": "text",
    "failures": "text",
    "attempts": "int",
    "replays": "int",
    "held": "bool",
    "letter_id": "text",
    "failed_at": "timestamptz",
}
_IDENTITY = ("consumer", "source", "event_id")
_JSON = ("headers", "failures")
_SETTLED = "('REPLAYED', 'DISCARDED', 'SUPERSEDED')"


@dataclass(frozen=True, slots=True)
class Arrived:
    """A record, and the letter that is kept of it."""

    record: StoredRecord
    letter: Letter
    unreadable: str | None
    """Why it is no letter, where it is none."""

    @property
    def event(self) -> tuple[str, str, str]:
        return self.letter.consumer, self.letter.source, self.letter.event_id


class IntakeStatements:
    def __init__(self, schema: str) -> None:
        schema = checked_schema(schema)
        events = f"{schema}.dlq_events"
        self.receive = f"""
            INSERT INTO {schema}.processed_events (consumer, source, event_id, outcome)
            SELECT $1::text, source, event_id, 'PROCESSED' FROM unnest($2::text[], $3::text[]) AS e(source, event_id)
            ON CONFLICT DO NOTHING RETURNING source, event_id"""
        # In the order of the ids, as whoever settles them does: two that change the same rows wait for each other
        # instead of deadlocking.
        self.lock = f"""
            SELECT d.id FROM {events} d JOIN unnest($1::text[], $2::text[], $3::text[]) AS n(consumer, source, event_id)
            USING (event_id, consumer, source) ORDER BY d.id FOR UPDATE OF d"""
        names = ", ".join(_TYPES)
        given = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(_TYPES.values(), start=2))
        values = ", ".join(f"n.{name}::json" if name in _JSON else f"n.{name}" for name in _TYPES)
        replaced = ", ".join(f"{name} = excluded.{name}" for name in _TYPES if name not in (*_IDENTITY, "failed_at"))
        # A replay that fails is told of by whoever runs it, whose clock may be behind that of the one before.
        newer = "(excluded.failed_at > d.failed_at OR excluded.replays > d.replays)"
        # A letter that was written before the event was settled, and comes late, opens nothing.
        reopened = f"(d.status IN {_SETTLED} AND excluded.failed_at > coalesce(d.resolved_at, '-infinity'))"
        self.keep = f"""
            INSERT INTO {events} AS d (id, first_failed_at, {names})
            SELECT n.id, n.failed_at, {values} FROM unnest($1::uuid[], {given}) AS n(id, {names})
            ORDER BY n.id
            ON CONFLICT (event_id, consumer, source) DO UPDATE SET {replaced},
                failed_at = greatest(d.failed_at, excluded.failed_at), deaths = d.deaths + 1,
                status = CASE WHEN {reopened} THEN 'OPEN' ELSE d.status END,
                resolution = CASE WHEN {reopened} THEN NULL ELSE d.resolution END,
                resolved_at = CASE WHEN {reopened} THEN NULL ELSE d.resolved_at END,
                superseded_by = CASE WHEN {reopened} THEN NULL ELSE d.superseded_by END
            WHERE {newer}
            RETURNING d.consumer, d.source, d.event_id, d.deaths"""


def columns_of(letter: Letter) -> tuple[object, ...]:
    """In the order in which `keep` takes them, after the id."""
    return tuple(getattr(letter, name) for name in _TYPES)


class Intake(Subscriber):
    def __init__(self, url: str, event_log: EventLog, settings: DlqSettings) -> None:
        super().__init__("intake", url, event_log, settings, group=settings.group)
        self._sql = IntakeStatements(settings.db_schema)

    async def topics(self) -> frozenset[str]:
        """Where dead letters are: every topic of the log that is named as one for them."""
        return frozenset(name for name in await self.event_log.topics() if name.endswith(DEAD_LETTERS))

    async def take(self, connection: Connection, records: Sequence[StoredRecord]) -> None:
        """All in one transaction. If the database refuses one of them, which one is found out by taking each alone."""
        arrived = [_arrived(record, read_letter(record)) for record in records]
        try:
            await self._in_one(connection, arrived)
        except Exception as error:
            if may_pass(error):
                raise
            for one in arrived:
                await self._alone(connection, one)

    async def _alone(self, connection: Connection, one: Arrived) -> None:
        try:
            await self._in_one(connection, [one])
        except Exception as error:
            if may_pass(error) or one.unreadable is not None:
                raise
            sentence = f"This letter cannot be kept as it is: {words_of(error)}"
            await self._in_one(connection, [_arrived(one.record, Unreadable(one.record, sentence))])

    async def _in_one(self, connection: Connection, arrived: Sequence[Arrived]) -> None:
        counts: Counts = Counter()
        async with connection.transaction():
            fresh = await self._fresh(connection, arrived, counts)
            for several in in_rounds(fresh):
                await self._keep(connection, several, counts)
            await failpoint("dlq.intake.written")
        for (topic, result), count in counts.items():
            LETTERS.labels(topic, result).inc(count)
        for one in fresh:
            if one.unreadable is not None:
                log.warning("a record is no letter; kept as it is", at=one.letter.event_id, why=one.unreadable)

    async def _fresh(self, connection: Connection, arrived: Sequence[Arrived], counts: Counts) -> list[Arrived]:
        """Those that were never taken in, in order."""
        first: dict[tuple[str, str], Arrived] = {}
        for one in arrived:
            first.setdefault((one.letter.letter_source, one.letter.letter_id), one)
        asked = sorted(first)  # in one order: the same letters may be in somebody else's hands, too
        columns = [source for source, _ in asked], [letter_id for _, letter_id in asked]
        received = {
            (row[0], row[1]) for row in await connection.fetch(self._sql.receive, self.settings.group, *columns)
        }
        fresh = [one for identity, one in first.items() if identity in received]
        counts.update((one.record.topic, "duplicate") for one in arrived)
        counts.subtract((one.record.topic, "duplicate") for one in fresh)
        return fresh

    async def _keep(self, connection: Connection, several: Sequence[Arrived], counts: Counts) -> None:
        """One letter of each event, at most."""
        by_event = {one.event: one for one in several}
        await connection.fetch(self._sql.lock, *([*column] for column in zip(*by_event, strict=True)))
        columns = [[*column] for column in zip(*(columns_of(one.letter) for one in several), strict=True)]
        kept = await connection.fetch(self._sql.keep, [str(uuid7()) for _ in several], *columns)
        deaths = {(row[0], row[1], row[2]): int(row[3]) for row in kept}
        counts.update((one.record.topic, _result(one, deaths.get(event))) for event, one in by_event.items())


def in_rounds(arrived: Iterable[Arrived]) -> list[list[Arrived]]:
    """So that no round has two letters of one event: a statement can change a row only once. Order is kept."""
    rounds: list[list[Arrived]] = []
    seen: Counter[tuple[str, str, str]] = Counter()
    for one in arrived:
        if seen[one.event] == len(rounds):
            rounds.append([])
        rounds[seen[one.event]].append(one)
        seen[one.event] += 1
    return rounds


def _arrived(record: StoredRecord, reading: Letter | Unreadable) -> Arrived:
    match reading:
        case Letter():
            return Arrived(record, reading, None)
        case Unreadable():
            return Arrived(record, kept_raw(reading), reading.sentence)
        case _:
            assert_never(reading)


def _result(one: Arrived, deaths: int | None) -> str:
    if one.unreadable is not None:
        return "unreadable"
    if deaths is None:
        return "old"
    return "new" if deaths == 1 else "again"
