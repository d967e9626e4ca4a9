"""The warehouse's tables: what is there, for whom it is kept, and every move that made it so.

Of each article, `on_hand` pieces are on the shelf; of those some are `held` for checkout sessions and some `reserved`
for orders, and the rest is free. What is `quarantined` is not on the shelf. The database itself refuses a number below
zero and a promise of more than there is. `moves` is only ever added to: its sums are the stock
(`services/checks/stock.py` proves it).
"""

from sqlalchemy import (
    DDL,
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Identity,
    Index,
    MetaData,
    Table,
    Text,
    event,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(schema="warehouse")

stock = Table(
    "stock",
    metadata,
    Column("sku", Text, primary_key=True),
    Column("on_hand", BigInteger, nullable=False, server_default="0"),
    Column("held", BigInteger, nullable=False, server_default="0"),
    Column("reserved", BigInteger, nullable=False, server_default="0"),
    Column("quarantined", BigInteger, nullable=False, server_default="0"),
    CheckConstraint("on_hand >= 0 AND held >= 0 AND reserved >= 0 AND quarantined >= 0", name="never_negative"),
    CheckConstraint("held + reserved <= on_hand", name="never_promised_twice"),
    # Every reservation rewrites its row: room on the page lets Postgres do that without touching the index.
    postgresql_with={"fillfactor": 70},
)
holds = Table(
    "holds",
    metadata,
    Column("checkout_session_id", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("lines", JSONB, nullable=False, comment="[{sku, quantity}], one for each article"),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("order_id", Text, comment="the order that took it, or gave it back"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint("state IN ('HELD', 'TAKEN', 'EXPIRED', 'RELEASED')", name="known_state"),
)
Index("holds_to_expire", holds.c.expires_at, postgresql_where=text("state = 'HELD'"))
reservations = Table(
    "reservations",
    metadata,
    Column("order_id", Text, primary_key=True),
    Column("reservation_id", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("lines", JSONB, nullable=False, comment="[{sku, quantity}], one for each article"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint("state IN ('RESERVED', 'RELEASED', 'SHIPPED')", name="known_state"),
)
returned = Table(
    "returned",
    metadata,
    Column("return_id", Text, primary_key=True),
    Column("place", Text, nullable=False),
    Column("lines", JSONB, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint("place IN ('SHELF', 'QUARANTINE')", name="known_place"),
    comment="Where what came back was put: once, whoever asks again.",
)
inspections = Table(
    "inspections",
    metadata,
    Column("return_id", Text, primary_key=True),
    Column("verdict", Text, nullable=False, comment="a row written beforehand decides what the inspection will find"),
    Column("remark", Text, nullable=False, server_default=""),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint("verdict IN ('APPROVED', 'DAMAGED', 'REJECTED')", name="known_verdict"),
)
moves = Table(
    "moves",
    metadata,
    Column("move_id", BigInteger, Identity(always=True), primary_key=True),
    Column("at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("sku", Text, nullable=False),
    Column("cause", Text, nullable=False),
    Column("reference", Text, nullable=False, comment="the session, order, return or delivery it was for"),
    Column("on_hand", BigInteger, nullable=False, server_default="0", comment="by how much it changed"),
    Column("held", BigInteger, nullable=False, server_default="0"),
    Column("reserved", BigInteger, nullable=False, server_default="0"),
    Column("quarantined", BigInteger, nullable=False, server_default="0"),
    CheckConstraint(
        "cause IN ('received', 'held', 'hold_expired', 'hold_released', 'reserved', 'released', 'shipped', "
        "'restocked', 'quarantined')",
        name="known_cause",
    ),
)


def _after_creation(statement: str) -> None:
    event.listen(metadata, "after_create", DDL(statement))  # type: ignore[no-untyped-call]  # SQLAlchemy left it so


_after_creation("""
CREATE OR REPLACE FUNCTION warehouse.keep_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'warehouse.moves is only ever added to: write a move that sets it right instead.';
END $$
""")
_after_creation("""
CREATE OR REPLACE TRIGGER moves_are_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON warehouse.moves
FOR EACH STATEMENT EXECUTE FUNCTION warehouse.keep_moves()
""")
