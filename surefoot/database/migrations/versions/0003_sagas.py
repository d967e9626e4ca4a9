"""Sagas: where each stands, what has happened to it, when its clock runs out."""

from textwrap import dedent

from alembic import context, op

revision = "0003"
down_revision = "0002"

STATEMENTS = [
    """
    CREATE TYPE {schema}.saga_status AS ENUM ('RUNNING', 'COMPENSATING', 'PAUSED', 'COMPLETED', 'COMPENSATED', 'FAILED', 'STUCK')
    """,
    """
    CREATE TABLE {schema}.saga_instances (
        saga_id UUID NOT NULL,
        saga_type TEXT NOT NULL,
        definition_version INTEGER NOT NULL,
        entity_id TEXT NOT NULL,
        start_event_id TEXT NOT NULL,
        correlation_id TEXT NOT NULL,
        status {schema}.saga_status NOT NULL,
        current_step TEXT,
        current_direction TEXT,
        reason TEXT,
        context JSONB NOT NULL,
        standing JSONB NOT NULL,
        version BIGINT NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        ended_at TIMESTAMP WITH TIME ZONE,
        PRIMARY KEY (saga_id),
        CONSTRAINT saga_instances_start UNIQUE (entity_id, saga_type, start_event_id)
    )
     WITH (fillfactor = 60)
    """,
    """
    CREATE INDEX saga_instances_ended ON {schema}.saga_instances (ended_at) WHERE ended_at IS NOT NULL
    """,
    """
    CREATE INDEX saga_instances_open ON {schema}.saga_instances (status, saga_type) WHERE ended_at IS NULL
    """,
    """
    COMMENT ON COLUMN {schema}.saga_instances.definition_version IS 'it ends on the version it began with'
    """,
    """
    COMMENT ON COLUMN {schema}.saga_instances.entity_id IS 'what it is about: an order, a return'
    """,
    """
    COMMENT ON COLUMN {schema}.saga_instances.correlation_id IS 'the flow it belongs to'
    """,
    """
    COMMENT ON COLUMN {schema}.saga_instances.current_step IS 'whose answer it waits for; null when it has ended'
    """,
    """
    COMMENT ON COLUMN {schema}.saga_instances.current_direction IS 'do, or undo'
    """,
    """
    COMMENT ON COLUMN {schema}.saga_instances.reason IS 'a sentence: why it is being undone, or stuck'
    """,
    """
    COMMENT ON COLUMN {schema}.saga_instances.context IS 'what it was started with'
    """,
    """
    COMMENT ON COLUMN {schema}.saga_instances.standing IS 'the steps entered, their states, attempts and results'
    """,
    """
    COMMENT ON COLUMN {schema}.saga_instances.version IS 'rises with every decision'
    """,
    """
    CREATE TABLE {schema}.saga_history (
        id BIGINT GENERATED ALWAYS AS IDENTITY,
        saga_id UUID NOT NULL,
        at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        kind TEXT NOT NULL,
        step TEXT,
        direction TEXT,
        attempt INTEGER,
        sentence TEXT,
        before {schema}.saga_status NOT NULL,
        after {schema}.saga_status NOT NULL,
        event_id TEXT,
        CONSTRAINT saga_history_pkey PRIMARY KEY (saga_id, id)
    )
    """,
    """
    CREATE INDEX saga_history_by_time ON {schema}.saga_history USING brin (at)
    """,
    """
    CREATE INDEX saga_history_sent ON {schema}.saga_history (event_id) WHERE kind = 'SENT'
    """,
    """
    COMMENT ON COLUMN {schema}.saga_history.kind IS 'STARTED, SENT, DONE, REFUSED, TIMED_OUT, …'
    """,
    """
    COMMENT ON COLUMN {schema}.saga_history.event_id IS 'the command that was sent, or the event that had this consequence'
    """,
    """
    CREATE TABLE {schema}.saga_timers (
        saga_id UUID NOT NULL,
        step TEXT NOT NULL,
        direction TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        kind TEXT NOT NULL,
        after INTERVAL NOT NULL,
        fires_at TIMESTAMP WITH TIME ZONE NOT NULL,
        command_id UUID,
        PRIMARY KEY (saga_id)
    )
     WITH (fillfactor = 70)
    """,
    """
    CREATE INDEX saga_timers_due ON {schema}.saga_timers (fires_at)
    """,
    """
    COMMENT ON COLUMN {schema}.saga_timers.kind IS 'timeout, rest or deadline'
    """,
    """
    COMMENT ON COLUMN {schema}.saga_timers.command_id IS 'the command whose answer is waited for'
    """,
    """
    CREATE TABLE {schema}.saga_definitions (
        saga_type TEXT NOT NULL,
        version INTEGER NOT NULL,
        fingerprint TEXT NOT NULL,
        first_used_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        PRIMARY KEY (saga_type, version)
    )
    """,
    """
    COMMENT ON COLUMN {schema}.saga_definitions.fingerprint IS 'tells whether a version was changed after it was first used'
    """,
    """
    CREATE VIEW {schema}.stuck_sagas AS
        SELECT saga_id, saga_type, definition_version, entity_id, current_step, current_direction, reason,
               updated_at AS stuck_since, correlation_id
        FROM {schema}.saga_instances WHERE status = 'STUCK' AND ended_at IS NULL
    """,
    """
    CREATE VIEW {schema}.slow_sagas AS
        SELECT saga_id, saga_type, definition_version, entity_id, status, current_step, current_direction,
               now() - updated_at AS unchanged_for, now() - created_at AS age, correlation_id
        FROM {schema}.saga_instances WHERE ended_at IS NULL AND status IN ('RUNNING', 'COMPENSATING')
        ORDER BY updated_at
    """,
    """
    CREATE VIEW {schema}.sagas_by_step AS
        SELECT saga_type, definition_version, status, current_step, current_direction, count(*) AS sagas,
               min(updated_at) AS longest_unchanged_since
        FROM {schema}.saga_instances WHERE ended_at IS NULL
        GROUP BY saga_type, definition_version, status, current_step, current_direction
    """,
]


def upgrade() -> None:
    attributes = context.config.attributes
    for statement in STATEMENTS:
        text = dedent(statement).strip().format(schema=attributes["schema"])
        op.get_bind().exec_driver_sql(text)
