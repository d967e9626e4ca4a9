"""The way in over HTTP: idempotency keys, their phases and pending calls, and their history."""

from textwrap import dedent

from alembic import context, op

revision = "0006"
down_revision = "0005"

STATEMENTS = [
    """
    CREATE TYPE {schema}.idempotency_state AS ENUM ('IN_FLIGHT', 'COMPLETED', 'FAILED_RETRY', 'FAILED_TERMINAL', 'EXPIRED')
    """,
    """
    CREATE TABLE {schema}.idempotency_keys (
        key_hash BYTEA NOT NULL,
        tenant TEXT NOT NULL,
        route TEXT NOT NULL,
        effect TEXT NOT NULL,
        state {schema}.idempotency_state NOT NULL,
        fingerprint BYTEA NOT NULL,
        fingerprint_version SMALLINT NOT NULL,
        fence BIGINT NOT NULL,
        attempts INTEGER NOT NULL,
        owner TEXT NOT NULL,
        lease_until TIMESTAMP WITH TIME ZONE,
        leased_at TIMESTAMP WITH TIME ZONE,
        due_at TIMESTAMP WITH TIME ZONE,
        minted JSON DEFAULT '{{}}' NOT NULL,
        resource TEXT,
        recovery_point TEXT,
        request BYTEA,
        outcome_unknown BOOLEAN DEFAULT false NOT NULL,
        error TEXT,
        status SMALLINT,
        headers JSON,
        body BYTEA,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        answered_at TIMESTAMP WITH TIME ZONE,
        replay_until TIMESTAMP WITH TIME ZONE NOT NULL,
        gone_until TIMESTAMP WITH TIME ZONE NOT NULL,
        PRIMARY KEY (key_hash)
    )
     WITH (fillfactor = 70)
    """,
    """
    CREATE INDEX idempotency_keys_by_age ON {schema}.idempotency_keys (gone_until)
    """,
    """
    CREATE INDEX idempotency_keys_by_tenant ON {schema}.idempotency_keys (tenant, created_at)
    """,
    """
    CREATE INDEX idempotency_keys_open ON {schema}.idempotency_keys (due_at) WHERE state IN ('IN_FLIGHT', 'FAILED_RETRY')
    """,
    """
    CREATE INDEX idempotency_keys_to_expire ON {schema}.idempotency_keys (replay_until) WHERE state IN ('COMPLETED', 'FAILED_TERMINAL')
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_keys.key_hash IS 'SHA-256 of tenant and key; the key itself is not kept'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_keys.route IS 'as it was declared: POST /v1/charges'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_keys.effect IS 'local: one transaction; outside: a provider is called'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_keys.fence IS 'rises with every claim; who has an older one writes nothing'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_keys.attempts IS 'claims so far'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_keys.owner IS 'the process that claimed it last'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_keys.lease_until IS 'null where nobody works on it'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_keys.leased_at IS 'when the claim was made: a lease is renewed for so long'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_keys.due_at IS 'when the completer is to go on with it by itself'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_keys.minted IS 'ids and times, the same on all tries'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_keys.resource IS 'the id of what it makes, as minted'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_keys.recovery_point IS 'the last phase that was committed'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_keys.request IS 'encrypted: what the completer needs to go on'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_keys.outcome_unknown IS 'such a row is not reaped'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_keys.error IS 'a sentence: why the last attempt failed'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_keys.status IS 'of the answer'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_keys.headers IS 'of the answer, in order: [[name, value], …]'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_keys.body IS 'of the answer, as it was sent'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_keys.replay_until IS 'the answer is given again until then'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_keys.gone_until IS '410 until then; then the key is new'
    """,
    """
    CREATE TABLE {schema}.idempotency_phases (
        key_hash BYTEA NOT NULL,
        name TEXT NOT NULL,
        result JSON,
        at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        PRIMARY KEY (key_hash, name),
        FOREIGN KEY(key_hash) REFERENCES {schema}.idempotency_keys (key_hash) ON DELETE CASCADE
    )
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_phases.result IS 'what the phase returned'
    """,
    """
    CREATE TABLE {schema}.pending_calls (
        key_hash BYTEA NOT NULL,
        provider_key TEXT NOT NULL,
        calls INTEGER DEFAULT 0 NOT NULL,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        closed_at TIMESTAMP WITH TIME ZONE,
        PRIMARY KEY (key_hash),
        FOREIGN KEY(key_hash) REFERENCES {schema}.idempotency_keys (key_hash) ON DELETE CASCADE
    )
    """,
    """
    CREATE INDEX pending_calls_open ON {schema}.pending_calls (created_at) WHERE closed_at IS NULL
    """,
    """
    COMMENT ON COLUMN {schema}.pending_calls.provider_key IS 'calls are made under it, whoever makes them'
    """,
    """
    COMMENT ON COLUMN {schema}.pending_calls.calls IS 'attempts that are known of'
    """,
    """
    COMMENT ON COLUMN {schema}.pending_calls.closed_at IS 'null until the answer of the request is stored'
    """,
    """
    CREATE TABLE {schema}.idempotency_history (
        number BIGINT GENERATED ALWAYS AS IDENTITY,
        at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
        key_hash BYTEA NOT NULL,
        tenant TEXT NOT NULL,
        fence BIGINT NOT NULL,
        what TEXT NOT NULL,
        details JSON DEFAULT '{{}}' NOT NULL,
        PRIMARY KEY (number)
    )
    """,
    """
    CREATE INDEX idempotency_history_by_key ON {schema}.idempotency_history (key_hash, number)
    """,
    """
    CREATE INDEX idempotency_history_by_time ON {schema}.idempotency_history (at)
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_history.what IS 'a word from a fixed list: claimed, phase, called, answered, stored …'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_history.details IS 'no body, no personal data'
    """,
    """
    CREATE TABLE {schema}.idempotency_seals (
        number BIGINT NOT NULL,
        after TIMESTAMP WITH TIME ZONE NOT NULL,
        until TIMESTAMP WITH TIME ZONE NOT NULL,
        rows BIGINT NOT NULL,
        previous BYTEA NOT NULL,
        seal BYTEA NOT NULL,
        at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        PRIMARY KEY (number)
    )
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_seals.number IS 'without gaps'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_seals.after IS 'covers rows from here on'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_seals.until IS 'and before this'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_seals.previous IS 'the seal before; 32 zero bytes in the first'
    """,
    """
    COMMENT ON COLUMN {schema}.idempotency_seals.seal IS 'SHA-256 over the rows and the seal before'
    """,
    """
    CREATE VIEW {schema}.idempotency_stuck AS
    SELECT tenant, encode(key_hash, 'hex') AS key_hash, route, state, resource, recovery_point, attempts, owner,
        outcome_unknown, error, created_at, lease_until, due_at, now() - created_at AS age
    FROM {schema}.idempotency_keys
    WHERE state IN ('IN_FLIGHT', 'FAILED_RETRY')
        AND (outcome_unknown OR coalesce(lease_until, due_at, created_at) < now() - interval '60 seconds')
    """,
    """
    CREATE VIEW {schema}.idempotency_by_route AS
    SELECT route, state, count(*) AS keys, min(created_at) AS oldest, max(created_at) AS newest, max(attempts) AS attempts
    FROM {schema}.idempotency_keys GROUP BY route, state
    """,
    """
    CREATE FUNCTION {schema}.refuse_history_change() RETURNS trigger LANGUAGE plpgsql AS $function$
    BEGIN
        IF TG_OP = 'DELETE' AND current_setting('idempotency.pruning', true) = 'on' THEN
            RETURN OLD;
        END IF;
        RAISE EXCEPTION '%', 'the history of idempotency keys only grows: no row of it can be changed or removed';
    END
    $function$
    """,
    """
    CREATE TRIGGER refuse_history_change BEFORE UPDATE OR DELETE ON {schema}.idempotency_history
        FOR EACH ROW EXECUTE FUNCTION {schema}.refuse_history_change()
    """,
    """
    CREATE TRIGGER refuse_history_truncate BEFORE TRUNCATE ON {schema}.idempotency_history
        FOR EACH STATEMENT EXECUTE FUNCTION {schema}.refuse_history_change()
    """,
    """
    CREATE TRIGGER refuse_seal_change BEFORE UPDATE OR DELETE ON {schema}.idempotency_seals
        FOR EACH ROW EXECUTE FUNCTION {schema}.refuse_history_change()
    """,
    """
    CREATE TRIGGER refuse_seal_truncate BEFORE TRUNCATE ON {schema}.idempotency_seals
        FOR EACH STATEMENT EXECUTE FUNCTION {schema}.refuse_history_change()
    """,
]


def upgrade() -> None:
    attributes = context.config.attributes
    for statement in STATEMENTS:
        text = dedent(statement).strip().format(schema=attributes["schema"])
        op.get_bind().exec_driver_sql(text)
