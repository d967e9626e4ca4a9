"""The SQL of sending: what a job may send next, marking it, and what becomes of what cannot be sent."""

from surefoot.database.schema import checked_schema

MOST_DOUBLED = 32
"""What nobody answers is sent again after twice as long each time, up to so many times the first."""


class SenderStatements:
    def __init__(self, schema: str) -> None:
        s = checked_schema(schema)
        items = f"{s}.dlq_job_items"
        self._looking(s, items)
        self._moving(s, items)

    def _looking(self, s: str, items: str) -> None:
        # One that is paused and waits for no answer has nothing to do, unless it is to end. All of this is read from
        # the index of items under way, which has few entries for each job: it is asked at every tick.
        self.under_way = f"""
            SELECT j.id::text, j.status::text, w.sent, w.due OR j.rate IS NOT NULL AS restless
            FROM {s}.dlq_jobs j CROSS JOIN LATERAL (
                SELECT count(*) AS sent, coalesce(bool_or({_due("$1")}), false) AS due
                FROM {items} i WHERE i.job_id = j.id AND i.state = 'SENT') w
            WHERE j.ended_at IS NULL AND (j.status <> 'PAUSED' OR w.sent > 0
                OR NOT EXISTS (SELECT FROM {items} i WHERE i.job_id = j.id AND i.state = 'PENDING'))
            ORDER BY j.id"""
        # Somebody else who has it in hand will do it: there is no need to wait.
        self.lock = f"""
            SELECT j.kind::text, j.status::text, j.total, j.canary, j.rate, j.stop_on_error_rate, j.allowance, j.note,
                extract(epoch FROM clock_timestamp() - j.looked_at)::float8 AS elapsed_s, j.counted_from, j.reason,
                j.created_by, j.approval_id::text,
                (SELECT a.decided_by FROM {s}.dlq_approvals a WHERE a.id = j.approval_id) AS approved_by,
                (SELECT a.set_hash FROM {s}.dlq_approvals a WHERE a.id = j.approval_id) AS set_hash
            FROM {s}.dlq_jobs j WHERE j.id = $1::uuid AND j.ended_at IS NULL FOR UPDATE OF j SKIP LOCKED"""
        self.counts = f"""
            SELECT state::text, answer, number <= $2::int AS is_canary,
                $3::timestamptz IS NULL OR answered_at > $3::timestamptz AS counts, count(*) AS many
            FROM {items} WHERE job_id = $1::uuid GROUP BY 1, 2, 3, 4"""
        self.next = f"""
            SELECT number FROM {items} WHERE job_id = $1::uuid AND state = 'PENDING' ORDER BY number LIMIT $2::int"""
        # The first of each lane that is not over: if that one was sent, the lane is not free.
        self.next_of_lanes = f"""
            SELECT number FROM (
                SELECT DISTINCT ON (lane) number, state FROM {items}
                WHERE job_id = $1::uuid AND state IN ('PENDING', 'SENT') ORDER BY lane, number) first
            WHERE state = 'PENDING' ORDER BY number LIMIT $2::int"""
        self.due = f"""
            SELECT number FROM {items} WHERE job_id = $1::uuid AND state = 'SENT' AND ({_due("$2")})
            ORDER BY number LIMIT $3::int"""

    def _moving(self, s: str, items: str) -> None:
        self.looked = f"""
            UPDATE {s}.dlq_jobs SET allowance = $2::float8, looked_at = clock_timestamp() WHERE id = $1::uuid"""
        self.mark = f"""
            UPDATE {items} SET state = 'SENT', sent_at = clock_timestamp(), sends = sends + 1
            WHERE job_id = $1::uuid AND number = ANY ($2::int[]) AND state IN ('PENDING', 'SENT')"""
        self.marked = f"""
            SELECT i.number, i.control_id::text, i.replacement::text, e.consumer, e.source, e.event_id, e.topic,
                e.partition, e.key, e.record_key
            FROM {items} i LEFT JOIN {s}.dlq_events e ON e.id = i.dlq_id
            WHERE i.job_id = $1::uuid AND i.number = ANY ($2::int[]) AND i.state = 'SENT' ORDER BY i.number"""
        # Not sent after all: due at once.
        self.unmark = f"""
            UPDATE {items} SET sent_at = NULL, sends = sends - 1
            WHERE job_id = $1::uuid AND number = ANY ($2::int[]) AND state = 'SENT' AND sends > 0"""
        self.pause = f"""
            UPDATE {s}.dlq_jobs SET status = 'PAUSED', note = $2::text, counted_from = now() WHERE id = $1::uuid"""
        self.finish = f"""
            UPDATE {s}.dlq_jobs SET status = $2::text::{s}.dlq_job_status, note = $3::text, ended_at = now()
            WHERE id = $1::uuid"""
        # The letters before the items, as those who take answers lock them.
        self.lock_letters = f"""
            SELECT e.id FROM {s}.dlq_events e JOIN {items} i ON i.dlq_id = e.id
            WHERE i.job_id = $1::uuid AND i.number = ANY ($2::int[]) ORDER BY e.id FOR UPDATE OF e"""
        self.refuse = f"""
            UPDATE {items} i SET state = 'ANSWERED', answer = 'refused', sentence = n.sentence, answered_at = now()
            FROM unnest($2::int[], $3::text[]) AS n(number, sentence)
            WHERE i.job_id = $1::uuid AND i.number = n.number AND i.state = 'SENT' RETURNING i.dlq_id"""


def _due(after: str) -> str:
    """Whether an item that was sent is to be sent again."""
    return (
        f"sent_at IS NULL OR sent_at + {after}::interval * least(2 ^ (sends - 1), {MOST_DOUBLED}) <= clock_timestamp()"
    )
