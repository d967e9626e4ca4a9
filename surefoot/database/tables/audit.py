"""The record of what people did and tried to do: rows are added, never changed, each sealed with the one before it."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
    text,
)

from surefoot.database.tables.base import declare, metadata

admin_tokens = Table(
    "admin_tokens",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("person", Text, nullable=False),
    Column("role", Text, nullable=False, comment="VIEWER, OPERATOR, ADMIN or SUPER_ADMIN"),
    Column("token_hash", LargeBinary, nullable=False, unique=True, comment="SHA-256; the token itself is nowhere"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("revoked_at", DateTime(timezone=True)),
)

admin_requests = Table(
    "admin_requests",
    metadata,
    Column("person", Text, nullable=False),
    Column("key", Text, nullable=False, comment="the Idempotency-Key"),
    Column("fingerprint", LargeBinary, nullable=False, comment="SHA-256 of method, path and body"),
    Column("status", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("answered_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    PrimaryKeyConstraint("person", "key", name="admin_requests_pkey"),
)
Index("admin_requests_by_time", admin_requests.c.answered_at)


audit_log = Table(
    "audit_log",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False, comment="without gaps"),
    Column("at", DateTime(timezone=True), nullable=False),
    Column("person", Text, nullable=False, comment="anonymous where nobody knows"),
    Column("action", Text, nullable=False, comment="a word from a fixed list"),
    Column("outcome", Text, nullable=False, comment="done or refused"),
    Column("about", Text, nullable=False, comment="what it was done to: an event, a job, an approval, a route"),
    Column("reason", Text, nullable=False, comment="why, in the person's words; or why it was refused"),
    Column("details", JSON, nullable=False),
    Column("previous", LargeBinary, nullable=False, comment="the seal of the row before; 32 zero bytes in the first"),
    Column("seal", LargeBinary, nullable=False, comment="SHA-256 over this row and the seal before it"),
)
Index("audit_log_about", audit_log.c.about, audit_log.c.number)
Index("audit_log_person", audit_log.c.person, audit_log.c.number)

# Numbers have no gaps, so writers take turns, from here to the end of their transactions. All of it in one call: the
# fewer messages go to and fro before the commit, the shorter the others wait. (to_json escapes as Python's json does,
# so whoever verifies can seal for themselves.)
declare("""
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
""")
declare("""
CREATE FUNCTION {schema}.refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
    RAISE EXCEPTION '%', 'the audit log only grows: no row of it can be changed or removed';
END
$function$
""")
declare("""
CREATE TRIGGER refuse_audit_change BEFORE UPDATE OR DELETE ON {schema}.audit_log
    FOR EACH ROW EXECUTE FUNCTION {schema}.refuse_audit_change()
""")
declare("""
CREATE TRIGGER refuse_audit_truncate BEFORE TRUNCATE ON {schema}.audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.refuse_audit_change()
""")
