"""Parked events: rows that keep a record's exact bytes while it waits, is tried again, or is dead."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal, NamedTuple

import orjson

from surefoot.consumer.dead_letter import MAX_FAILURES, Diagnosis
from surefoot.consumer_runtime.plan import recorded_ms
from surefoot.consumer_runtime.statements import HERE
from surefoot.consumer_runtime.unit import Position
from surefoot.database.connection import Connection, Row
from surefoot.errors import SurefootError
from surefoot.log.port import Headers, StoredRecord

# JSON as text: SQLAlchemy has told the driver to take it apart on its connections, and other drivers do not.
COLUMNS = (
    "log_offset, key, source, event_id, event_type, state::text, holds, attempts, replays, failures::text, record_key, "
    "value, headers::text, (extract(epoch FROM recorded_at) * 1000)::bigint, prepared::text, control_id"
)


class ParkedStatements:
    def __init__(self, schema: str) -> None:
        parked = f"{schema}.parked_events"
        self._parking(parked, schema)
        self._turns(parked)
        self._attempts(parked, schema)
        self._controls(parked)
        self.stats = f"""
            SELECT topic, count(DISTINCT key) FILTER (WHERE holds), extract(epoch FROM now() - min(parked_at))::float8
            FROM {parked} WHERE consumer = $1::text GROUP BY topic"""

    def _parking(self, parked: str, schema: str) -> None:
        self.park = f"""
            INSERT INTO {parked} (consumer, topic, partition, log_offset, key, source, event_id, event_type, state,
                holds, attempts, next_attempt_at, reason, last_error, fingerprint, failures, record_key, value, headers,
                recorded_at, dead_at, prepared)
            SELECT $1::text, $2::text, $3::int, e.log_offset, e.key, e.source, e.event_id, e.event_type,
                e.state::{schema}.parked_state, e.holds, e.attempts, now() + e.rest_s * interval '1 second', e.reason,
                e.last_error, e.fingerprint, e.failures::json, e.record_key, e.value, e.headers::json,
                to_timestamp(e.timestamp_ms / 1000.0), CASE WHEN e.state = 'DEAD' THEN now() END, e.prepared::json
            FROM unnest($4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bool[],
                $11::int[], $12::float8[], $13::text[], $14::text[], $15::text[], $16::text[], $17::bytea[],
                $18::bytea[], $19::text[], $20::bigint[], $21::text[])
              AS e(log_offset, key, source, event_id, event_type, state, holds, attempts, rest_s, reason, last_error,
                fingerprint, failures, record_key, value, headers, timestamp_ms, prepared)"""
        # Whoever had its turn waits again behind those that hold its key from before it. There are some where a
        # consumer begins anew and has a handler now for what it had passed by.
        self.step_back = f"""
            UPDATE {parked} p SET state = 'WAITING'
            FROM unnest($4::text[], $5::bigint[]) AS holder(key, log_offset)
            WHERE p.consumer = $1::text AND p.topic = $2::text AND p.partition = $3::int AND p.holds
              AND p.key = holder.key AND p.log_offset > holder.log_offset AND p.state = 'DUE'
            RETURNING p.key"""

    def _turns(self, parked: str) -> None:
        """Whose turn it is. $4 of the first two: offsets of calls under way."""
        self.due = f"""
            SELECT {COLUMNS} FROM {parked}
            WHERE {HERE} AND state IN ('DUE', 'CALLING') AND next_attempt_at <= now()
              AND log_offset <> ALL ($4::bigint[])
            ORDER BY next_attempt_at, log_offset LIMIT $5::int"""
        self.next_due = f"""
            SELECT extract(epoch FROM min(next_attempt_at) - now())::float8 FROM {parked}
            WHERE {HERE} AND state IN ('DUE', 'CALLING') AND log_offset <> ALL ($4::bigint[])"""
        # By the order of the primary key: a mere EXISTS reads the table, and all that was deleted and not vacuumed yet.
        self.has_any = f"SELECT log_offset FROM {parked} WHERE {HERE} ORDER BY topic, partition, log_offset LIMIT 1"
        # Whoever waits behind; the last column says whether it may be tried now. (It is not left out where it may not:
        # those behind it would pass it.)
        self.behind = f"""
            SELECT {COLUMNS}, state = 'WAITING' OR (state = 'DUE' AND next_attempt_at <= now()) FROM {parked}
            WHERE {HERE} AND key = $4::text AND holds AND log_offset > $5::bigint
            ORDER BY log_offset LIMIT $6::int"""
        self.resolve = f"DELETE FROM {parked} WHERE {HERE} AND log_offset = ANY ($4::bigint[]) RETURNING log_offset"
        # Whoever is first of its key now has its turn at once.
        self.promote = f"""
            UPDATE {parked} p SET state = 'DUE', next_attempt_at = now()
            FROM (SELECT DISTINCT ON (key) log_offset, state FROM {parked}
                  WHERE {HERE} AND holds AND key = ANY ($4::text[]) ORDER BY key, log_offset) AS head
            WHERE p.consumer = $1::text AND p.topic = $2::text AND p.partition = $3::int
              AND p.log_offset = head.log_offset AND head.state = 'WAITING'"""

    def _attempts(self, parked: str, schema: str) -> None:
        """What became of an attempt."""
        self.calling = f"""
            UPDATE {parked} SET state = 'CALLING', holds = true, next_attempt_at = now(), prepared = $5::text::json
            WHERE {HERE} AND log_offset = $4::bigint RETURNING true"""
        self.failed = f"""
            UPDATE {parked} SET state = $5::text::{schema}.parked_state, attempts = $6::int, failures = $7::text::json,
                last_error = $8::text, fingerprint = $9::text, reason = $10::text, holds = $11::bool,
                next_attempt_at =
                    CASE WHEN $5::text <> 'DEAD' THEN now() + $12::float8 * interval '1 second' END,
                dead_at = CASE WHEN $5::text = 'DEAD' THEN now() END,
                control_id = CASE WHEN $5::text = 'DEAD' THEN NULL ELSE control_id END
            WHERE {HERE} AND log_offset = $4::bigint RETURNING true"""
        # Its handler is gone. One that an operator asked for is dead again; others wait for the handler to come back.
        self.no_handler = f"""
            UPDATE {parked} SET
                state = CASE WHEN control_id IS NOT NULL AND dead_at IS NOT NULL THEN 'DEAD'::{schema}.parked_state
                             ELSE state END,
                next_attempt_at = now() + $5::float8 * interval '1 second', control_id = NULL
            WHERE {HERE} AND log_offset = $4::bigint RETURNING state::text"""
        self.put_off = f"""
            UPDATE {parked} SET next_attempt_at = now() + $5::float8 * interval '1 second'
            WHERE {HERE} AND log_offset = $4::bigint AND state IN ('DUE', 'CALLING')"""

    def _controls(self, parked: str) -> None:
        """What operators decide. $4 and $5 of the first: the event's source and id."""
        self.find = f"""
            SELECT {COLUMNS}, (SELECT count(*) FROM {parked} b WHERE b.consumer = p.consumer AND b.topic = p.topic
                AND b.partition = p.partition AND b.key = p.key AND b.holds AND p.holds AND b.log_offset > p.log_offset)
            FROM {parked} p WHERE {HERE} AND source = $4::text AND event_id = $5::text
            FOR UPDATE OF p"""  # an operator's `parked retry` may be about to revive it
        self.replay = f"""
            UPDATE {parked} SET state = 'DUE', next_attempt_at = now(), replays = replays + 1,
                control_id = $5::text
            WHERE {HERE} AND log_offset = $4::bigint AND state = 'DEAD' RETURNING true"""
        self.supersede = f"""
            UPDATE {parked} SET state = 'DUE', next_attempt_at = now(), control_id = $5::text,
                source = $6::text, event_id = $7::text, event_type = $8::text, value = $9::bytea,
                headers = $10::text::json, attempts = 0, failures = '[]', prepared = NULL
            WHERE {HERE} AND log_offset = $4::bigint AND state = 'DEAD' RETURNING true"""


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
