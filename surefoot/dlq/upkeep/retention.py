"""Dead letters, and what was decided about them, go when they are old: in batches, each recorded.

A letter that somebody has decided goes after its time. One that is open is money or goods in between: it is told of
first, and if later events of its key wait for it, it stays. What is in the hands of a job or of an approval stays too.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from surefoot.audit.record import Act, record
from surefoot.database.connection import Connection, Row
from surefoot.database.schema import checked_schema
from surefoot.dlq.settings import DlqSettings
from surefoot.dlq.upkeep.alerts import PastRetention, held_past_retention, open_past_retention
from surefoot.telemetry.alerts import Alerts

SUREFOOT = "surefoot"
"""Who is recorded for what nobody decided."""
BATCH = 1000
JOBS_BATCH = 20
"""A job or an approval has up to ten thousand items, which go with it."""
GRACE = timedelta(days=1)
"""Between telling that open letters are going to be removed, and removing them. They are told of as often."""
REQUESTS_KEPT = timedelta(hours=48)
LETTER_IDS_KEPT = timedelta(days=60)
"""Ids of letters taken in are kept for so much longer than letters: they may be in the log for longer."""
MOST_NAMED = 100


class RetentionStatements:
    def __init__(self, schema: str) -> None:
        self.schema = checked_schema(schema)
        events = f"{schema}.dlq_events"
        gone = f"DELETE FROM {events} e USING old WHERE e.id = old.id RETURNING e.fingerprint, e.status::text AS status"
        self.remove_resolved = f"""
            WITH old AS (
                SELECT id FROM {events} WHERE resolved_at < now() - $1::interval
                    AND status IN ('REPLAYED', 'DISCARDED', 'SUPERSEDED')
                ORDER BY id LIMIT {BATCH} FOR UPDATE SKIP LOCKED)
            {gone}"""
        # What was past its time when somebody was told, a while ago.
        self.remove_open = f"""
            WITH old AS (
                SELECT e.id FROM {events} e JOIN {schema}.dlq_told t
                    ON t.code = 'open_letter_past_retention' AND t.subject = e.consumer
                WHERE e.status = 'OPEN' AND NOT e.held AND e.failed_at < t.up_to
                    AND e.failed_at < now() - $1::interval AND t.told_at <= now() - $2::interval
                ORDER BY e.id LIMIT {BATCH} FOR UPDATE OF e SKIP LOCKED)
            {gone}"""
        self.open_past = f"""
            SELECT consumer, held, count(*) AS count, min(failed_at) AS oldest_at, min(id::text) AS oldest_id
            FROM {events} WHERE status = 'OPEN' AND failed_at < now() - $1::interval
            GROUP BY consumer, held ORDER BY consumer"""
        self.tell = f"""
            INSERT INTO {schema}.dlq_told AS t (code, subject, up_to)
            VALUES ($1::text, $2::text, now() - $4::interval)
            ON CONFLICT (code, subject) DO UPDATE SET told_at = now(), up_to = excluded.up_to
            WHERE t.told_at <= now() - $3::interval
            RETURNING subject"""
        self.remove_groups = f"""
            WITH old AS (
                SELECT fingerprint FROM {schema}.dlq_groups
                WHERE last_at < now() - $1::interval AND open = 0 AND replaying = 0 AND replayed = 0
                    AND discard_requested = 0 AND discarded = 0 AND superseded = 0
                ORDER BY fingerprint LIMIT {BATCH} FOR UPDATE SKIP LOCKED)
            DELETE FROM {schema}.dlq_groups g USING old WHERE g.fingerprint = old.fingerprint"""
        self.remove_jobs = f"""
            WITH old AS (
                SELECT id FROM {schema}.dlq_jobs WHERE ended_at < now() - $1::interval
                ORDER BY id LIMIT {JOBS_BATCH} FOR UPDATE SKIP LOCKED),
            items AS (DELETE FROM {schema}.dlq_job_items i USING old WHERE i.job_id = old.id)
            DELETE FROM {schema}.dlq_jobs j USING old WHERE j.id = old.id"""
        self.remove_approvals = f"""
            WITH old AS (
                SELECT a.id FROM {schema}.dlq_approvals a
                WHERE a.status <> 'WAITING' AND a.expires_at < now() - $1::interval
                    AND NOT EXISTS (SELECT FROM {schema}.dlq_jobs j WHERE j.id = a.job_id)
                ORDER BY a.id LIMIT {JOBS_BATCH} FOR UPDATE SKIP LOCKED),
            items AS (DELETE FROM {schema}.dlq_approval_items i USING old WHERE i.approval_id = old.id)
            DELETE FROM {schema}.dlq_approvals a USING old WHERE a.id = old.id"""
        self.remove_requests = _by_place(f"{schema}.admin_requests", "answered_at < now() - $1::interval")
        self.forget_letters = _by_place(
            f"{schema}.processed_events", "processed_at < now() - $1::interval AND consumer = $2::text"
        )
        self.forget_told = f"""
            DELETE FROM {schema}.dlq_told WHERE code <> 'many_open' AND told_at < now() - $1::interval"""


class Retention:
    def __init__(self, settings: DlqSettings, alerts: Alerts, stopping: asyncio.Event) -> None:
        self._settings = settings
        self._stopping = stopping
        self._alerts = alerts
        self._sql = RetentionStatements(settings.db_schema)

    async def keep(self, connection: Connection) -> int:
        """How many dead letters were removed. Every batch is a transaction of its own, and may be the last one."""
        kept = self._settings.retention
        removed = await self._letters(connection, self._sql.remove_resolved, "Settled", kept)
        removed += await self._letters(connection, self._sql.remove_open, "Open, and told of before", kept, GRACE)
        await self._tell(connection, await connection.fetch(self._sql.open_past, kept))
        await self._decided(connection, self._sql.remove_jobs, "jobs")
        await self._decided(connection, self._sql.remove_approvals, "approvals")
        # Nothing is left in these groups; the audit log has nothing to say of them.
        await self._all(connection, self._sql.remove_groups, kept)
        await self._all(connection, self._sql.remove_requests, REQUESTS_KEPT)
        await self._all(connection, self._sql.forget_letters, kept + LETTER_IDS_KEPT, self._settings.group)
        await connection.execute(self._sql.forget_told, kept + 2 * GRACE)
        return removed

    async def _letters(self, connection: Connection, statement: str, which: str, *times: timedelta) -> int:
        removed = 0
        while not self._stopping.is_set():
            async with connection.transaction():
                rows = await connection.fetch(statement, *times)
                if rows:
                    details = _of_letters(rows)
                    await self._record(connection, "dead letters", f"{which}; older than {times[0]}.", details)
            removed += len(rows)
            if len(rows) < BATCH:
                break
        return removed

    async def _decided(self, connection: Connection, statement: str, what: str) -> None:
        """Jobs or approvals that ended long ago, with their items."""
        gone = JOBS_BATCH
        while gone == JOBS_BATCH and not self._stopping.is_set():
            async with connection.transaction():
                gone = _count(await connection.execute(statement, self._settings.retention))
                if gone:
                    why = f"Ended; older than {self._settings.retention}."
                    await self._record(connection, what, why, {"removed": gone})

    async def _all(self, connection: Connection, statement: str, *arguments: object) -> None:
        gone = BATCH
        while gone == BATCH and not self._stopping.is_set():
            gone = _count(await connection.execute(statement, *arguments))

    async def _record(self, connection: Connection, about: str, why: str, details: dict[str, object]) -> None:
        await record(connection, self._sql.schema, Act(SUREFOOT, "retention", "done", about, why, details))

    async def _tell(self, connection: Connection, rows: Sequence[Row]) -> None:
        kept = self._settings.retention
        for row in rows:
            past = PastRetention(row["consumer"], row["count"], row["oldest_id"], row["oldest_at"])
            alert = held_past_retention(past, kept) if row["held"] else open_past_retention(past, kept, GRACE)
            async with connection.transaction():
                told = await connection.fetchval(self._sql.tell, alert.code, past.consumer, GRACE, kept)
                if told is not None:
                    await self._alerts.raise_alert(alert)


def _of_letters(rows: Sequence[Row]) -> dict[str, object]:
    """How many, and of which groups; of very many groups, those that lost most."""
    groups = Counter(row["fingerprint"] for row in rows)
    return {
        "removed": len(rows),
        "statuses": dict(Counter(row["status"] for row in rows)),
        "groups": dict(groups.most_common(MOST_NAMED)),
        "more_groups": max(0, len(groups) - MOST_NAMED),
    }


def _count(answer: str) -> int:
    return int(answer.rpartition(" ")[2])


def _by_place(table: str, condition: str) -> str:
    return f"""
        WITH old AS (SELECT ctid FROM {table} WHERE {condition} LIMIT {BATCH} FOR UPDATE SKIP LOCKED)
        DELETE FROM {table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM old))"""
