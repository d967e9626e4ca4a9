"""What people decide about dead letters, who they are, and the record of it."""

from textwrap import dedent

from alembic import context, op

revision = "0005"
down_revision = "0004"

STATEMENTS = [
    """
    CREATE TYPE {schema}.dlq_job_kind AS ENUM ('replay', 'discard', 'supersede', 'inspect')
    """,
    """
    CREATE TYPE {schema}.dlq_job_status AS ENUM ('RUNNING', 'PAUSED', 'CANCELLING', 'CANCELLED', 'DONE')
    """,
    """
    CREATE TYPE {schema}.dlq_item_state AS ENUM ('PENDING', 'SENT', 'ANSWERED', 'CANCELLED')
    """,
    """
    CREATE TYPE {schema}.dlq_approval_status AS ENUM ('WAITING', 'APPROVED', 'REFUSED', 'EXPIRED')
    """,
    """
    CREATE TABLE {schema}.dlq_jobs (
        id UUID NOT NULL,
        kind {schema}.dlq_job_kind NOT NULL,
        status {schema}.dlq_job_status DEFAULT 'RUNNING' NOT NULL,
        asked JSON NOT NULL,
        reason TEXT NOT NULL,
        created_by TEXT NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        total INTEGER NOT NULL,
        canary INTEGER DEFAULT 0 NOT NULL,
        rate DOUBLE PRECISION,
        stop_on_error_rate DOUBLE PRECISION,
        note TEXT,
        allowance DOUBLE PRECISION DEFAULT 0 NOT NULL,
        looked_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        counted_from TIMESTAMP WITH TIME ZONE,
        ended_at TIMESTAMP WITH TIME ZONE,
        approval_id UUID,
        PRIMARY KEY (id),
        CONSTRAINT dlq_jobs_ended CHECK ((ended_at IS NULL) = (status NOT IN ('CANCELLED', 'DONE')))
    )
     WITH (fillfactor = 70)
    """,
    """
    CREATE INDEX dlq_jobs_by_person ON {schema}.dlq_jobs (created_by, id)
    """,
    """
    CREATE INDEX dlq_jobs_under_way ON {schema}.dlq_jobs (id) WHERE ended_at IS NULL
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_jobs.kind IS 'what the control records say; inspect is a dry run'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_jobs.asked IS 'the filter or the ids it was asked for by'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_jobs.total IS 'events in its set, which never changes'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_jobs.canary IS 'so many first, and all must go well'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_jobs.rate IS 'control records a second, at most; null for as fast as they are answered'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_jobs.stop_on_error_rate IS 'it pauses when more than this share of the answers are failures'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_jobs.note IS 'a sentence: why it is paused, or how it ended'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_jobs.allowance IS 'what the rate has left to send'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_jobs.counted_from IS 'set once it paused by itself: earlier answers do not count'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_jobs.approval_id IS 'the approval that a discard is carried out by'
    """,
    """
    CREATE TABLE {schema}.dlq_job_items (
        job_id UUID NOT NULL,
        number INTEGER NOT NULL,
        dlq_id UUID NOT NULL,
        lane TEXT NOT NULL,
        control_id UUID NOT NULL,
        replacement JSON,
        state {schema}.dlq_item_state DEFAULT 'PENDING' NOT NULL,
        sent_at TIMESTAMP WITH TIME ZONE,
        sends INTEGER DEFAULT 0 NOT NULL,
        answer TEXT,
        sentence TEXT,
        waiting_behind INTEGER,
        past_retention BOOLEAN,
        answered_at TIMESTAMP WITH TIME ZONE,
        CONSTRAINT dlq_job_items_pkey PRIMARY KEY (job_id, number)
    )
     WITH (fillfactor = 70)
    """,
    """
    CREATE UNIQUE INDEX dlq_job_items_control ON {schema}.dlq_job_items (control_id)
    """,
    """
    CREATE INDEX dlq_job_items_event ON {schema}.dlq_job_items (dlq_id)
    """,
    """
    CREATE INDEX dlq_job_items_open ON {schema}.dlq_job_items (job_id, state, number) WHERE state IN ('PENDING', 'SENT')
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_job_items.number IS 'the order of the log, partition by partition'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_job_items.lane IS 'consumer, topic, partition and key: one at a time in each'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_job_items.control_id IS 'the same whenever it is sent'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_job_items.replacement IS 'the edited record of a supersede'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_job_items.sent_at IS 'when it was sent last; written before it is sent'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_job_items.answer IS 'what the consumer said, in a word'
    """,
    """
    CREATE TABLE {schema}.dlq_approvals (
        id UUID NOT NULL,
        status {schema}.dlq_approval_status DEFAULT 'WAITING' NOT NULL,
        reason TEXT NOT NULL,
        requested_by TEXT NOT NULL,
        requested_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
        total INTEGER NOT NULL,
        set_hash TEXT NOT NULL,
        decided_by TEXT,
        decided_at TIMESTAMP WITH TIME ZONE,
        decision TEXT,
        job_id UUID,
        PRIMARY KEY (id),
        CONSTRAINT dlq_approvals_two_people CHECK (decided_by IS NULL OR decided_by <> requested_by)
    )
    """,
    """
    CREATE INDEX dlq_approvals_waiting ON {schema}.dlq_approvals (expires_at) WHERE status = 'WAITING'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_approvals.set_hash IS 'SHA-256 over the set as the requester saw it'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_approvals.decision IS 'what the second person said'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_approvals.job_id IS 'the job that carries it out'
    """,
    """
    CREATE TABLE {schema}.dlq_approval_items (
        approval_id UUID NOT NULL,
        dlq_id UUID NOT NULL,
        CONSTRAINT dlq_approval_items_pkey PRIMARY KEY (approval_id, dlq_id)
    )
    """,
    """
    CREATE INDEX dlq_approval_items_event ON {schema}.dlq_approval_items (dlq_id)
    """,
    """
    CREATE TABLE {schema}.dlq_told (
        code TEXT NOT NULL,
        subject TEXT NOT NULL,
        told_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        up_to TIMESTAMP WITH TIME ZONE,
        CONSTRAINT dlq_told_pkey PRIMARY KEY (code, subject)
    )
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_told.code IS 'the alert'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_told.subject IS 'what it was about: a consumer'
    """,
    """
    COMMENT ON COLUMN {schema}.dlq_told.up_to IS 'letters that died before this were among those told of'
    """,
    """
    CREATE TABLE {schema}.audit_log (
        number BIGINT NOT NULL,
        at TIMESTAMP WITH TIME ZONE NOT NULL,
        person TEXT NOT NULL,
        action TEXT NOT NULL,
        outcome TEXT NOT NULL,
        about TEXT NOT NULL,
        reason TEXT NOT NULL,
        details JSON NOT NULL,
        previous BYTEA NOT NULL,
        seal BYTEA NOT NULL,
        PRIMARY KEY (number)
    )
    """,
    """
    CREATE INDEX audit_log_about ON {schema}.audit_log (about, number)
    """,
    """
    CREATE INDEX audit_log_person ON {schema}.audit_log (person, number)
    """,
    """
    COMMENT ON COLUMN {schema}.audit_log.number IS 'without gaps'
    """,
    """
    COMMENT ON COLUMN {schema}.audit_log.person IS 'anonymous where nobody knows'
    """,
    """
    COMMENT ON COLUMN {schema}.audit_log.action IS 'a word from a fixed list'
    """,
    """
    COMMENT ON COLUMN {schema}.audit_log.outcome IS 'done or refused'
    """,
    """
    COMMENT ON COLUMN {schema}.audit_log.about IS 'what it was done to: an event, a job, an approval, a route'
    """,
    """
    COMMENT ON COLUMN {schema}.audit_log.reason IS 'why, in the person''s words; or why it was refused'
    """,
    """
    COMMENT ON COLUMN {schema}.audit_log.previous IS 'the seal of the row before; 32 zero bytes in the first'
    """,
    """
    COMMENT ON COLUMN {schema}.audit_log.seal IS 'SHA-256 over this row and the seal before it'
    """,
    """
    CREATE TABLE {schema}.admin_tokens (
        id UUID NOT NULL,
        person TEXT NOT NULL,
        role TEXT NOT NULL,
        token_hash BYTEA NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
        revoked_at TIMESTAMP WITH TIME ZONE,
        PRIMARY KEY (id),
        UNIQUE (token_hash)
    )
    """,
    """
    COMMENT ON COLUMN {schema}.admin_tokens.role IS 'VIEWER, OPERATOR, ADMIN or SUPER_ADMIN'
    """,
    """
    COMMENT ON COLUMN {schema}.admin_tokens.token_hash IS 'SHA-256; the token itself is nowhere'
    """,
    """
    CREATE TABLE {schema}.admin_requests (
        person TEXT NOT NULL,
        key TEXT NOT NULL,
        fingerprint BYTEA NOT NULL,
        status INTEGER NOT NULL,
        body BYTEA NOT NULL,
        answered_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        CONSTRAINT admin_requests_pkey PRIMARY KEY (person, key)
    )
    """,
    """
    CREATE INDEX admin_requests_by_time ON {schema}.admin_requests (answered_at)
    """,
    """
    COMMENT ON COLUMN {schema}.admin_requests.key IS 'the Idempotency-Key'
    """,
    """
    COMMENT ON COLUMN {schema}.admin_requests.fingerprint IS 'SHA-256 of method, path and body'
    """,
    """
    CREATE FUNCTION {schema}.record_act(
        act_person text, act_action text, act_outcome text, act_about text, act_reason text, act_details text
    ) RETURNS bigint LANGUAGE plpgsql AS $function$
    DECLARE
        last_number bigint;
        last_seal bytea;
        act_at timestamptz;
        sealed text;
    BEGIN
        PERFORM pg_advisory_xact_lock(1937076845, hashtext('{schema}.audit_log'));
        -- A statement of its own: it sees what was committed while we waited for the lock.
        SELECT number, seal INTO last_number, last_seal FROM {schema}.audit_log ORDER BY number DESC LIMIT 1;
        last_number := coalesce(last_number, 0) + 1;
        last_seal := coalesce(last_seal, decode(repeat('00', 32), 'hex'));
        act_at := clock_timestamp();
        sealed := '{{"about":' || to_json(act_about) || ',"action":' || to_json(act_action)
            || ',"at":' || to_json(to_char(act_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
            || ',"details":' || to_json(act_details) || ',"number":' || last_number
            || ',"outcome":' || to_json(act_outcome) || ',"person":' || to_json(act_person)
            || ',"previous":"' || encode(last_seal, 'hex') || '","reason":' || to_json(act_reason) || '}}';
        INSERT INTO {schema}.audit_log (number, at, person, action, outcome, about, reason, details, previous, seal)
        VALUES (last_number, act_at, act_person, act_action, act_outcome, act_about, act_reason, act_details::json,
            last_seal, sha256(convert_to(E'surefoot audit v1\\n' || sealed, 'UTF8')));
        RETURN last_number;
    END
    $function$
    """,
    """
    CREATE FUNCTION {schema}.refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $function$
    BEGIN
        RAISE EXCEPTION '%', 'the audit log only grows: no row of it can be changed or removed';
    END
    $function$
    """,
    """
    CREATE TRIGGER refuse_audit_change BEFORE UPDATE OR DELETE ON {schema}.audit_log
        FOR EACH ROW EXECUTE FUNCTION {schema}.refuse_audit_change()
    """,
    """
    CREATE TRIGGER refuse_audit_truncate BEFORE TRUNCATE ON {schema}.audit_log
        FOR EACH STATEMENT EXECUTE FUNCTION {schema}.refuse_audit_change()
    """,
]


def upgrade() -> None:
    attributes = context.config.attributes
    for statement in STATEMENTS:
        text = dedent(statement).strip().format(schema=attributes["schema"])
        op.get_bind().exec_driver_sql(text)
