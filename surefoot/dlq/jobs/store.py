"""The SQL of jobs: made over a frozen set, counted, sent, ended. Each is a compare-and-set where two could meet."""

from surefoot.database.schema import checked_schema
from surefoot.dlq.jobs.request import LETTER_COLUMNS


class JobStatements:
    def __init__(self, schema: str) -> None:
        s = checked_schema(schema)
        self.schema = s
        self.turn = "SELECT pg_advisory_xact_lock($1::int, hashtext($2::text))"
        self.under_way_of = f"""
            SELECT count(*) FROM {s}.dlq_jobs WHERE created_by = $1::text AND ended_at IS NULL AND kind <> 'discard'"""
        self.take = f"""
            UPDATE {s}.dlq_events SET status = 'REPLAYING', job_id = $1::uuid, superseded_by = $3::text
            WHERE id = ANY ($2::uuid[]) AND status = 'OPEN' RETURNING id::text"""
        self.make = f"""
            INSERT INTO {s}.dlq_jobs (id, kind, asked, reason, created_by, total, canary, rate, stop_on_error_rate,
                approval_id)
            VALUES ($1::uuid, $2::text::{s}.dlq_job_kind, $3::text::json, $4::text, $5::text, $6::int, $7::int,
                $8::float8, $9::float8, $10::uuid)"""
        self.add_items = f"""
            INSERT INTO {s}.dlq_job_items (job_id, number, dlq_id, lane, control_id, replacement)
            SELECT $1::uuid, i.number, i.dlq_id, i.lane, i.control_id, $6::text::json
            FROM unnest($2::int[], $3::uuid[], $4::text[], $5::uuid[]) AS i(number, dlq_id, lane, control_id)"""
        self.letter = f"""
            SELECT {LETTER_COLUMNS}, e.record_key, e.value, e.headers::text AS headers, e.headers_left_out
            FROM {s}.dlq_events e WHERE e.id = $1::uuid FOR UPDATE"""
        self.lock = f"SELECT status::text, kind::text FROM {s}.dlq_jobs WHERE id = $1::uuid FOR UPDATE"
        self.pause = f"UPDATE {s}.dlq_jobs SET status = 'PAUSED', note = $2::text WHERE id = $1::uuid"
        self.resume = f"""
            UPDATE {s}.dlq_jobs SET status = 'RUNNING', note = NULL, allowance = 0, looked_at = now(),
                counted_from = CASE WHEN counted_from IS NOT NULL THEN now() END
            WHERE id = $1::uuid"""
        self.cancel = f"UPDATE {s}.dlq_jobs SET status = 'CANCELLING', note = $2::text WHERE id = $1::uuid"
        self.cancel_items = f"""
            UPDATE {s}.dlq_job_items SET state = 'CANCELLED' WHERE job_id = $1::uuid AND state = 'PENDING'
            RETURNING dlq_id"""
        self.lock_unanswered = f"""
            SELECT e.id FROM {s}.dlq_events e WHERE e.id IN (
                SELECT i.dlq_id FROM {s}.dlq_job_items i WHERE i.job_id = $1::uuid AND i.state = 'SENT')
            ORDER BY e.id FOR UPDATE"""
        self.abandon_items = f"""
            UPDATE {s}.dlq_job_items SET state = 'CANCELLED', sentence = $2::text
            WHERE job_id = $1::uuid AND state = 'SENT' RETURNING dlq_id"""
        self.reopen = f"""
            UPDATE {s}.dlq_events SET status = 'OPEN', resolution = NULL, resolved_at = NULL, superseded_by = NULL
            WHERE id = ANY ($2::uuid[]) AND job_id = $1::uuid AND status IN ('REPLAYING', 'DISCARD_REQUESTED')"""
        self._reading(s)

    def _reading(self, s: str) -> None:
        line = """j.id, j.kind::text, j.status::text, j.reason, j.created_by, j.created_at, j.total, j.canary, j.rate,
            j.stop_on_error_rate, j.note, j.ended_at, j.approval_id"""
        self.job = f"SELECT {line} FROM {s}.dlq_jobs j WHERE j.id = $1::uuid"
        self.page = f"""
            SELECT {line} FROM {s}.dlq_jobs j WHERE $1::uuid IS NULL OR j.id < $1::uuid
            ORDER BY j.id DESC LIMIT $2::int"""
        self.counts = f"""
            SELECT state::text, answer, count(*) AS many, coalesce(sum(waiting_behind), 0)::bigint AS waiting_behind,
                count(*) FILTER (WHERE past_retention) AS past_retention
            FROM {s}.dlq_job_items WHERE job_id = $1::uuid GROUP BY 1, 2"""
        self.items = f"""
            SELECT i.number, i.dlq_id, e.consumer, e.event_id, i.state::text, i.sends, i.sent_at, i.answer, i.sentence,
                i.waiting_behind, i.past_retention, i.answered_at
            FROM {s}.dlq_job_items i LEFT JOIN {s}.dlq_events e ON e.id = i.dlq_id
            WHERE i.job_id = $1::uuid AND i.number > $2::int ORDER BY i.number LIMIT $3::int"""
