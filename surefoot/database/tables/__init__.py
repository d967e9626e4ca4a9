"""The tables, as people may read them with SQL: a public contract. One file per part."""

from surefoot.database.tables.audit import admin_requests, admin_tokens, audit_log
from surefoot.database.tables.base import metadata
from surefoot.database.tables.consumers import (
    command_barriers,
    consumer_partitions,
    open_batches,
    parked_events,
    processed_events,
)
from surefoot.database.tables.dead_letter_groups import dlq_group_changes, dlq_groups
from surefoot.database.tables.dead_letters import dlq_events
from surefoot.database.tables.dlq_work import dlq_approval_items, dlq_approvals, dlq_job_items, dlq_jobs, dlq_told
from surefoot.database.tables.idempotency import (
    idempotency_history,
    idempotency_keys,
    idempotency_phases,
    idempotency_seals,
    pending_calls,
)
from surefoot.database.tables.log import lease_members, leases, log_offsets, log_partitions, log_records, log_topics
from surefoot.database.tables.outbox import outbox_events, outbox_settings
from surefoot.database.tables.sagas import saga_definitions, saga_history, saga_instances, saga_timers

__all__ = [
    "admin_requests",
    "admin_tokens",
    "audit_log",
    "command_barriers",
    "consumer_partitions",
    "dlq_approval_items",
    "dlq_approvals",
    "dlq_events",
    "dlq_group_changes",
    "dlq_groups",
    "dlq_job_items",
    "dlq_jobs",
    "dlq_told",
    "idempotency_history",
    "idempotency_keys",
    "idempotency_phases",
    "idempotency_seals",
    "lease_members",
    "leases",
    "log_offsets",
    "log_partitions",
    "log_records",
    "log_topics",
    "metadata",
    "open_batches",
    "outbox_events",
    "outbox_settings",
    "parked_events",
    "pending_calls",
    "processed_events",
    "saga_definitions",
    "saga_history",
    "saga_instances",
    "saga_timers",
]
