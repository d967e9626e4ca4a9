"""The flow service's table and view: every event of a flow, and how far the flow has got.

    SELECT * FROM flow.progress WHERE order_id = '…';
    SELECT at, type, key FROM flow.events WHERE correlation_id = '…' ORDER BY at, position;

Nobody drives a choreographed order, so nobody knows where it stands: it is read off the events it has left behind.
"""

from sqlalchemy import DDL, BigInteger, Column, DateTime, Identity, Index, MetaData, Table, Text, event

metadata = MetaData(schema="flow")

events = Table(
    "events",
    metadata,
    Column("position", BigInteger, Identity(always=True), primary_key=True),
    Column("correlation_id", Text, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("causation_id", Text),
    Column("type", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("at", DateTime(timezone=True), nullable=False, comment="when its publisher made it"),
    Column("order_id", Text),
    Column("mode", Text, comment="who drives the order, where the event says so"),
)
Index("events_of_flow", events.c.correlation_id)
Index("flows_of_order", events.c.order_id)

# A cancelled order has ended when its goods are put back, and the money, if any was taken, is back as well. Publishers
# have clocks of their own: what is equally old is in the order it was read.
PROGRESS = """
CREATE OR REPLACE VIEW flow.progress AS
SELECT correlation_id, order_id, mode, first_type, last_type, started, updated, events,
    CASE
        WHEN cancelled AND (reversed OR NOT captured) AND put_back THEN 'CANCELLED'
        WHEN cancelled THEN 'CANCELLING'
        WHEN confirmed THEN 'CONFIRMED'
        WHEN rejected THEN 'REJECTED'
        WHEN placed THEN 'RUNNING'
        WHEN hold_rejected THEN 'REJECTED'
        WHEN hold_expired THEN 'EXPIRED'
        ELSE 'RUNNING'
    END AS state
FROM (
    SELECT correlation_id,
        max(order_id) AS order_id,
        max(mode) AS mode,
        (array_agg(type ORDER BY at, position))[1] AS first_type,
        (array_agg(type ORDER BY at DESC, position DESC))[1] AS last_type,
        min(at) AS started,
        max(at) AS updated,
        count(*) AS events,
        bool_or(type = 'order.placement_requested') AS placed,
        bool_or(type = 'order.rejected') AS rejected,
        bool_or(type = 'order.confirmed') AS confirmed,
        bool_or(type = 'order.cancelled') AS cancelled,
        bool_or(type = 'payment.captured') AS captured,
        bool_or(type IN ('payment.refunded', 'payment.voided')) AS reversed,
        bool_or(type IN ('stock.released', 'stock.nothing_to_release')) AS put_back,
        bool_or(type = 'stock.hold_rejected') AS hold_rejected,
        bool_or(type = 'stock.hold_expired') AS hold_expired
    FROM flow.events GROUP BY correlation_id
) AS flows
"""
event.listen(metadata, "after_create", DDL(PROGRESS))  # type: ignore[no-untyped-call]  # SQLAlchemy left it so
