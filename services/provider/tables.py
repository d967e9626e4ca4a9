"""The provider's own tables, in the schema `provider`: what it charged and gave back, and how it is to misbehave.

Nothing is ever deleted. A charge that was voided before it came has a row as well, without an amount: a tombstone.
"""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    func,
)
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(schema="provider")

charges = Table(
    "charges",
    metadata,
    Column("key", Text, primary_key=True, comment="the caller's idempotency key"),
    Column("charge_id", Text, unique=True, comment="null in a tombstone"),
    Column("order_id", Text),
    Column("amount", BigInteger, comment="minor units; null in a tombstone"),
    Column("currency", Text),
    Column("status", Text, nullable=False),
    Column("reason", Text, comment="why it was declined"),
    Column("refunded", BigInteger, nullable=False, server_default="0"),
    Column("late", Integer, nullable=False, server_default="0", comment="charges refused because it was voided"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    CheckConstraint("status IN ('CAPTURED', 'DECLINED', 'VOIDED')", name="charges_status"),
    CheckConstraint("amount > 0", name="charges_amount"),
    CheckConstraint("refunded BETWEEN 0 AND coalesce(amount, 0)", name="charges_refunded"),
    Index("charges_by_order", "order_id"),
)

refunds = Table(
    "refunds",
    metadata,
    Column("refund_request_id", Text, primary_key=True, comment="the caller's; void:<key> for a void"),
    Column("refund_id", Text, nullable=False, unique=True),
    Column("charge_id", Text, ForeignKey(charges.c.charge_id), nullable=False, index=True),
    Column("amount", BigInteger, nullable=False),
    Column("currency", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    CheckConstraint("amount > 0", name="refunds_amount"),
)

rules = Table(
    "rules",
    metadata,
    Column("number", BigInteger, Identity(always=True), primary_key=True),
    Column("asked", JSONB, nullable=False, comment="as it came in by POST /behaviour"),
)

misbehaved = Table(
    "misbehaved",
    metadata,
    Column("rule", Text, primary_key=True),
    Column("request", Text, primary_key=True, comment="operation and key"),
    Column("times", Integer, nullable=False),
)
