"""The order service's table. Its schema is `orders`: `order` alone is a word of SQL's own.

One checkout session leads to one order, however often it is asked for: the database sees to it.
"""

from sqlalchemy import BigInteger, CheckConstraint, Column, DateTime, MetaData, Table, Text, func
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(schema="orders")

orders = Table(
    "orders",
    metadata,
    Column("order_id", Text, primary_key=True),
    Column("checkout_session_id", Text, nullable=False, unique=True),
    Column("customer_id", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("total_minor", BigInteger, nullable=False, comment="in the currency's smallest unit"),
    Column("currency", Text, nullable=False),
    Column("lines", JSONB, nullable=False),
    Column("ship_to", JSONB, nullable=False),
    Column("payment_id", Text),
    Column("cancel_reason", Text),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("paid_at", DateTime(timezone=True)),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint("mode IN ('orchestrated', 'choreographed')", name="known_mode"),
    CheckConstraint("status IN ('PENDING_PAYMENT', 'PAID', 'PROCESSING', 'CANCELLED')", name="known_status"),
    # Every step of an order rewrites its row: room on the page lets Postgres do that without touching the indexes.
    postgresql_with={"fillfactor": 70},
)
