"""The SQL by which answers are taken. In bulk: the answers of a polled batch are written together."""

from surefoot.database.schema import checked_schema


class OutcomeStatements:
    def __init__(self, schema: str) -> None:
        schema = checked_schema(schema)
        events, items = f"{schema}.dlq_events", f"{schema}.dlq_job_items"
        # In the order of the letters' ids, as the intake locks them: the two wait for each other, and do not deadlock.
        self.lock = f"""
            SELECT d.id FROM {events} d WHERE d.id IN (
                SELECT i.dlq_id FROM {items} i WHERE i.control_id = ANY ($1::uuid[]) AND i.state = 'SENT')
            ORDER BY d.id FOR UPDATE"""
        # An item whose letter is gone (a dry run takes no letter in hand) is answered all the same.
        self.awaited = f"""
            SELECT i.control_id::text, i.job_id::text, i.number, i.dlq_id::text, j.kind::text, d.consumer,
                   coalesce(a.requested_by, j.created_by), coalesce(a.reason, j.reason), a.decided_by
            FROM {items} i JOIN {schema}.dlq_jobs j ON j.id = i.job_id
            LEFT JOIN {events} d ON d.id = i.dlq_id LEFT JOIN {schema}.dlq_approvals a ON a.id = j.approval_id
            WHERE i.control_id = ANY ($1::uuid[]) AND i.state = 'SENT'
            ORDER BY i.job_id, i.number FOR UPDATE OF i"""
        self.answer = f"""
            UPDATE {items} i
            SET state = 'ANSWERED', answer = n.answer, sentence = n.sentence, waiting_behind = n.waiting_behind,
                past_retention = n.past_retention, answered_at = now()
            FROM unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::int[], $6::bool[])
                 AS n(job_id, number, answer, sentence, waiting_behind, past_retention)
            WHERE i.job_id = n.job_id AND i.number = n.number AND i.state = 'SENT'"""
        # Only what this job has in hand: what was decided otherwise since then stays decided.
        self.settle = f"""
            UPDATE {events} d
            SET status = n.status::{schema}.dlq_status, resolution = n.resolution, superseded_by = n.superseded_by,
                resolved_at = CASE WHEN n.status = 'OPEN' THEN NULL ELSE now() END
            FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[])
                 AS n(id, job_id, status, resolution, superseded_by)
            WHERE d.id = n.id AND d.job_id = n.job_id AND d.status IN ('REPLAYING', 'DISCARD_REQUESTED')"""
