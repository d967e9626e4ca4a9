"""Notification's tables: what buyers were told, and whose an order is."""

from sqlalchemy import Column, DateTime, MetaData, Table, Text, UniqueConstraint, func

metadata = MetaData(schema="notification")

messages = Table(
    "messages",
    metadata,
    Column("notification_id", Text, primary_key=True),
    Column("customer_id", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("about", Text, nullable=False, comment="the order or return"),
    Column("sent_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    UniqueConstraint("about", "message", name="told_once"),
)
buyers = Table(
    "buyers",
    metadata,
    Column("order_id", Text, primary_key=True),
    Column("customer_id", Text, nullable=False),
    comment="Whose an order is: its end does not say.",
)
