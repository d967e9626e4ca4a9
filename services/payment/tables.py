"""The payment service's tables: one payment for each order, and what was given back of it.

Amounts are whole numbers of the currency's minor unit. The database itself refuses to give back more than was taken.
"""

from sqlalchemy import BigInteger, CheckConstraint, Column, DateTime, ForeignKey, MetaData, Table, Text, func

metadata = MetaData(schema="payments")

payments = Table(
    "payments",
    metadata,
    Column("payment_id", Text, primary_key=True),
    Column("order_id", Text, nullable=False, unique=True),
    Column("amount", BigInteger, nullable=False),
    Column("currency", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("refunded", BigInteger, nullable=False, server_default="0"),
    Column("gateway", Text, nullable=False),
    Column("provider_key", Text, nullable=False, unique=True, comment="what the charge is asked for, and voided, with"),
    Column("charge_id", Text, unique=True, comment="the provider's own name for the charge"),
    Column("reason", Text, comment="why it was declined"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    CheckConstraint(
        "status IN ('PENDING', 'CAPTURED', 'DECLINED', 'VOIDED', 'REFUNDED')",
        name="payments_status",
    ),
    CheckConstraint("amount > 0", name="payments_amount"),
    CheckConstraint("refunded BETWEEN 0 AND amount", name="payments_refunded"),
    comment="PENDING: asked for, not answered. VOIDED: never taken. REFUNDED: taken, and all of it given back.",
)

refunds = Table(
    "refunds",
    metadata,
    Column("refund_request_id", Text, primary_key=True),
    Column("payment_id", Text, ForeignKey(payments.c.payment_id), nullable=False, index=True),
    Column("return_id", Text),
    Column("amount", BigInteger, nullable=False),
    Column("currency", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("refund_id", Text, comment="the provider's own name for it"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    CheckConstraint("status IN ('PENDING', 'REFUNDED')", name="refunds_status"),
    CheckConstraint("amount > 0", name="refunds_amount"),
)
