"""The payment service's tables: one payment for each order, and what was given back of it; charges made over HTTP, and
what the gateway said of them.

Amounts are whole numbers of the currency's minor unit. The database itself refuses to give back more than was taken.
"""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)

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

charges = Table(
    "charges",
    metadata,
    Column("charge_id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("currency", Text, nullable=False),
    Column("status", Text, nullable=False, server_default="PENDING"),
    Column("gateway", Text, nullable=False),
    Column("provider_key", Text, nullable=False, unique=True, comment="what the charge is asked for with"),
    Column("gateway_txn_id", Text, unique=True, comment="the gateway's own name for the charge, once it is known"),
    Column("reason", Text, comment="why it was declined or voided"),
    Column("refunded", BigInteger, nullable=False, server_default="0", comment="all that was given back so far"),
    Column("description", Text),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    CheckConstraint(
        "status IN ('PENDING', 'AUTHORIZED', 'CAPTURED', 'DECLINED', 'VOIDED', 'REFUNDED')",
        name="charges_status",
    ),
    CheckConstraint("amount > 0", name="charges_amount"),
    CheckConstraint("refunded BETWEEN 0 AND amount", name="charges_refunded"),
    comment="States only move forward: PENDING, AUTHORIZED, CAPTURED, REFUNDED; DECLINED and VOIDED end it.",
)

charge_refunds = Table(
    "charge_refunds",
    metadata,
    Column("refund_id", Text, primary_key=True, comment="ours, and the gateway's name for the request"),
    Column("charge_id", Text, ForeignKey(charges.c.charge_id), nullable=False, index=True),
    Column("tenant", Text, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("currency", Text, nullable=False),
    Column("status", Text, nullable=False, server_default="PENDING"),
    Column("gateway_refund_id", Text, comment="the gateway's own name for it, once it is known"),
    Column("reason", Text, comment="why the gateway refused it"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    CheckConstraint("status IN ('PENDING', 'REFUNDED', 'REFUSED')", name="charge_refunds_status"),
    CheckConstraint("amount > 0", name="charge_refunds_amount"),
)

payment_events = Table(
    "payment_events",
    metadata,
    Column("gateway", Text, nullable=False),
    Column("event_id", Text, nullable=False, comment="the gateway's own name for the event; the same on every resend"),
    Column("gateway_txn_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("charge_id", Text, comment="ours, if the gateway gave it back or the charge was found by gateway_txn_id"),
    Column("amount", BigInteger, nullable=False),
    Column("currency", Text, nullable=False),
    Column(
        "given_back",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="payment.refunded: the total so far, so that each part of a refund is news; 0 for all others",
    ),
    Column("reason", Text, comment="why it was declined or voided, as the gateway says it"),
    Column("state", Text, nullable=False),
    Column("note", Text, comment="a sentence: why it was not applied"),
    Column("happened_at", DateTime(timezone=True), nullable=False, comment="by the gateway's clock"),
    Column("received_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("settled_at", DateTime(timezone=True), comment="when it stopped being UNMATCHED"),
    PrimaryKeyConstraint("gateway", "event_id"),
    UniqueConstraint("gateway_txn_id", "kind", "given_back", name="payment_events_news"),
    CheckConstraint("state IN ('UNMATCHED', 'APPLIED', 'LATE', 'CONTRADICTED')", name="payment_events_state"),
    # Those kept may be many, if the gateway speaks of charges that are not ours: each is found by a name of its own.
    Index("payment_events_unmatched_charge", "charge_id", postgresql_where=text("state = 'UNMATCHED'")),
    Index("payment_events_unmatched_txn", "gateway_txn_id", postgresql_where=text("state = 'UNMATCHED'")),
    comment="UNMATCHED: kept until its charge appears. LATE: the charge was as far already. CONTRADICTED: for people.",
)
