"""Consumers: inbox, positions, parked events, command barriers."""

from textwrap import dedent

from alembic import context, op

revision = "0002"
down_revision = "0001"

STATEMENTS = [
    """
    CREATE TYPE {schema}.inbox_outcome AS ENUM ('PROCESSED', 'PARKED', 'DEAD', 'DISCARDED', 'SUPERSEDED', 'BARRED')
    """,
    """
    CREATE TYPE {schema}.parked_state AS ENUM ('WAITING', 'DUE', 'CALLING', 'DEAD')
    """,
    """
    CREATE TABLE {schema}.processed_events (
        consumer TEXT NOT NULL,
        source TEXT NOT NULL,
        event_id TEXT NOT NULL,
        outcome {schema}.inbox_outcome NOT NULL,
        processed_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        decision TEXT,
        CONSTRAINT processed_events_pkey PRIMARY KEY (event_id, consumer, source)
    )
     WITH (fillfactor = 95)
    """,
    """
    CREATE INDEX processed_events_by_time ON {schema}.processed_events USING brin (processed_at)
    """,
    """
    COMMENT ON COLUMN {schema}.processed_events.decision IS 'who discarded or superseded it, and why'
    """,
    """
    CREATE TABLE {schema}.consumer_partitions (
        consumer TEXT NOT NULL,
        topic TEXT NOT NULL,
        partition INTEGER NOT NULL,
        owner TEXT,
        fence BIGINT DEFAULT 0 NOT NULL,
        next_offset BIGINT,
        ignored BIGINT DEFAULT 0 NOT NULL,
        taken_at TIMESTAMP WITH TIME ZONE,
        updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        PRIMARY KEY (consumer, topic, partition)
    )
     WITH (fillfactor = 50)
    """,
    """
    COMMENT ON COLUMN {schema}.consumer_partitions.owner IS 'the member that took it last'
    """,
    """
    COMMENT ON COLUMN {schema}.consumer_partitions.fence IS 'rises with every owner'
    """,
    """
    COMMENT ON COLUMN {schema}.consumer_partitions.next_offset IS 'where work goes on; null before the first batch'
    """,
    """
    COMMENT ON COLUMN {schema}.consumer_partitions.ignored IS 'records without a handler'
    """,
    """
    CREATE TABLE {schema}.open_batches (
        xid XID8 NOT NULL,
        PRIMARY KEY (xid)
    )
     WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)
    """,
    """
    CREATE TABLE {schema}.parked_events (
        consumer TEXT NOT NULL,
        topic TEXT NOT NULL,
        partition INTEGER NOT NULL,
        log_offset BIGINT NOT NULL,
        key TEXT NOT NULL,
        source TEXT NOT NULL,
        event_id TEXT NOT NULL,
        event_type TEXT,
        state {schema}.parked_state NOT NULL,
        holds BOOLEAN DEFAULT true NOT NULL,
        attempts SMALLINT DEFAULT 0 NOT NULL,
        replays SMALLINT DEFAULT 0 NOT NULL,
        next_attempt_at TIMESTAMP WITH TIME ZONE,
        reason TEXT,
        last_error TEXT,
        fingerprint TEXT,
        failures JSON DEFAULT '[]' NOT NULL,
        record_key BYTEA,
        value BYTEA,
        headers JSON NOT NULL,
        recorded_at TIMESTAMP WITH TIME ZONE NOT NULL,
        parked_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        dead_at TIMESTAMP WITH TIME ZONE,
        prepared JSON,
        control_id TEXT,
        PRIMARY KEY (consumer, topic, partition, log_offset),
        CONSTRAINT parked_events_attempt CHECK (state IN ('WAITING', 'DEAD') OR next_attempt_at IS NOT NULL),
        CONSTRAINT parked_events_dead CHECK (state <> 'DEAD' OR (reason IS NOT NULL AND dead_at IS NOT NULL))
    )
    """,
    """
    CREATE INDEX parked_events_by_key ON {schema}.parked_events (consumer, topic, partition, key, log_offset) WHERE holds
    """,
    """
    CREATE INDEX parked_events_due ON {schema}.parked_events (consumer, topic, partition, next_attempt_at) WHERE state IN ('DUE', 'CALLING')
    """,
    """
    CREATE UNIQUE INDEX parked_events_event ON {schema}.parked_events (event_id, consumer, source)
    """,
    """
    COMMENT ON COLUMN {schema}.parked_events.event_type IS 'null where the record is no event'
    """,
    """
    COMMENT ON COLUMN {schema}.parked_events.holds IS 'later events of its key wait'
    """,
    """
    COMMENT ON COLUMN {schema}.parked_events.reason IS 'why it is dead: a word from a fixed list'
    """,
    """
    COMMENT ON COLUMN {schema}.parked_events.last_error IS 'a sentence'
    """,
    """
    COMMENT ON COLUMN {schema}.parked_events.fingerprint IS 'the same for failures that have one cause'
    """,
    """
    COMMENT ON COLUMN {schema}.parked_events.failures IS 'the latest: [[time, error], …]'
    """,
    """
    COMMENT ON COLUMN {schema}.parked_events.value IS 'the record''s bytes as they were read'
    """,
    """
    COMMENT ON COLUMN {schema}.parked_events.headers IS 'in order: [[name, value in Base64], …]'
    """,
    """
    COMMENT ON COLUMN {schema}.parked_events.recorded_at IS 'the log''s own time of the record'
    """,
    """
    COMMENT ON COLUMN {schema}.parked_events.prepared IS 'what the outside call was given'
    """,
    """
    COMMENT ON COLUMN {schema}.parked_events.control_id IS 'what asked for the attempt under way: action:id'
    """,
    """
    CREATE TABLE {schema}.command_barriers (
        saga_id TEXT NOT NULL,
        step TEXT NOT NULL,
        direction TEXT NOT NULL,
        consumer TEXT NOT NULL,
        barred BOOLEAN DEFAULT false NOT NULL,
        reply_type TEXT,
        reply_version INTEGER,
        reply_topic TEXT,
        reply_source TEXT,
        reply_key TEXT,
        reply BYTEA,
        settled_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        PRIMARY KEY (saga_id, step, direction),
        CONSTRAINT command_barriers_direction CHECK (direction IN ('do', 'undo'))
    )
    """,
    """
    CREATE INDEX command_barriers_by_time ON {schema}.command_barriers USING brin (settled_at)
    """,
    """
    COMMENT ON COLUMN {schema}.command_barriers.direction IS 'do or undo'
    """,
    """
    COMMENT ON COLUMN {schema}.command_barriers.barred IS 'its undo came first'
    """,
    """
    COMMENT ON COLUMN {schema}.command_barriers.reply_type IS 'null for a command without a reply, and for a barred one'
    """,
    """
    COMMENT ON COLUMN {schema}.command_barriers.reply IS 'the JSON of the reply''s data'
    """,
    """
    CREATE FUNCTION {schema}.refuse_open_batch() RETURNS trigger LANGUAGE plpgsql AS $function$
    BEGIN
        IF EXISTS (SELECT FROM {schema}.open_batches b WHERE b.xid = NEW.xid) THEN
            RAISE EXCEPTION '%', 'a handler tried to commit the transaction of its batch, which only its consumer may do; '
                'if it was SET CONSTRAINTS ALL IMMEDIATE, it has to name its own constraints instead of ALL';
        END IF;
        RETURN NULL;
    END
    $function$
    """,
    """
    CREATE CONSTRAINT TRIGGER refuse_open_batch AFTER INSERT ON {schema}.open_batches
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.refuse_open_batch()
    """,
    """
    CREATE VIEW {schema}.parked_keys AS
        SELECT DISTINCT ON (p.consumer, p.topic, p.partition, p.key)
               p.consumer, p.topic, p.partition, p.key, p.state, p.event_id, p.event_type, p.attempts, p.next_attempt_at,
               p.reason, p.last_error, p.parked_at,
               count(*) OVER (PARTITION BY p.consumer, p.topic, p.partition, p.key) - 1 AS waiting_behind
        FROM {schema}.parked_events p WHERE p.holds
        ORDER BY p.consumer, p.topic, p.partition, p.key, p.log_offset
    """,
]


def upgrade() -> None:
    attributes = context.config.attributes
    for statement in STATEMENTS:
        text = dedent(statement).strip().format(schema=attributes["schema"])
        op.get_bind().exec_driver_sql(text)
