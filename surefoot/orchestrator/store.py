"""Sagas in the database: loaded under lock, written in bulk. Everything here runs in the caller's transaction."""

from collections.abc import Iterable, Sequence

import orjson

from surefoot.database.connection import Connection, Row
from surefoot.database.schema import checked_schema
from surefoot.errors import SurefootError
from surefoot.orchestrator.registry import Registry
from surefoot.orchestrator.work import Loaded, Work
from surefoot.saga.instance import from_json, to_json

# A plan is kept as long as its connection. One made while the tables were new and empty walked all of them from then
# on, until statistics were made; every statement here has its index.
SESSION_SETTINGS = {"enable_seqscan": "off", "plan_cache_mode": "force_generic_plan", "jit": "off"}
ENDED = "('COMPLETED', 'COMPENSATED', 'FAILED')"
COLUMNS = """saga_id::text, saga_type, definition_version, entity_id, start_event_id, correlation_id, reason,
             context::text, standing::text, version, ended_at IS NOT NULL"""


class Statements:
    def __init__(self, schema: str) -> None:
        self.schema = checked_schema(schema)
        self._looking(schema)
        self._writing(schema)
        self._timers(schema)
        self._definitions(schema)

    def _looking(self, schema: str) -> None:
        sagas, history = f"{schema}.saga_instances", f"{schema}.saga_history"
        self.commands = f"""
            SELECT event_id, saga_id::text, step, direction, attempt FROM {history}
            WHERE event_id = ANY ($1::text[]) AND kind = 'SENT'"""
        self.waiting = f"""
            SELECT s.saga_id::text, s.saga_type, s.definition_version, s.entity_id
            FROM unnest($1::text[], $2::text[]) AS e(saga_type, entity_id)
            JOIN {sagas} s USING (entity_id, saga_type) WHERE s.ended_at IS NULL"""
        # Sorted, so that two batches which share sagas wait for each other instead of deadlocking.
        self.lock = f"""
            SELECT {COLUMNS} FROM {sagas} WHERE saga_id = ANY ($1::uuid[]) ORDER BY saga_id FOR UPDATE"""
        self.lock_free = f"{self.lock} SKIP LOCKED"
        self.look = f"SELECT {COLUMNS} FROM {sagas} WHERE saga_id = $1::uuid"

    def _writing(self, schema: str) -> None:
        sagas, history = f"{schema}.saga_instances", f"{schema}.saga_history"
        self.insert = f"""
            INSERT INTO {sagas} (saga_id, saga_type, definition_version, entity_id, start_event_id, correlation_id,
                                 status, current_step, current_direction, reason, context, standing, version, ended_at)
            SELECT saga_id, saga_type, definition_version, entity_id, start_event_id, correlation_id,
                   status::{schema}.saga_status, current_step, current_direction, reason, context::jsonb,
                   standing::jsonb, 1, CASE WHEN status IN {ENDED} THEN now() END
            FROM unnest($1::uuid[], $2::text[], $3::int[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                        $9::text[], $10::text[], $11::text[], $12::text[])
                 AS n(saga_id, saga_type, definition_version, entity_id, start_event_id, correlation_id, status,
                      current_step, current_direction, reason, context, standing)
            ORDER BY saga_id
            ON CONFLICT (entity_id, saga_type, start_event_id) DO NOTHING RETURNING saga_id::text"""
        self.update = f"""
            UPDATE {sagas} s
            SET status = n.status::{schema}.saga_status, current_step = n.current_step,
                current_direction = n.current_direction, reason = n.reason, standing = n.standing::jsonb,
                version = s.version + 1, updated_at = now(),
                ended_at = CASE WHEN n.status IN {ENDED} THEN now() END
            FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
                 AS n(saga_id, version, status, current_step, current_direction, reason, standing)
            WHERE s.saga_id = n.saga_id AND s.version = n.version"""
        self.note = f"""
            INSERT INTO {history} (saga_id, kind, step, direction, attempt, sentence, before, after, event_id)
            SELECT saga_id, kind, step, direction, attempt, sentence, before::{schema}.saga_status,
                   after::{schema}.saga_status, event_id
            FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::int[], $6::text[], $7::text[], $8::text[],
                        $9::text[]) WITH ORDINALITY
                 AS n(saga_id, kind, step, direction, attempt, sentence, before, after, event_id, n)
            ORDER BY n.n"""

    def _timers(self, schema: str) -> None:
        timers = f"{schema}.saga_timers"
        self.set_timers = f"""
            INSERT INTO {timers} AS t (saga_id, step, direction, attempt, kind, after, fires_at, command_id)
            SELECT saga_id, step, direction, attempt, kind, after, now() + after, coalesce(command_id, (
                -- A clock that starts anew after a pause is that of the command sent before.
                SELECT h.event_id::uuid FROM {schema}.saga_history h
                WHERE n.kind = 'timeout' AND h.saga_id = n.saga_id AND h.kind = 'SENT' AND h.step = n.step
                  AND h.direction = n.direction AND h.attempt = n.attempt LIMIT 1))
            FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int[], $5::text[], $6::interval[], $7::uuid[])
                 AS n(saga_id, step, direction, attempt, kind, after, command_id)
            ORDER BY saga_id
            ON CONFLICT (saga_id) DO UPDATE
                SET step = excluded.step, direction = excluded.direction, attempt = excluded.attempt,
                    kind = excluded.kind, after = excluded.after, fires_at = excluded.fires_at,
                    command_id = excluded.command_id"""
        self.due = f"""
            SELECT t.saga_id::text, i.entity_id, t.step, t.direction, t.attempt, t.kind, t.after, now() AS now,
                   o.status::text, o.published_at, i.saga_type, i.definition_version
            FROM {timers} t JOIN {schema}.saga_instances i USING (saga_id)
                 LEFT JOIN {schema}.outbox_events o ON o.event_id = t.command_id
            WHERE t.fires_at <= now()
              AND (i.saga_type, i.definition_version) IN (SELECT * FROM unnest($2::text[], $3::int[]))
            ORDER BY t.fires_at LIMIT $1::int"""
        self.still_due = f"""
            SELECT saga_id::text, step, direction, attempt, kind FROM {timers}
            WHERE saga_id = ANY ($1::uuid[]) AND fires_at <= now()"""
        # Whatever is locked is being decided on, or held by somebody frozen: nobody's clock waits for that.
        self.look_again = f"""
            WITH free AS (
                SELECT t.saga_id, n.fires_at FROM {timers} t
                JOIN unnest($1::uuid[], $2::text[], $3::text[], $4::int[], $5::text[], $6::timestamptz[])
                     AS n(saga_id, step, direction, attempt, kind, fires_at)
                     USING (saga_id, step, direction, attempt, kind)
                WHERE t.fires_at <= now() FOR UPDATE OF t SKIP LOCKED)
            UPDATE {timers} t SET fires_at = free.fires_at FROM free WHERE t.saga_id = free.saga_id"""
        # As long again as we were away, and no longer than a whole timeout. Not added to what is left: every
        # orchestrator does this, and many short outages must not put timeouts off for ever.
        self.give_time = f"""
            WITH free AS (
                SELECT saga_id FROM {timers} WHERE kind = 'timeout' AND fires_at < now() + least(after, $1::interval)
                FOR UPDATE SKIP LOCKED)
            UPDATE {timers} t SET fires_at = now() + least(after, $1::interval) FROM free
            WHERE t.saga_id = free.saga_id"""
        # For one that has just come: what has been due for longer than this was looked after by nobody. The rest is in
        # the hands of others, and an orchestrator that is started again and again must not take it from them.
        self.give_time_to_forgotten = f"""
            WITH free AS (
                SELECT saga_id FROM {timers} WHERE kind = 'timeout' AND fires_at < now() - $1::interval
                FOR UPDATE SKIP LOCKED)
            UPDATE {timers} t SET fires_at = now() + least(after, $1::interval) FROM free
            WHERE t.saga_id = free.saga_id"""
        self.drop_timers = f"DELETE FROM {timers} WHERE saga_id = ANY ($1::uuid[])"

    def _definitions(self, schema: str) -> None:
        self.know = f"""
            INSERT INTO {schema}.saga_definitions AS d (saga_type, version, fingerprint)
            SELECT * FROM unnest($1::text[], $2::int[], $3::text[])
            ON CONFLICT (saga_type, version) DO NOTHING"""
        self.changed = f"""
            SELECT d.saga_type, d.version FROM {schema}.saga_definitions d
            JOIN unnest($1::text[], $2::int[], $3::text[]) AS n(saga_type, version, fingerprint)
              USING (saga_type, version)
            WHERE d.fingerprint <> n.fingerprint"""
        self.under_way = f"""
            SELECT saga_type, definition_version, count(*) FROM {schema}.saga_instances WHERE ended_at IS NULL
            GROUP BY 1, 2 ORDER BY 1, 2"""
        self.adopt = f"""
            UPDATE {schema}.saga_definitions d SET fingerprint = n.fingerprint, first_used_at = now()
            FROM unnest($1::text[], $2::int[], $3::text[]) AS n(saga_type, version, fingerprint)
            WHERE d.saga_type = n.saga_type AND d.version = n.version"""


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
