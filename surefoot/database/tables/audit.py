"""The record of what people did and tried to do: rows are added, never changed, each sealed with the one before it."""

from sqlalchemy import JSON, BigInteger, Column, DateTime, Index, LargeBinary, Table, Text

from surefoot.database.tables.base import declare, metadata

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
