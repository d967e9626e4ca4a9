"""Sagas in the database: loaded under lock, written in bulk. Everything here runs in the caller's transaction."""

from collections.abc import Iterable, Sequence

import orjson

from surefoot.database.connection import Connection, Row
from surefoot.errors import SurefootError
from surefoot.orchestrator.registry import Registry
from surefoot.orchestrator.statements import Statements
from surefoot.orchestrator.work import Loaded, Work
from surefoot.saga.instance import from_json, to_json


class ChangedMeanwhile(SurefootError):
    """A saga was changed by somebody who did not lock it; nothing was written."""


class Store:
    def __init__(self, registry: Registry, schema: str) -> None:
        self.sql = Statements(schema)
        self._registry = registry

    async def lock(self, connection: Connection, saga_ids: Sequence[str]) -> dict[str, Loaded]:
        """In sorted order, whatever the order they are given in."""
        if not saga_ids:
            return {}
        rows = await connection.fetch(self.sql.lock, sorted(set(saga_ids)))
        # One that has ended may be of a version that is gone: it wants nothing any more, and must not stop the others.
        needed = [row for row in rows if not row[10] or self._registry.knows(row[1], row[2])]
        return {saga.saga_id: saga for saga in map(self.loaded, needed)}

    async def lock_free(self, connection: Connection, saga_ids: Sequence[str]) -> dict[str, Loaded]:
        """Those that nobody else has in hand."""
        rows = await connection.fetch(self.sql.lock_free, sorted(set(saga_ids)))
        return {saga.saga_id: saga for saga in map(self.loaded, rows)}

    def loaded(self, row: Row) -> Loaded:
        return Loaded(
            saga_id=row[0],
            definition=self._registry.definition(row[1], row[2]),
            entity_id=row[3],
            start_event_id=row[4],
            correlation_id=row[5],
            reason=row[6],
            context=orjson.loads(row[7]),
            instance=(instance := from_json(orjson.loads(row[8]))),
            version=row[9],
            status_before=instance.status,
        )

    async def write(self, connection: Connection, work: Work) -> None:
        """All of it. A saga that has begun before, for the same entity and start event, is dropped from the work."""
        new = [saga for saga in work.sagas.values() if saga.version == 0]
        if new:
            began = {row[0] for row in await connection.fetch(self.sql.insert, *_columns(map(_new, new), 12))}
            for saga in new:
                if saga.saga_id not in began:
                    work.drop(saga.saga_id)
        old = [saga for saga in work.sagas.values() if saga.version and saga.is_changed]
        if old:
            changed = await connection.execute(self.sql.update, *_columns(map(_changed, old), 7))
            if changed != f"UPDATE {len(old)}":
                raise ChangedMeanwhile("A saga was changed behind our back while it was decided on; it is done again.")
        if work.lines:
            lines = (
                (
                    line.saga_id,
                    line.kind,
                    line.step,
                    line.direction,
                    line.attempt,
                    line.sentence,
                    line.before,
                    line.after,
                    line.event_id,
                )
                for line in work.lines
            )
            await connection.execute(self.sql.note, *_columns(lines, 9))
        await self._write_timers(connection, [saga for saga in work.sagas.values() if saga.is_changed])

    async def _write_timers(self, connection: Connection, sagas: Sequence[Loaded]) -> None:
        armed = [saga for saga in sagas if saga.clock == "set" and saga.timer is not None]
        if armed:
            rows = (
                (
                    saga.saga_id,
                    saga.timer.step,
                    saga.timer.direction,
                    saga.timer.attempt,
                    saga.timer.kind,
                    saga.timer.after,
                    saga.command_id,
                )
                for saga in armed
                if saga.timer is not None
            )
            await connection.execute(self.sql.set_timers, *_columns(rows, 7))
        gone = [saga.saga_id for saga in sagas if saga.clock == "gone" and saga.version]
        if gone:
            await connection.execute(self.sql.drop_timers, gone)


def _new(saga: Loaded) -> tuple[object, ...]:
    definition = saga.definition
    return (
        saga.saga_id,
        definition.name,
        definition.version,
        saga.entity_id,
        saga.start_event_id,
        saga.correlation_id,
        saga.instance.status,
        *saga.current,
        saga.reason,
        orjson.dumps(saga.context).decode(),
        orjson.dumps(to_json(saga.instance)).decode(),
    )


def _changed(saga: Loaded) -> tuple[object, ...]:
    standing = orjson.dumps(to_json(saga.instance)).decode()
    return (saga.saga_id, saga.version, saga.instance.status, *saga.current, saga.reason, standing)


def _columns(rows: Iterable[Sequence[object]], count: int) -> list[list[object]]:
    columns = [list(column) for column in zip(*rows, strict=True)]
    assert len(columns) == count
    return columns
