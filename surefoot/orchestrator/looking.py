"""Looking at sagas: lists, one saga with its history, what is parked for it. Reads only; no definition is needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

import orjson

from surefoot.database.connection import Connection, Row
from surefoot.database.schema import checked_schema
from surefoot.events.text import has_forbidden
from surefoot.orchestrator.concerned import Stored, cause_of, concerned, parked_headers
from surefoot.orchestrator.evidence import MOST_PARKED
from surefoot.orchestrator.registry import Registry
from surefoot.orchestrator.settings import OrchestratorSettings
from surefoot.orchestrator.views import HistoryLine, ParkedLine, SagaLine, SagaView, StepCount, View
from surefoot.saga.instance import ENDED, Instance, Status, from_json
from surefoot.saga.stimulus import Arrived

V = TypeVar("V", bound=View)

_LINE = """s.saga_id::text, s.saga_type, s.definition_version, s.entity_id, s.correlation_id, s.status::text,
    s.current_step, s.current_direction, s.reason, s.version, s.created_at, s.updated_at, s.ended_at"""
_HISTORY = "id, at, kind, step, direction, attempt, sentence, before::text, after::text, event_id"
_PARKED = """p.consumer, p.topic, p.partition, p.log_offset, p.key, p.event_id, p.event_type, p.state::text, p.holds,
    p.attempts, p.last_error, extract(epoch FROM p.next_attempt_at - now())::float8 AS due_in_s, p.parked_at,
    p.headers::text AS headers, p.value"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which sagas. What is None does not matter."""

    status: Status | None = None
    saga_type: str | None = None
    step: str | None = None
    entity: str | None = None
    unchanged_for: timedelta | None = None
    """Those that run or are being undone, and have not been decided on for so long."""
    under_way: bool = False
    """Only those that have not ended."""

    def where(self) -> tuple[list[str], list[object]]:
        """Written out for what is asked alone: only then is an index on sagas under way used for them."""
        conditions: list[str] = []
        values: list[object] = []
        for column, value in (
            ("s.status", self.status),
            ("s.saga_type", self.saga_type),
            ("s.current_step", self.step),
            ("s.entity_id", self.entity),
        ):
            if value is not None:
                values.append(value)
                kind = "" if column != "s.status" else "::text::{schema}.saga_status"
                conditions.append(f"{column} = ${len(values)}{kind}")
        if self.unchanged_for is not None:
            values.append(self.unchanged_for)
            conditions.append(
                f"s.status IN ('RUNNING', 'COMPENSATING') AND s.updated_at <= now() - ${len(values)}::interval"
            )
        if self.is_of_those_under_way:
            conditions.append("s.ended_at IS NULL")
        return conditions, values

    @property
    def is_of_those_under_way(self) -> bool:
        implied = self.status is not None and self.status not in ENDED
        return self.under_way or implied or self.step is not None or self.unchanged_for is not None


