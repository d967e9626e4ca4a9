"""Accounts, the operations that were asked for, and the entries they made. Operations and entries are only added."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
    func,
)

metadata = MetaData(schema="ledger")

accounts = Table(
    "accounts",
    metadata,
    Column("account_id", Text, primary_key=True),
    Column("currency", Text, nullable=False),
    Column("balance", BigInteger, nullable=False, server_default="0", comment="minor units"),
    Column("cap", BigInteger, comment="it never holds more; null: no cap"),
    Column("frozen", Boolean, nullable=False, server_default=false()),
    CheckConstraint("balance >= 0", name="accounts_balance"),
    CheckConstraint("balance <= cap", name="accounts_cap"),
)

operations = Table(
    "operations",
    metadata,
    Column("operation_id", Text, primary_key=True),
    Column("source", Text, comment="the account that gives; null for a credit"),
    Column("target", Text, comment="the account that gets; null for a debit"),
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
    Column("account_id", Text, ForeignKey(accounts.c.account_id), nullable=False),
    Column("change", BigInteger, nullable=False, comment="minor units, below zero for what was given"),
    Column("balance_after", BigInteger, nullable=False),
    UniqueConstraint("operation_id", "account_id", name="entries_once"),
    Index("entries_by_account", "account_id", "number"),
)
