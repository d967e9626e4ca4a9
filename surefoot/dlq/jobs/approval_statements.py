"""The SQL of discards that wait for a second person."""

from surefoot.database.schema import checked_schema
from surefoot.dlq.jobs.request import LETTER_COLUMNS


class ApprovalStatements:
    def __init__(self, schema: str) -> None:
        s = checked_schema(schema)
        self.schema = s
        shown = """a.id, a.status::text, a.reason, a.requested_by, a.requested_at, a.expires_at, a.total, a.set_hash,
            a.decided_by, a.decided_at, a.decision, a.job_id"""
        self.one = f"SELECT {shown} FROM {s}.dlq_approvals a WHERE a.id = $1::uuid"
        self.page = f"""
            SELECT {shown} FROM {s}.dlq_approvals a WHERE $1::uuid IS NULL OR a.id < $1::uuid
            ORDER BY a.id DESC LIMIT $2::int"""
        self.lock = f"""
            SELECT {shown}, clock_timestamp() >= a.expires_at AS late
            FROM {s}.dlq_approvals a WHERE a.id = $1::uuid FOR UPDATE"""
        self.request = f"""
            INSERT INTO {s}.dlq_approvals (id, reason, requested_by, expires_at, total, set_hash)
            VALUES ($1::uuid, $2::text, $3::text, clock_timestamp() + $4::interval, $5::int, $6::text)"""
        self.add_items = f"""
            INSERT INTO {s}.dlq_approval_items (approval_id, dlq_id) SELECT $1::uuid, unnest($2::uuid[])"""
        self.take = f"""
            UPDATE {s}.dlq_events SET status = 'DISCARD_REQUESTED', job_id = NULL
            WHERE id = ANY ($1::uuid[]) AND status = 'OPEN' RETURNING id::text"""
        # Of what was asked for, what still waits: a letter that is gone or was taken elsewhere changes the set.
        self.letters = f"""
            SELECT {LETTER_COLUMNS} FROM {s}.dlq_approval_items i JOIN {s}.dlq_events e ON e.id = i.dlq_id
            WHERE i.approval_id = $1::uuid AND e.status = 'DISCARD_REQUESTED' ORDER BY e.id FOR UPDATE OF e"""
        self.asked = f"""
            SELECT e.id AS dlq_id, e.consumer, e.event_type, e.key, e.reason, e.error, e.deaths, e.held,
                e.status::text AS status, e.failed_at
            FROM {s}.dlq_approval_items i JOIN {s}.dlq_events e ON e.id = i.dlq_id
            WHERE i.approval_id = $1::uuid AND ($2::uuid IS NULL OR i.dlq_id > $2::uuid)
            ORDER BY i.dlq_id LIMIT $3::int"""
        self.decide = f"""
            UPDATE {s}.dlq_approvals SET status = $2::text::{s}.dlq_approval_status, decided_by = $3::text,
                decided_at = now(), decision = $4::text, job_id = $5::uuid
            WHERE id = $1::uuid AND status = 'WAITING'"""
        # In one statement: each locks the groups it counts in, and two in a transaction could deadlock with others'.
        self.approve_letters = f"""
            UPDATE {s}.dlq_events SET job_id = CASE WHEN consumer <> '' THEN $2::uuid END,
                status = CASE WHEN consumer <> '' THEN 'DISCARD_REQUESTED' ELSE 'DISCARDED' END::{s}.dlq_status,
                resolution = CASE WHEN consumer = '' THEN $3::text END,
                resolved_at = CASE WHEN consumer = '' THEN now() END
            WHERE id = ANY ($1::uuid[])"""
        self.reopen = f"""
            UPDATE {s}.dlq_events SET status = 'OPEN', resolution = NULL, resolved_at = NULL
            WHERE status = 'DISCARD_REQUESTED' AND job_id IS NULL
                AND id IN (SELECT dlq_id FROM {s}.dlq_approval_items WHERE approval_id = ANY ($1::uuid[]))"""
        self.overdue = f"""
            SELECT id::text, requested_by FROM {s}.dlq_approvals
            WHERE status = 'WAITING' AND expires_at <= clock_timestamp() ORDER BY id FOR UPDATE SKIP LOCKED"""
        self.expire = f"UPDATE {s}.dlq_approvals SET status = 'EXPIRED' WHERE id = ANY ($1::uuid[])"
        # For the second look, before a job sends anything: those it holds, and those that were discarded at once.
        self.letters_again = f"""
            SELECT {LETTER_COLUMNS} FROM {s}.dlq_approval_items i JOIN {s}.dlq_events e ON e.id = i.dlq_id
            WHERE i.approval_id = $1::uuid AND ((e.status = 'DISCARD_REQUESTED' AND e.job_id = $2::uuid)
                OR (e.consumer = '' AND e.status = 'DISCARDED')) ORDER BY e.id FOR UPDATE OF e"""
