"""The returns service's tables: what buyers want to give back, and what they bought, from the order's own events.

The copy of the order is what makes a return answerable here: what may come back, and what it cost.
"""

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, DateTime, Index, MetaData, Table, Text, func
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(schema="returns")

bought = Table(
    "bought",
    metadata,
    Column("order_id", Text, primary_key=True),
    Column("customer_id", Text, nullable=False),
    Column("lines", JSONB, nullable=False, comment="with prices, as ordered"),
    Column(
        "confirmed", Boolean, nullable=False, server_default="false", comment="and shipped: only then can it come back"
    ),
)
returns = Table(
    "returns",
    metadata,
    Column("return_id", Text, primary_key=True),
    Column("order_id", Text, nullable=False),
    Column("customer_id", Text, nullable=False),
    Column("state", Text, nullable=False, server_default="REQUESTED"),
    Column("lines", JSONB, nullable=False, comment="[{sku, quantity}], one for each article"),
    Column("pieces", JSONB, nullable=False, comment="[{sku, price, quantity}]: which of them, by what they have cost"),
    Column("amount_minor", BigInteger, nullable=False, comment="what an approved return gives back"),
    Column("currency", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint("state IN ('REQUESTED', 'ESCALATED', 'FINISHED', 'ABORTED')", name="known_state"),
)
Index("returns_of_order", returns.c.order_id)
