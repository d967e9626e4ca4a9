"""What an operator can see and do of parked events: list the keys that wait, look at one event, have it tried now.

Having a waiting one tried sooner changes nothing but the time. Trying a dead one again is a decision: it is one
transaction, a compare-and-set from DEAD, and who decided it and why is kept in the inbox.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from surefoot.database.schema import checked_schema

if TYPE_CHECKING:  # the commands import this module, also to print their help
    from surefoot.database.connection import Connection, Row

STATES = ("WAITING", "DUE", "CALLING", "DEAD")
BEHIND_LIMIT = 1000
BEHIND_SHOWN = 10
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ParkedKey:
    """The first event of a key that waits; or a dead one that was released, so that nothing waits behind it."""

    consumer: str
    topic: str
    partition: int
    key: str
    state: str
    event_id: str
    event_type: str | None
    attempts: int
    due_in_s: float | None
    last_error: str | None
    parked_at: datetime
    waiting_behind: int
    holds: bool


@dataclass(frozen=True, slots=True)
class ParkedEvent:
    """All that is known of one."""

    consumer: str
    topic: str
    partition: int
    log_offset: int
    key: str
    source: str
    event_id: str
    event_type: str | None
    state: str
    holds: bool
    attempts: int
    replays: int
    due_in_s: float | None
    reason: str | None
    last_error: str | None
    fingerprint: str | None
    failures: str
    record_key: bytes | None
    value: bytes | None
    headers: str
    recorded_at: datetime
    parked_at: datetime
    dead_at: datetime | None
    prepared: str | None
    decision: str | None

    @property
    def place(self) -> str:
        return f"{self.topic}/{self.partition}:{self.log_offset}"


@dataclass(frozen=True, slots=True)
class Settled:
    """What the inbox says of an event that is not parked."""

    consumer: str
    outcome: str
    processed_at: datetime
    decision: str | None


_DUE_IN = "extract(epoch FROM p.next_attempt_at - now())::float8 AS due_in_s"


class ParkedOperations:
    def __init__(self, connection: "Connection", schema: str) -> None:
        self._connection = connection
        self._schema = checked_schema(schema)
        self._parked = f"{schema}.parked_events"
        self._inbox = f"{schema}.processed_events"

    async def keys(
        self, *, consumer: str | None, topic: str | None, key: str | None, state: str | None, limit: int
    ) -> list[ParkedKey]:
        """The keys that wait, and what was released, longest first. With a state: the first event of each key that is
        in it."""
        columns = (
            "p.consumer, p.topic, p.partition, p.key, p.log_offset, p.state::text, p.event_id, p.event_type, "
            f"p.attempts, {_DUE_IN}, p.last_error, p.parked_at, p.holds"
        )
        wanted = (
            "($1::text IS NULL OR p.consumer = $1) AND ($2::text IS NULL OR p.topic = $2) "
            "AND ($3::text IS NULL OR p.key = $3) AND ($4::text IS NULL OR p.state::text = $4)"
        )
        # The same keys as the view parked_keys has; but what waits behind is counted for those alone that are shown.
        found = await self._connection.fetch(
            f"""SELECT k.*, (
                    SELECT count(*) FROM (
                        SELECT FROM {self._parked} b
                        WHERE k.holds AND b.holds AND b.consumer = k.consumer AND b.topic = k.topic
                          AND b.partition = k.partition AND b.key = k.key AND b.log_offset > k.log_offset
                        LIMIT {BEHIND_LIMIT}) AS behind) AS waiting_behind
                FROM (
                    SELECT * FROM (
                        (SELECT DISTINCT ON (p.consumer, p.topic, p.partition, p.key) {columns}
                         FROM {self._parked} p WHERE p.holds AND {wanted}
                         ORDER BY p.consumer, p.topic, p.partition, p.key, p.log_offset)
                        UNION ALL
                        SELECT {columns} FROM {self._parked} p WHERE NOT p.holds AND {wanted}) AS every
                    ORDER BY parked_at, consumer, topic, partition, log_offset LIMIT $5) AS k
                ORDER BY parked_at, consumer, topic, partition, log_offset""",
            consumer,
            topic,
            key,
            state,
            limit,
        )
        return [_as(ParkedKey, row) for row in found]

    async def by_id(self, event_id: str, consumer: str | None) -> list[ParkedEvent]:
        return await self._events("p.event_id = $1::text AND ($2::text IS NULL OR p.consumer = $2)", event_id, consumer)

    async def by_place(self, topic: str, partition: int, offset: int, consumer: str | None) -> list[ParkedEvent]:
        where = "p.topic = $1::text AND p.partition = $2::int AND p.log_offset = $3::bigint"
        return await self._events(
            f"{where} AND ($4::text IS NULL OR p.consumer = $4)", topic, partition, offset, consumer
        )

    async def behind(self, row: ParkedEvent) -> tuple[list[ParkedEvent], int]:
        """The first of those that wait behind it, and how many do (counted up to BEHIND_LIMIT)."""
        if not row.holds:
            return [], 0
        here = (
            "p.consumer = $1::text AND p.topic = $2::text AND p.partition = $3::int AND p.key = $4::text AND p.holds "
            "AND p.log_offset > $5::bigint"
        )
        place = (row.consumer, row.topic, row.partition, row.key, row.log_offset)
        shown = await self._events(f"{here} ORDER BY p.log_offset LIMIT {BEHIND_SHOWN}", *place)
        count = await self._connection.fetchval(
            f"SELECT count(*) FROM (SELECT FROM {self._parked} p WHERE {here} LIMIT {BEHIND_LIMIT}) AS waiting", *place
        )
        return shown, int(count)

    async def settled(self, event_id: str, consumer: str | None) -> list[Settled]:
        found = await self._connection.fetch(
            f"""SELECT consumer, outcome::text, processed_at, decision FROM {self._inbox}
                WHERE event_id = $1 AND ($2::text IS NULL OR consumer = $2) ORDER BY consumer""",
            event_id,
            consumer,
        )
        return [_as(Settled, row) for row in found]

    async def hasten(self, row: ParkedEvent) -> bool:
        """Have it tried now instead of later; False if it is not waiting for an attempt any more."""
        done = await self._connection.fetchval(
            f"""UPDATE {self._parked} SET next_attempt_at = least(next_attempt_at, now())
                WHERE {_THIS} AND state IN ('DUE', 'CALLING') RETURNING true""",
            *_names(row),
        )
        return bool(done)

    async def revive(self, row: ParkedEvent, *, decision: str) -> bool:
        """Have a dead one tried again; False if it is not dead any more. Whoever comes second changes nothing."""
        async with self._connection.transaction():
            # The parking table first, then the inbox: the order in which a consumer obeys a control record.
            done = await self._connection.fetchval(
                f"""UPDATE {self._parked}
                    SET state = 'DUE', next_attempt_at = now(), replays = replays + 1,
                        control_id = NULL
                    WHERE {_THIS} AND state = 'DEAD' RETURNING true""",
                *_names(row),
            )
            if done:
                await self._connection.execute(
                    f"""UPDATE {self._inbox}
                        SET outcome = 'PARKED', processed_at = now(), decision = concat_ws(E'\\n', decision, $4::text)
                        WHERE event_id = $1 AND consumer = $2 AND source = $3""",
                    row.event_id,
                    row.consumer,
                    row.source,
                    decision,
                )
        return bool(done)

    async def _events(self, where: str, *values: object) -> list[ParkedEvent]:
        found = await self._connection.fetch(
            f"""SELECT p.consumer, p.topic, p.partition, p.log_offset, p.key, p.source, p.event_id, p.event_type,
                    p.state::text, p.holds, p.attempts, p.replays, {_DUE_IN}, p.reason, p.last_error, p.fingerprint,
                    p.failures::text, p.record_key, p.value, p.headers::text, p.recorded_at, p.parked_at, p.dead_at,
                    p.prepared::text, i.decision
                FROM {self._parked} p LEFT JOIN {self._inbox} i USING (event_id, consumer, source)
                WHERE {where}""",
            *values,
        )
        return [_as(ParkedEvent, row) for row in found]


_THIS = (
    "consumer = $1::text AND topic = $2::text AND partition = $3::int AND log_offset = $4::bigint "
    "AND event_id = $5::text AND source = $6::text"
)


def _names(row: ParkedEvent) -> Sequence[object]:
    return row.consumer, row.topic, row.partition, row.log_offset, row.event_id, row.source


def _as(kind: type[T], row: "Row") -> T:
    return kind(**{field.name: row[field.name] for field in fields(kind)})  # type: ignore[arg-type]
