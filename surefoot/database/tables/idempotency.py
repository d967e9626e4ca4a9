"""Idempotency keys of the way in over HTTP: what was asked for under each, how far it has got, and its answer."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ENUM

from surefoot.database.tables.base import declare, metadata

IDEMPOTENCY_STATE = ENUM(
    "IN_FLIGHT",
    "COMPLETED",
    "FAILED_RETRY",
    "FAILED_TERMINAL",
    "EXPIRED",
    name="idempotency_state",
    metadata=metadata,
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("key_hash", LargeBinary, primary_key=True, comment="SHA-256 of tenant and key; the key itself is not kept"),
    Column("tenant", Text, nullable=False),
    Column("route", Text, nullable=False, comment="as it was declared: POST /v1/charges"),
    Column("effect", Text, nullable=False, comment="local: one transaction; outside: a provider is called"),
    Column("state", IDEMPOTENCY_STATE, nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("fingerprint_version", SmallInteger, nullable=False),
    Column("fence", BigInteger, nullable=False, comment="rises with every claim; who has an older one writes nothing"),
    Column("attempts", Integer, nullable=False, comment="claims so far"),
    Column("owner", Text, nullable=False, comment="the process that claimed it last"),
    Column("lease_until", DateTime(timezone=True), comment="null where nobody works on it"),
    Column("leased_at", DateTime(timezone=True), comment="when the claim was made: a lease is renewed for so long"),
    Column("due_at", DateTime(timezone=True), comment="when the completer is to go on with it by itself"),
    Column("minted", JSON, nullable=False, server_default=text("'{}'"), comment="ids and times, the same on all tries"),
    Column("resource", Text, comment="the id of what it makes, as minted"),
    Column("recovery_point", Text, comment="the last phase that was committed"),
    Column("request", LargeBinary, comment="encrypted: what the completer needs to go on"),
    Column(
        "outcome_unknown", Boolean, nullable=False, server_default=text("false"), comment="such a row is not reaped"
    ),
    Column("error", Text, comment="a sentence: why the last attempt failed"),
    Column("status", SmallInteger, comment="of the answer"),
    Column("headers", JSON, comment="of the answer, in order: [[name, value], …]"),
    Column("body", LargeBinary, comment="of the answer, as it was sent"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("answered_at", DateTime(timezone=True)),
    Column("replay_until", DateTime(timezone=True), nullable=False, comment="the answer is given again until then"),
    Column("gone_until", DateTime(timezone=True), nullable=False, comment="410 until then; then the key is new"),
    postgresql_with={"fillfactor": 70},
)
Index(
    "idempotency_keys_open",
    idempotency_keys.c.due_at,
    postgresql_where=text("state IN ('IN_FLIGHT', 'FAILED_RETRY')"),
)
Index("idempotency_keys_by_age", idempotency_keys.c.gone_until)
Index(
    "idempotency_keys_to_expire",
    idempotency_keys.c.replay_until,
    postgresql_where=text("state IN ('COMPLETED', 'FAILED_TERMINAL')"),
)
Index("idempotency_keys_by_tenant", idempotency_keys.c.tenant, idempotency_keys.c.created_at)

idempotency_phases = Table(
    "idempotency_phases",
    metadata,
    Column("key_hash", LargeBinary, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("result", JSON, comment="what the phase returned"),
    Column("at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    ForeignKeyConstraint(["key_hash"], ["surefoot.idempotency_keys.key_hash"], ondelete="CASCADE"),
)

pending_calls = Table(
    "pending_calls",
    metadata,
    Column("key_hash", LargeBinary, primary_key=True),
    Column("provider_key", Text, nullable=False, comment="calls are made under it, whoever makes them"),
    Column("calls", Integer, nullable=False, server_default=text("0"), comment="attempts that are known of"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("closed_at", DateTime(timezone=True), comment="null until the answer of the request is stored"),
    ForeignKeyConstraint(["key_hash"], ["surefoot.idempotency_keys.key_hash"], ondelete="CASCADE"),
)
Index("pending_calls_open", pending_calls.c.created_at, postgresql_where=text("closed_at IS NULL"))

declare("""
CREATE VIEW {schema}.idempotency_stuck AS
SELECT tenant, encode(key_hash, 'hex') AS key_hash, route, state, resource, recovery_point, attempts, owner,
    outcome_unknown, error, created_at, lease_until, due_at, now() - created_at AS age
FROM {schema}.idempotency_keys
WHERE state IN ('IN_FLIGHT', 'FAILED_RETRY')
    AND (outcome_unknown OR coalesce(lease_until, due_at, created_at) < now() - interval '60 seconds')
""")
declare("""
CREATE VIEW {schema}.idempotency_by_route AS
SELECT route, state, count(*) AS keys, min(created_at) AS oldest, max(created_at) AS newest, max(attempts) AS attempts
FROM {schema}.idempotency_keys GROUP BY route, state
""")


idempotency_history = Table(
    "idempotency_history",
    metadata,
    Column("number", BigInteger, Identity(always=True), primary_key=True),
    Column("at", DateTime(timezone=True), nullable=False, server_default=text("clock_timestamp()")),
    Column("key_hash", LargeBinary, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column(
        "what", Text, nullable=False, comment="a word from a fixed list: claimed, phase, called, answered, stored …"
    ),
    Column("details", JSON, nullable=False, server_default=text("'{}'"), comment="no body, no personal data"),
)
Index("idempotency_history_by_key", idempotency_history.c.key_hash, idempotency_history.c.number)
Index("idempotency_history_by_time", idempotency_history.c.at)

idempotency_seals = Table(
    "idempotency_seals",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False, comment="without gaps"),
    Column("after", DateTime(timezone=True), nullable=False, comment="covers rows from here on"),
    Column("until", DateTime(timezone=True), nullable=False, comment="and before this"),
    Column("rows", BigInteger, nullable=False),
    Column("previous", LargeBinary, nullable=False, comment="the seal before; 32 zero bytes in the first"),
    Column("seal", LargeBinary, nullable=False, comment="SHA-256 over the rows and the seal before"),
    Column("at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
)

declare("""
CREATE FUNCTION {schema}.refuse_history_change() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('idempotency.pruning', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '%', 'the history of idempotency keys only grows: no row of it can be changed or removed';
END
$function$
""")
declare("""
CREATE TRIGGER refuse_history_change BEFORE UPDATE OR DELETE ON {schema}.idempotency_history
    FOR EACH ROW EXECUTE FUNCTION {schema}.refuse_history_change()
""")
declare("""
CREATE TRIGGER refuse_history_truncate BEFORE TRUNCATE ON {schema}.idempotency_history
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.refuse_history_change()
""")
declare("""
CREATE TRIGGER refuse_seal_change BEFORE UPDATE OR DELETE ON {schema}.idempotency_seals
    FOR EACH ROW EXECUTE FUNCTION {schema}.refuse_history_change()
""")
declare("""
CREATE TRIGGER refuse_seal_truncate BEFORE TRUNCATE ON {schema}.idempotency_seals
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.refuse_history_change()
""")