class Looking:
    def __init__(self, connection: Connection, schema: str) -> None:
        self.connection = connection
        self.schema = checked_schema(schema)
        self._sagas = f"{schema}.saga_instances"
        self._history = f"{schema}.saga_history"
        self._name = OrchestratorSettings().name

    async def pressing(self, wanted: Wanted, limit: int) -> list[SagaLine]:
        """What needs a person first: those stuck, then by how long nothing has happened. Ended ones: newest first."""
        stuck_first = "s.status = 'STUCK' DESC, s.updated_at, s.saga_id"
        return await self._lines(wanted, stuck_first if wanted.is_of_those_under_way else "s.saga_id DESC", limit)

    async def page(self, wanted: Wanted, before: UUID | None, limit: int) -> list[SagaLine]:
        """Newest first, from behind the saga `before` on: ids rise with time, so pages stay as they are."""
        return await self._lines(wanted, "s.saga_id DESC", limit, before)

    async def get(self, saga_id: UUID) -> SagaView | None:
        row = await self.connection.fetchrow(
            f"""SELECT {_LINE}, s.start_event_id, s.context::text, s.standing::text, now() AS seen_at, t.step,
                    t.direction, t.attempt, t.kind, t.fires_at, t.command_id::text, o.status::text AS command_status
                FROM {self._sagas} s LEFT JOIN {self.schema}.saga_timers t USING (saga_id)
                     LEFT JOIN {self.schema}.outbox_events o ON o.event_id = t.command_id
                WHERE s.saga_id = $1""",
            saga_id,
        )
        return None if row is None else _saga(row)

    async def standing(self, saga_id: UUID) -> Instance:
        """As the engine knows it, of a saga that is there."""
        return from_json(
            orjson.loads(
                await self.connection.fetchval(f"SELECT standing::text FROM {self._sagas} WHERE saga_id = $1", saga_id)
            )
        )

    async def history(self, saga_id: UUID, *, after: int, limit: int) -> list[HistoryLine]:
        """From the beginning, behind the line `after`."""
        return await self._history_of("id > $2", "id", saga_id, after, limit)

    async def latest(self, saga_id: UUID, limit: int) -> list[HistoryLine]:
        """The last lines, in the order in which they were written."""
        return (await self._history_of("id > $2", "id DESC", saga_id, 0, limit))[::-1]

    async def summary(self) -> list[StepCount]:
        rows = await self.connection.fetch(
            f"""SELECT saga_type, definition_version, status::text, current_step, current_direction, sagas,
                    longest_unchanged_since
                FROM {self.schema}.sagas_by_step
                ORDER BY saga_type, definition_version, status, current_step, current_direction"""
        )
        return [_as(StepCount, row) for row in rows]

    async def parked(self, saga: SagaView, registry: Registry | None = None) -> list[ParkedLine]:
        """Its commands, in front of whoever reads them in this database; and in front of the orchestrator what answers
        them, and what is about its entity: by its key or, as the registry's waits say, by its data. Of more than
        MOST_PARKED, those by key alone."""
        parked = f"{self.schema}.parked_events p"
        by_key = await self.connection.fetch(
            f"""SELECT {_PARKED} FROM {parked}
                WHERE p.key = $1 OR (p.consumer = $2 AND p.key = $3) ORDER BY p.parked_at, p.log_offset LIMIT 100""",
            str(saga.saga_id),
            self._name,
            saga.entity_id,
        )
        all_of_ours = await self.connection.fetch(
            f"SELECT {_PARKED} FROM {parked} WHERE p.consumer = $1 ORDER BY p.parked_at, p.log_offset LIMIT $2",
            self._name,
            MOST_PARKED,
        )
        stored = {row["event_id"]: _stored(row) for row in all_of_ours}
        causes = {name: cause_of(one.headers, one.value) for name, one in stored.items()}
        sent = await self.connection.fetch(
            f"""SELECT event_id FROM {self._history}
                WHERE saga_id = $1 AND kind = 'SENT' AND event_id = ANY ($2::text[])""",
            saga.saga_id,
            [cause for cause in causes.values() if cause is not None],
        )
        own = {row[0] for row in sent}
        ours = {name for name, cause in causes.items() if cause in own}
        if registry is not None:
            ours |= {name for name, one in stored.items() if _is_waited_for(saga, registry, one)}
        found = [*by_key, *(row for row in all_of_ours if row["event_id"] in ours)]
        return list({(row["consumer"], row["event_id"]): _as(ParkedLine, row) for row in found}.values())

    async def _lines(self, wanted: Wanted, order: str, limit: int, before: UUID | None = None) -> list[SagaLine]:
        conditions, values = wanted.where()
        if any(isinstance(value, str) and has_forbidden(value) for value in values):
            return []  # Postgres keeps no such text, and answers a NUL with an error
        if before is not None:
            values.append(before)
            conditions.append(f"s.saga_id < ${len(values)}")
        where = " AND ".join(conditions).format(schema=self.schema) or "true"
        rows = await self.connection.fetch(
            f"SELECT {_LINE} FROM {self._sagas} s WHERE {where} ORDER BY {order} LIMIT ${len(values) + 1}",
            *values,
            limit,
        )
        return [_as(SagaLine, row) for row in rows]

    async def _history_of(self, where: str, order: str, saga_id: UUID, after: int, limit: int) -> list[HistoryLine]:
        rows = await self.connection.fetch(
            f"SELECT {_HISTORY} FROM {self._history} WHERE saga_id = $1 AND {where} ORDER BY {order} LIMIT $3",
            saga_id,
            after,
            limit,
        )
        return [_as(HistoryLine, row) for row in rows]


def _stored(row: Row) -> Stored:
    return Stored(row["key"], row["event_type"], parked_headers(row["headers"]), row["value"])


def _is_waited_for(saga: SagaView, registry: Registry, one: Stored) -> bool:
    """Whether it is, or may be, what the saga waits for."""
    found = concerned(registry, one)
    return saga.entity_id in found.entities or (saga.saga_type, saga.current_step) in found.waits


def _as(kind: type[V], row: Row) -> V:
    return kind.model_validate({name: row[name] for name in kind.model_fields})


def _saga(row: Row) -> SagaView:
    stands = from_json(orjson.loads(row["standing"]))
    made: dict[str, Any] = {name: row[name] for name in (*SagaLine.model_fields, "start_event_id", "seen_at")}
    made["context"] = orjson.loads(row["context"])
    made["steps"] = [
        {
            name: getattr(record, name)
            for name in ("name", "state", "attempt", "limit", "undo_attempt", "undo_limit", "result")
        }
        for record in stands.trail
    ]
    made["choices"] = dict(stands.choices)
    made["arrived"] = [wait for wait, _ in stands.arrived]
    made["held"] = [
        {"step": one.wait, "answer": "arrived", "event_id": one.event_id}
        if isinstance(one, Arrived)
        else {"step": one.step, "answer": one.answer, "event_id": one.event_id}
        for one in stands.held
    ]
    made["before_pause"] = stands.before_pause
    timer = ("step", "direction", "attempt", "kind", "fires_at", "command_id", "command_status")
    made["timer"] = None if row["step"] is None else {name: row[name] for name in timer}
    return SagaView.model_validate(made)


def line_of(saga: SagaLine) -> str:
    """To name it among several."""
    return f"{saga.saga_id} ({saga.saga_type}, {saga.status})"


def ids_of(sagas: Sequence[SagaLine]) -> str:
    return ", ".join(map(line_of, sagas))
