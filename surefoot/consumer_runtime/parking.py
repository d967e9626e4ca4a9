"""Parked events: rows that keep a record's exact bytes while it waits, is tried again, or is dead."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal, NamedTuple

import orjson

from surefoot.consumer.dead_letter import MAX_FAILURES, Diagnosis
from surefoot.consumer_runtime.parked_statements import ParkedStatements
from surefoot.consumer_runtime.reading import recorded_ms
from surefoot.consumer_runtime.unit import Position
from surefoot.database.connection import Connection, Row
from surefoot.errors import SurefootError
from surefoot.log.port import Headers, StoredRecord

State = Literal["WAITING", "DUE", "CALLING", "DEAD"]
Failures = tuple[tuple[str, str], ...]


class NoLongerParked(SurefootError):
    """The event was taken off the parking table since it was read: it has had its effect, or was settled."""


class ParkedRow(NamedTuple):
    """A row as it is read, column by column."""

    log_offset: int
    key: str
    source: str
    event_id: str
    event_type: str | None
    state: State
    holds: bool
    attempts: int
    replays: int
    failures: Failures
    record: StoredRecord
    prepared: str | None
    control_id: str | None


@dataclass(frozen=True, slots=True)
class Parked:
    """A row to be written."""

    record: StoredRecord
    key: str
    source: str
    event_id: str
    event_type: str | None
    state: State
    holds: bool = True
    attempts: int = 0
    rest_s: float | None = None
    diagnosis: Diagnosis | None = None
    failures: Failures = ()
    prepared: str | None = None


class Parking:
    def __init__(self, schema: str) -> None:
        self.sql = ParkedStatements(schema)

    async def park(self, driver: Connection, position: Position, rows: Sequence[Parked]) -> None:
        if rows:
            columns = [list(column) for column in zip(*[_columns(row) for row in rows], strict=True)]
            await driver.execute(self.sql.park, *position.place, *columns)
            holding = {row.record.offset: row.key for row in rows if row.holds}
            passed = await driver.fetch(self.sql.step_back, *position.place, [*holding.values()], [*holding])
            if passed:
                await self.promote(driver, position, [row[0] for row in passed])

    async def due(
        self, driver: Connection, position: Position, *, under_way: Sequence[int], at_most: int
    ) -> list[ParkedRow]:
        """Those whose time has come, without the calls that are under way."""
        found = await driver.fetch(self.sql.due, *position.place, list(under_way), at_most)
        return [parked_row(row, position) for row in found]

    async def next_due_s(self, driver: Connection, position: Position, *, under_way: Sequence[int]) -> float | None:
        """How long until the next one's time comes; None if there is none."""
        found: float | None = await driver.fetchval(self.sql.next_due, *position.place, list(under_way))
        return found

    async def has_any(self, driver: Connection, position: Position) -> bool:
        """Whether anything is parked here at all, dead ones included."""
        return await driver.fetchval(self.sql.has_any, *position.place) is not None

    async def behind(self, driver: Connection, position: Position, row: ParkedRow, at_most: int) -> list[ParkedRow]:
        """Those that waited for this one, in order."""
        found = await driver.fetch(self.sql.behind, *position.place, row.key, row.log_offset, at_most)
        return [parked_row(one, position) for one in takewhile(lambda one: bool(one[16]), found)]

    async def resolve(
        self, driver: Connection, position: Position, offsets: Sequence[int], keys: Sequence[str]
    ) -> None:
        """Remove rows; whoever is first of their keys then has its turn. If one of them is gone, the transaction must
        not be committed: its event would have its effect a second time."""
        gone = await driver.fetch(self.sql.resolve, *position.place, list(offsets))
        if len(gone) != len(offsets):
            raise NoLongerParked
        await self.promote(driver, position, keys)

    async def promote(self, driver: Connection, position: Position, keys: Sequence[str]) -> None:
        await driver.execute(self.sql.promote, *position.place, list(set(keys)))

    async def failed(
        self,
        driver: Connection,
        position: Position,
        row: ParkedRow,
        *,
        state: State,
        holds: bool,
        attempts: int,
        rest_s: float,
        diagnosis: Diagnosis,
        failures: Failures,
    ) -> bool:
        """Whether it is still parked. Where it is not, the attempt has gone through, and only its answer was lost."""
        found = await driver.fetch(
            self.sql.failed,
            *position.place,
            row.log_offset,
            state,
            attempts,
            _json(failures),
            diagnosis.error,
            diagnosis.fingerprint,
            diagnosis.reason if state == "DEAD" else None,
            holds,
            rest_s,
        )
        return bool(found)


def parked_row(row: Row, position: Position) -> ParkedRow:
    headers = tuple((name, None if value is None else base64.b64decode(value)) for name, value in orjson.loads(row[12]))
    record = StoredRecord(position.where.topic, position.where.partition, row[0], row[13], row[10], row[11], headers)
    failures = tuple((at, error) for at, error in orjson.loads(row[9]))
    return ParkedRow(
        row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8], failures, record, row[14], row[15]
    )


def with_failure(failures: Failures, at: str, error: str) -> Failures:
    return (*failures, (at, error))[-MAX_FAILURES:]


def headers_json(headers: Headers) -> str:
    pairs = [[name, None if value is None else base64.b64encode(value).decode()] for name, value in headers]
    return orjson.dumps(pairs).decode()


def _columns(row: Parked) -> tuple[object, ...]:
    diagnosis, record = row.diagnosis, row.record
    return (
        record.offset,
        row.key,
        row.source,
        row.event_id,
        row.event_type,
        row.state,
        row.holds,
        row.attempts,
        row.rest_s,
        diagnosis.reason if diagnosis is not None and row.state == "DEAD" else None,
        None if diagnosis is None else diagnosis.error,
        None if diagnosis is None else diagnosis.fingerprint,
        _json(row.failures),
        record.key,
        record.value,
        headers_json(record.headers),
        recorded_ms(record),
        row.prepared,
    )


def _json(failures: Failures) -> str:
    return orjson.dumps(failures).decode()
