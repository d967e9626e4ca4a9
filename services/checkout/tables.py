"""Checkout's table: a session, the goods it holds, and the one order it can lead to.

The order's id is minted with the session, so two clicks on "buy" ask for the same order.
"""

from sqlalchemy import BigInteger, CheckConstraint, Column, DateTime, Integer, MetaData, Table, Text, func
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(schema="checkout")

sessions = Table(
    "sessions",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("order_id", Text, nullable=False, unique=True),
    Column("customer_id", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("lines", JSONB, nullable=False),
    Column("total_minor", BigInteger, nullable=False, comment="in the currency's smallest unit"),
    Column("currency", Text, nullable=False),
    Column("ship_to", JSONB, nullable=False),
    Column("hold_s", Integer, nullable=False),
    Column("expires_at", DateTime(timezone=True), comment="until when the warehouse holds the goods"),
    Column("rejected_because", Text),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("placed_at", DateTime(timezone=True)),
    CheckConstraint("mode IN ('orchestrated', 'choreographed')", name="known_mode"),
    CheckConstraint("state IN ('HOLDING', 'HELD', 'PLACED', 'REJECTED', 'EXPIRED')", name="known_state"),
    postgresql_with={"fillfactor": 70},
)
