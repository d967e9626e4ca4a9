"""Dead letters: what consumers gave up on, and its groups."""

from textwrap import dedent

from alembic import context, op

revision = "0004"
down_revision = "0003"

STATEMENTS = [
    """
    CREATE TYPE {schema}.dlq_status AS ENUM ('OPEN', 'REPLAYING', 'REPLAYED', 'DISCARD_REQUESTED', 'DISCARDED', 'SUPERSEDED')
    """,
    """
    CREATE TABLE {schema}.dlq_events (
        id UUID NOT NULL,
        consumer TEXT NOT NULL,
        source TEXT NOT NULL,
        event_id TEXT NOT NULL,
        event_type TEXT,
        topic TEXT NOT NULL,
        partition INTEGER NOT NULL,
        log_offset BIGINT NOT NULL,
        key TEXT NOT NULL,
        correlation_id TEXT,
        saga_id TEXT,
        recorded_at TIMESTAMP WITH TIME ZONE NOT NULL,
        record_key BYTEA,
        value BYTEA,
        headers JSON NOT NULL,
        headers_left_out INTEGER DEFAULT 0 NOT NULL,
        reason TEXT NOT NULL,
        error_type TEXT NOT NULL,
        error TEXT NOT NULL,
        stack TEXT DEFAULT '' NOT NULL,
        fingerprint TEXT NOT NULL,
        failures JSON DEFAULT '[]' NOT NULL,
        attempts INTEGER DEFAULT 0 NOT NULL,
        replays INTEGER DEFAULT 0 NOT NULL,
        deaths INTEGER DEFAULT 1 NOT NULL,
        held BOOLEAN NOT NULL,
        letter_id TEXT NOT NULL,
        first_failed_at TIMESTAMP WITH TIME ZONE NOT NULL,
        failed_at TIMESTAMP WITH TIME ZONE NOT NULL,
        received_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        status {schema}.dlq_status DEFAULT 'OPEN' NOT NULL,
        job_id UUID,
        resolution TEXT,
        resolved_at TIMESTAMP WITH TIME ZONE,
        superseded_by TEXT,
        PRIMARY KEY (id),
        CONSTRAINT dlq_events_event UNIQUE (event_id, consumer, source)
    )
     WITH (fillfactor = 90)
    """,
    """
    CREATE INDEX dlq_events_by_consumer ON {schema}.dlq_events (consumer, status, id)
    """,
    """
    CREATE INDEX dlq_events_by_flow ON {schema}.dlq_events (correlation_id, id) WHERE correlation_id IS NOT NULL
    """,
    """
    CREATE INDEX dlq_events_by_group ON {schema}.dlq_events (fingerprint, status, id)
    """,
    """
    CREATE INDEX dlq_events_by_group_time ON {schema}.dlq_events (fingerprint, status, failed_at, id)
    """,
    """
    CREATE INDEX dlq_events_by_key ON {schema}.dlq_events (key, id)
    """,
    """
    CREATE INDEX dlq_events_by_saga ON {schema}.dlq_events (saga_id, id) WHERE saga_id IS NOT NULL
    """,
    """
    CREATE INDEX dlq_events_by_status ON {schema}.dlq_events (status, id)
    """,
    """
    CREATE INDEX dlq_events_by_time ON {schema}.dlq_events (failed_at, id)
    """,
    """
    CREATE INDEX dlq_events_by_type ON {schema}.dlq_events (event_type, id)
    """,
    """
    CREATE INDEX dlq_events_resolved ON {schema}.dlq_events (resolved_at) WHERE resolved_at IS NOT NULL
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.id IS 'rises with the time it was taken in: pages go by it'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.consumer IS 'who gave up on it; empty where the letter could not be read'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.source IS 'as the consumer''s inbox has it'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.event_id IS 'as the consumer''s inbox has it'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.event_type IS 'null where the record is no event'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.topic IS 'where the event came from'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.key IS 'what it is ordered by'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.correlation_id IS 'the flow it belongs to'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.saga_id IS 'the saga whose command it is, or that it answers'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.recorded_at IS 'the log''s own time of the event'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.value IS 'the record''s bytes'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.headers IS 'the event''s own, in order: [[name, value in Base64], …]'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.reason IS 'why it is dead: a word from a fixed list'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.error IS 'a sentence'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.fingerprint IS 'the same for failures that have one cause'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.failures IS 'the latest: [[time, error], …]'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.replays IS 'as the consumer counts them'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.deaths IS 'letters that came for it'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.held IS 'later events of its key wait for it'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.letter_id IS 'the latest letter'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.failed_at IS 'when it died last'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.job_id IS 'the job that has it in hand, or had it last'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.resolution IS 'a sentence: what became of it, who decided it and why'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_events.superseded_by IS 'the id of the edited event'
    """,
    """
    CREATE TABLE {schema}.dlq_groups (
        fingerprint TEXT NOT NULL,
        consumer TEXT NOT NULL,
        event_type TEXT,
        reason TEXT NOT NULL,
        mixed BOOLEAN NOT NULL,
        error_type TEXT NOT NULL,
        sentence TEXT NOT NULL,
        first_at TIMESTAMP WITH TIME ZONE NOT NULL,
        oldest_at TIMESTAMP WITH TIME ZONE NOT NULL,
        last_at TIMESTAMP WITH TIME ZONE NOT NULL,
        open BIGINT DEFAULT 0 NOT NULL,
        replaying BIGINT DEFAULT 0 NOT NULL,
        replayed BIGINT DEFAULT 0 NOT NULL,
        discard_requested BIGINT DEFAULT 0 NOT NULL,
        discarded BIGINT DEFAULT 0 NOT NULL,
        superseded BIGINT DEFAULT 0 NOT NULL,
        told_at TIMESTAMP WITH TIME ZONE,
        PRIMARY KEY (fingerprint)
    )
     WITH (fillfactor = 50)
    """,
    """
    CREATE INDEX dlq_groups_by_time ON {schema}.dlq_groups (first_at, fingerprint)
    """,
    """
    CREATE INDEX dlq_groups_untold ON {schema}.dlq_groups (first_at) WHERE told_at IS NULL
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_groups.reason IS 'of the latest'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_groups.mixed IS 'its letters differ in consumer, type, reason or error'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_groups.sentence IS 'the latest error'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_groups.first_at IS 'never changes: pages go by it'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_groups.oldest_at IS 'before first_at if a letter came late'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_groups.told_at IS 'when somebody was told that it is there'
    """,
    """
    CREATE UNLOGGED TABLE {schema}.dlq_group_changes (
        xid XID8 NOT NULL,
        number INTEGER NOT NULL,
        fingerprint TEXT NOT NULL,
        status {schema}.dlq_status NOT NULL,
        many BIGINT NOT NULL,
        consumer TEXT NOT NULL,
        event_type TEXT,
        reason TEXT NOT NULL,
        mixed BOOLEAN NOT NULL,
        error_type TEXT NOT NULL,
        sentence TEXT NOT NULL,
        first_at TIMESTAMP WITH TIME ZONE NOT NULL,
        last_at TIMESTAMP WITH TIME ZONE NOT NULL
    )
     WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)
    """,
    """
    CREATE INDEX dlq_group_changes_xid ON {schema}.dlq_group_changes (xid)
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_group_changes.number IS 'among those of one statement'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_group_changes.many IS 'so many more letters, or fewer'
    """,
    """
    CREATE FUNCTION {schema}.note_new_letters() RETURNS trigger LANGUAGE plpgsql AS $function$
    BEGIN
        INSERT INTO {schema}.dlq_group_changes (xid, number, fingerprint, status, many, consumer, event_type, reason,
            mixed, error_type, sentence, first_at, last_at)
        SELECT pg_current_xact_id(), row_number() OVER (), c.fingerprint, c.status, sum(c.many),
            (array_agg(c.consumer ORDER BY c.failed_at DESC))[1],
            (array_agg(c.event_type ORDER BY c.failed_at DESC))[1],
            (array_agg(c.reason ORDER BY c.failed_at DESC))[1],
            count(DISTINCT (c.consumer, c.event_type, c.reason, c.error_type)) > 1,
            (array_agg(c.error_type ORDER BY c.failed_at DESC))[1],
            (array_agg(c.error ORDER BY c.failed_at DESC))[1],
            min(c.first_failed_at), max(c.failed_at)
        FROM (SELECT n.*, 1 AS many FROM after_it n) c
        GROUP BY c.fingerprint, c.status;
        RETURN NULL;
    END
    $function$
    """,
    """
    CREATE FUNCTION {schema}.note_removed_letters() RETURNS trigger LANGUAGE plpgsql AS $function$
    BEGIN
        INSERT INTO {schema}.dlq_group_changes (xid, number, fingerprint, status, many, consumer, event_type, reason,
            mixed, error_type, sentence, first_at, last_at)
        SELECT pg_current_xact_id(), row_number() OVER (), c.fingerprint, c.status, sum(c.many),
            (array_agg(c.consumer ORDER BY c.failed_at DESC))[1],
            (array_agg(c.event_type ORDER BY c.failed_at DESC))[1],
            (array_agg(c.reason ORDER BY c.failed_at DESC))[1],
            count(DISTINCT (c.consumer, c.event_type, c.reason, c.error_type)) > 1,
            (array_agg(c.error_type ORDER BY c.failed_at DESC))[1],
            (array_agg(c.error ORDER BY c.failed_at DESC))[1],
            min(c.first_failed_at), max(c.failed_at)
        FROM (SELECT o.*, -1 AS many FROM before_it o) c
        GROUP BY c.fingerprint, c.status;
        RETURN NULL;
    END
    $function$
    """,
    """
    CREATE FUNCTION {schema}.note_changed_letters() RETURNS trigger LANGUAGE plpgsql AS $function$
    BEGIN
        INSERT INTO {schema}.dlq_group_changes (xid, number, fingerprint, status, many, consumer, event_type, reason,
            mixed, error_type, sentence, first_at, last_at)
        SELECT pg_current_xact_id(), row_number() OVER (), c.fingerprint, c.status, sum(c.many),
            (array_agg(c.consumer ORDER BY c.failed_at DESC))[1],
            (array_agg(c.event_type ORDER BY c.failed_at DESC))[1],
            (array_agg(c.reason ORDER BY c.failed_at DESC))[1],
            count(DISTINCT (c.consumer, c.event_type, c.reason, c.error_type)) > 1,
            (array_agg(c.error_type ORDER BY c.failed_at DESC))[1],
            (array_agg(c.error ORDER BY c.failed_at DESC))[1],
            min(c.first_failed_at), max(c.failed_at)
        FROM (SELECT n.*, 1 AS many FROM after_it n UNION ALL SELECT o.*, -1 FROM before_it o) c
        GROUP BY c.fingerprint, c.status
        HAVING sum(c.many) <> 0
            OR max(c.failed_at) FILTER (WHERE c.many = 1) > max(c.failed_at) FILTER (WHERE c.many = -1)
            OR count(DISTINCT (c.consumer, c.event_type, c.reason, c.error_type)) > 1;
        RETURN NULL;
    END
    $function$
    """,
    """
    CREATE TRIGGER count_new AFTER INSERT ON {schema}.dlq_events
        REFERENCING NEW TABLE AS after_it FOR EACH STATEMENT EXECUTE FUNCTION {schema}.note_new_letters()
    """,
    """
    CREATE TRIGGER count_changed AFTER UPDATE ON {schema}.dlq_events
        REFERENCING OLD TABLE AS before_it NEW TABLE AS after_it FOR EACH STATEMENT
        EXECUTE FUNCTION {schema}.note_changed_letters()
    """,
    """
    CREATE TRIGGER count_removed AFTER DELETE ON {schema}.dlq_events
        REFERENCING OLD TABLE AS before_it FOR EACH STATEMENT EXECUTE FUNCTION {schema}.note_removed_letters()
    """,
    """
    CREATE FUNCTION {schema}.count_dead_letters() RETURNS trigger LANGUAGE plpgsql AS $function$
    BEGIN
        -- The first statement takes the notes of all; for the others nothing is left.
        WITH notes AS (DELETE FROM {schema}.dlq_group_changes c WHERE c.xid = NEW.xid RETURNING c.*),
        latest AS (
            SELECT DISTINCT ON (n.fingerprint) n.fingerprint, n.consumer, n.event_type, n.reason, n.error_type, n.sentence
            FROM notes n ORDER BY n.fingerprint, n.last_at DESC, n.many DESC),
        counted AS (
            SELECT n.fingerprint, min(n.first_at) AS first_at, max(n.last_at) AS last_at,
                bool_or(n.mixed) OR count(DISTINCT (n.consumer, n.event_type, n.reason, n.error_type)) > 1 AS mixed,
                coalesce(sum(n.many) FILTER (WHERE n.status = 'OPEN'), 0) AS open,
                coalesce(sum(n.many) FILTER (WHERE n.status = 'REPLAYING'), 0) AS replaying,
                coalesce(sum(n.many) FILTER (WHERE n.status = 'REPLAYED'), 0) AS replayed,
                coalesce(sum(n.many) FILTER (WHERE n.status = 'DISCARD_REQUESTED'), 0) AS discard_requested,
                coalesce(sum(n.many) FILTER (WHERE n.status = 'DISCARDED'), 0) AS discarded,
                coalesce(sum(n.many) FILTER (WHERE n.status = 'SUPERSEDED'), 0) AS superseded
            FROM notes n GROUP BY n.fingerprint)
        INSERT INTO {schema}.dlq_groups AS g (fingerprint, consumer, event_type, reason, mixed, error_type, sentence,
            first_at, oldest_at, last_at, open, replaying, replayed, discard_requested, discarded, superseded)
        SELECT l.fingerprint, l.consumer, l.event_type, l.reason, c.mixed, l.error_type, l.sentence, c.first_at, c.first_at,
            c.last_at, c.open, c.replaying, c.replayed, c.discard_requested, c.discarded, c.superseded
        FROM latest l JOIN counted c USING (fingerprint)
        ORDER BY l.fingerprint
        ON CONFLICT (fingerprint) DO UPDATE SET
            open = g.open + excluded.open, replaying = g.replaying + excluded.replaying,
            replayed = g.replayed + excluded.replayed,
            discard_requested = g.discard_requested + excluded.discard_requested,
            discarded = g.discarded + excluded.discarded, superseded = g.superseded + excluded.superseded,
            reason = CASE WHEN excluded.last_at > g.last_at THEN excluded.reason ELSE g.reason END,
            sentence = CASE WHEN excluded.last_at > g.last_at THEN excluded.sentence ELSE g.sentence END,
            last_at = greatest(g.last_at, excluded.last_at), oldest_at = least(g.oldest_at, excluded.oldest_at),
            mixed = g.mixed OR excluded.mixed
                OR (excluded.consumer, excluded.event_type, excluded.reason, excluded.error_type)
                    IS DISTINCT FROM (g.consumer, g.event_type, g.reason, g.error_type);
        RETURN NULL;
    END
    $function$
    """,
    """
    CREATE CONSTRAINT TRIGGER count_dead_letters AFTER INSERT ON {schema}.dlq_group_changes
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.number = 1)
        EXECUTE FUNCTION {schema}.count_dead_letters()
    """,
]


def upgrade() -> None:
    attributes = context.config.attributes
    for statement in STATEMENTS:
        text = dedent(statement).strip().format(schema=attributes["schema"])
        op.get_bind().exec_driver_sql(text)
