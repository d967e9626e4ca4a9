"""What has happened to idempotency keys: rows are added, never changed, and sealed in batches.

A seal covers the rows whose time lies in its range. It is made when no transaction is open that could still add one.
"""

from sqlalchemy import JSON, BigInteger, Column, DateTime, Identity, Index, LargeBinary, Table, Text, text

from surefoot.database.tables.base import declare, metadata

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
