"""Ground floor: outbox, leases, the Postgres event log."""

from textwrap import dedent

from alembic import context, op

revision = "0001"
down_revision = None

STATEMENTS = [
    """
    CREATE TYPE {schema}.outbox_status AS ENUM ('PENDING', 'HELD', 'PUBLISHED', 'FAILED', 'RELEASED')
    """,
    """
    CREATE TABLE {schema}.lease_members (
        scope TEXT NOT NULL,
        member TEXT NOT NULL,
        started_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        alive_until TIMESTAMP WITH TIME ZONE NOT NULL,
        asleep BOOLEAN DEFAULT false NOT NULL,
        PRIMARY KEY (scope, member)
    )
     WITH (fillfactor = 50)
    """,
    """
    COMMENT ON COLUMN {schema}.lease_members.asleep IS 'wants a notification to wake up'
    """,
    """
    CREATE TABLE {schema}.leases (
        scope TEXT NOT NULL,
        unit INTEGER NOT NULL,
        owner TEXT,
        fence BIGINT DEFAULT 0 NOT NULL,
        lease_until TIMESTAMP WITH TIME ZONE DEFAULT '-infinity'::timestamptz NOT NULL,
        taken_at TIMESTAMP WITH TIME ZONE,
        PRIMARY KEY (scope, unit)
    )
     WITH (fillfactor = 50)
    """,
    """
    COMMENT ON COLUMN {schema}.leases.scope IS 'what is shared out: ''outbox'', or ''log/<group>/<topic>'''
    """,
    """
    COMMENT ON COLUMN {schema}.leases.unit IS 'the shard or partition'
    """,
    """
    COMMENT ON COLUMN {schema}.leases.owner IS 'the member that owns it; null if nobody does'
    """,
    """
    COMMENT ON COLUMN {schema}.leases.fence IS 'rises with every owner'
    """,
    """
    COMMENT ON COLUMN {schema}.leases.taken_at IS 'when this owner took it'
    """,
    """
    CREATE TABLE {schema}.log_offsets (
        group_name TEXT NOT NULL,
        topic TEXT NOT NULL,
        partition INTEGER NOT NULL,
        next_offset BIGINT NOT NULL,
        committed_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        PRIMARY KEY (group_name, topic, partition)
    )
     WITH (fillfactor = 50)
    """,
    """
    CREATE TABLE {schema}.log_records (
        topic TEXT NOT NULL,
        partition INTEGER NOT NULL,
        log_offset BIGINT NOT NULL,
        stored_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
        key BYTEA,
        value BYTEA,
        header_names TEXT[] NOT NULL,
        header_values BYTEA[] NOT NULL,
        PRIMARY KEY (topic, partition, log_offset)
    )
    """,
    """
    CREATE TABLE {schema}.log_topics (
        topic TEXT NOT NULL,
        partitions INTEGER NOT NULL,
        retention INTERVAL NOT NULL,
        max_record_bytes INTEGER NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        PRIMARY KEY (topic),
        CONSTRAINT log_topics_partitions_positive CHECK (partitions > 0)
    )
    """,
    """
    CREATE TABLE {schema}.outbox_events (
        event_id UUID NOT NULL,
        position BIGINT GENERATED ALWAYS AS IDENTITY,
        shard SMALLINT NOT NULL,
        key_hash INTEGER NOT NULL,
        topic TEXT NOT NULL,
        event_type TEXT NOT NULL,
        key TEXT NOT NULL,
        body BYTEA,
        headers JSON NOT NULL,
        status {schema}.outbox_status DEFAULT 'PENDING' NOT NULL,
        attempts SMALLINT DEFAULT 0 NOT NULL,
        next_attempt_at TIMESTAMP WITH TIME ZONE,
        last_error TEXT,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        published_at TIMESTAMP WITH TIME ZONE,
        decision TEXT,
        PRIMARY KEY (event_id)
    )
     WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000)
    """,
    """
    CREATE UNIQUE INDEX outbox_events_pending ON {schema}.outbox_events (shard, position) WHERE status = 'PENDING'
    """,
    """
    CREATE INDEX outbox_events_published ON {schema}.outbox_events (published_at) WHERE status = 'PUBLISHED'
    """,
    """
    CREATE INDEX outbox_events_refused ON {schema}.outbox_events (shard, topic, key) WHERE status IN ('FAILED', 'HELD') OR (status = 'PENDING' AND attempts > 0)
    """,
    """
    COMMENT ON COLUMN {schema}.outbox_events.position IS 'within a key: the order of commits'
    """,
    """
    COMMENT ON COLUMN {schema}.outbox_events.key_hash IS 'murmur2 of the key: decides shard and partition'
    """,
    """
    COMMENT ON COLUMN {schema}.outbox_events.body IS 'the bytes that are sent'
    """,
    """
    COMMENT ON COLUMN {schema}.outbox_events.headers IS 'the record''s headers, in order: [[name, value], …]'
    """,
    """
    COMMENT ON COLUMN {schema}.outbox_events.next_attempt_at IS 'after a refusal: not before this'
    """,
    """
    COMMENT ON COLUMN {schema}.outbox_events.last_error IS 'a sentence'
    """,
    """
    COMMENT ON COLUMN {schema}.outbox_events.decision IS 'who retried or released it, when, and why'
    """,
    """
    CREATE TABLE {schema}.outbox_settings (
        "only" INTEGER DEFAULT 1 NOT NULL,
        shards SMALLINT NOT NULL,
        asleep_until TIMESTAMP WITH TIME ZONE DEFAULT '-infinity'::timestamptz NOT NULL,
        PRIMARY KEY ("only"),
        CONSTRAINT outbox_settings_one_row CHECK ("only" = 1),
        CONSTRAINT outbox_settings_shards CHECK (shards BETWEEN 1 AND 1024)
    )
     WITH (fillfactor = 50)
    """,
    """
    COMMENT ON COLUMN {schema}.outbox_settings."only" IS 'there is one row'
    """,
    """
    COMMENT ON COLUMN {schema}.outbox_settings.shards IS 'fixed once there is data: changing it splits keys'
    """,
    """
    COMMENT ON COLUMN {schema}.outbox_settings.asleep_until IS 'while this lies ahead a relay sleeps, and writers send it a notification'
    """,
    """
    CREATE TABLE {schema}.log_partitions (
        topic TEXT NOT NULL,
        partition INTEGER NOT NULL,
        first_offset BIGINT DEFAULT 0 NOT NULL,
        next_offset BIGINT DEFAULT 0 NOT NULL,
        PRIMARY KEY (topic, partition),
        FOREIGN KEY(topic) REFERENCES {schema}.log_topics (topic) ON DELETE CASCADE
    )
     WITH (fillfactor = 50)
    """,
    """
    COMMENT ON COLUMN {schema}.log_partitions.first_offset IS 'older ones are past retention'
    """,
    """
    COMMENT ON COLUMN {schema}.log_partitions.next_offset IS 'drawn under this row''s lock'
    """,
    """
    CREATE FUNCTION {schema}.outbox_write(
        event_ids uuid[], hashes integer[], topics text[], types text[], keys text[], bodies bytea[], headers text[]
    ) RETURNS void LANGUAGE plpgsql AS $function$
    DECLARE
        settings {schema}.outbox_settings;
        bucket integer;
    BEGIN
        SELECT * INTO STRICT settings FROM {schema}.outbox_settings;
        FOR bucket IN SELECT DISTINCT h % 512 FROM unnest(hashes) AS h ORDER BY 1 LOOP
            PERFORM pg_advisory_xact_lock(1937076838, bucket);
        END LOOP;
        INSERT INTO {schema}.outbox_events (event_id, shard, key_hash, topic, event_type, key, body, headers)
            SELECT e.event_id, e.hash % settings.shards, e.hash, e.topic, e.type, e.key, e.body, e.headers::json
            FROM unnest(event_ids, hashes, topics, types, keys, bodies, headers) WITH ORDINALITY
                 AS e(event_id, hash, topic, type, key, body, headers, n)
            ORDER BY e.n;
        IF settings.asleep_until > now() THEN
            PERFORM pg_notify('surefoot_outbox', '');
        END IF;
    END
    $function$
    """,
    """
    CREATE FUNCTION {schema}.as_json(body bytea) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $function$
    BEGIN
        RETURN convert_from(body, 'UTF8')::jsonb;
    EXCEPTION WHEN data_exception THEN
        RETURN NULL;
    END
    $function$
    """,
    """
    CREATE VIEW {schema}.outbox AS
        SELECT e.position, e.event_id, e.topic, e.event_type, e.key, e.status, e.attempts, e.last_error,
               {schema}.as_json(e.body) AS payload, e.headers, e.created_at, e.published_at, e.next_attempt_at, e.decision,
               e.shard, l.owner AS relay,
               e.status = 'HELD' OR e.status = 'PENDING' AND EXISTS (
                   SELECT FROM {schema}.outbox_events f
                   WHERE f.shard = e.shard AND f.topic = e.topic AND f.key = e.key AND f.status = 'FAILED'
               ) AS held
        FROM {schema}.outbox_events e LEFT JOIN {schema}.leases l ON l.scope = 'outbox' AND l.unit = e.shard
    """,
    """
    INSERT INTO {schema}.outbox_settings (shards) VALUES ({shards})
    """,
    """
    INSERT INTO {schema}.leases (scope, unit) SELECT 'outbox', n FROM generate_series(0, {shards} - 1) AS n
    """,
]


def upgrade() -> None:
    attributes = context.config.attributes
    for statement in STATEMENTS:
        text = dedent(statement).strip().format(schema=attributes["schema"], shards=attributes["shards"])
        op.get_bind().exec_driver_sql(text)
