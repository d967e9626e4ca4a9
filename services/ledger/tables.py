"""Accounts, the operations that were asked for, and the entries they made. Operations and entries are only added.

The database itself sees to it, when a transaction commits, that what an operation has done is balanced: its entries sum
to zero in each currency, and there are some if it is DONE, and none if it was refused.
"""

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    event,
    false,
    func,
)

metadata = MetaData(schema="ledger")

accounts = Table(
    "accounts",
    metadata,
    Column("account_id", Text, primary_key=True),
    Column("kind", Text, nullable=False, comment="inside: it has a balance; outside: it stands for the world outside"),
    Column("currency", Text, nullable=False),
    Column("balance", BigInteger, comment="minor units; null outside, where it is the sum of the entries"),
    Column("cap", BigInteger, comment="it never holds more; null: no cap"),
    Column("frozen", Boolean, nullable=False, server_default=false()),
    CheckConstraint("kind IN ('inside', 'outside')", name="accounts_kind"),
    CheckConstraint("(kind = 'inside') = (balance IS NOT NULL)", name="accounts_kept"),
    CheckConstraint("balance >= 0", name="accounts_balance"),
    CheckConstraint("balance <= cap", name="accounts_cap"),
    UniqueConstraint("account_id", "currency", name="accounts_currency"),
)

operations = Table(
    "operations",
    metadata,
    Column("operation_id", Text, primary_key=True),
    Column("source", Text, nullable=False, comment="the account that gives"),
    Column("target", Text, nullable=False, comment="the account that gets"),
    Column("amount", BigInteger, nullable=False),
    Column("currency", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    CheckConstraint("outcome IN ('DONE', 'INSUFFICIENT', 'CAP_EXCEEDED')", name="operations_outcome"),
    CheckConstraint("amount > 0", name="operations_amount"),
)

entries = Table(
    "entries",
    metadata,
    Column("number", BigInteger, Identity(always=True), primary_key=True),
    Column("operation_id", Text, ForeignKey(operations.c.operation_id), nullable=False),
    Column("account_id", Text, nullable=False),
    Column("currency", Text, nullable=False, comment="that of the account"),
    Column("change", BigInteger, nullable=False, comment="minor units, below zero for what was given"),
    Column("balance_after", BigInteger, comment="null outside"),
    ForeignKeyConstraint(["account_id", "currency"], [accounts.c.account_id, accounts.c.currency]),
    UniqueConstraint("operation_id", "account_id", name="entries_once"),
    Index("entries_by_account", "account_id", "number"),
)

_CHECK_OPERATION = """
CREATE OR REPLACE FUNCTION ledger.check_operation() RETURNS trigger LANGUAGE plpgsql AS $function$
DECLARE
    made text;
    sides bigint;
    off bigint;
BEGIN
    SELECT outcome INTO made FROM ledger.operations WHERE operation_id = NEW.operation_id;
    SELECT coalesce(sum(legs), 0), coalesce(max(abs(total)), 0) INTO sides, off FROM (
        SELECT count(*) AS legs, sum(change) AS total FROM ledger.entries
        WHERE operation_id = NEW.operation_id GROUP BY currency
    ) AS sums;
    IF off <> 0 THEN
        RAISE EXCEPTION 'the entries of operation % do not sum to zero', NEW.operation_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'operations_balanced';
    END IF;
    IF (made = 'DONE') <> (sides > 0) THEN
        RAISE EXCEPTION 'operation % is % and has % entries', NEW.operation_id, made, sides
            USING ERRCODE = 'check_violation', CONSTRAINT = 'operations_balanced';
    END IF;
    RETURN NULL;
END
$function$
"""
_REFUSE_CHANGE = """
CREATE OR REPLACE FUNCTION ledger.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
    RAISE EXCEPTION 'operations and entries are only added: move the money back instead';
END
$function$
"""


def _declare(statement: str) -> None:
    """It is made with the last of the tables, and not again."""
    event.listen(entries, "after_create", DDL(statement.replace("%", "%%")))  # type: ignore[no-untyped-call]


_declare(_CHECK_OPERATION)
_declare(_REFUSE_CHANGE)
for _table in ("operations", "entries"):
    _declare(
        f"CREATE CONSTRAINT TRIGGER balanced AFTER INSERT ON ledger.{_table} DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION ledger.check_operation()"
    )
    _declare(
        f"CREATE TRIGGER only_added BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger.{_table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change()"
    )
