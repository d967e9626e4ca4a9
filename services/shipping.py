"""The shipping service's tables; which carrier goes where, and which parcels none of them fetches."""

from sqlalchemy import CheckConstraint, Column, DateTime, MetaData, Table, Text, func
from sqlalchemy.dialects.postgresql import JSONB

from schemas.parts import Address
from schemas.shipping import LabelRefusal

metadata = MetaData(schema="shipping")

shipments = Table(
    "shipments",
    metadata,
    Column("order_id", Text, primary_key=True, comment="an order is shipped once"),
    Column("shipment_id", Text, nullable=False),
    Column("carrier", Text, nullable=False),
    Column("lines", JSONB, nullable=False),
    Column("ship_to", JSONB, nullable=False),
    Column("requested_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
)
labels = Table(
    "labels",
    metadata,
    Column("return_id", Text, primary_key=True),
    Column("order_id", Text, nullable=False),
    Column("carrier", Text, nullable=False),
    Column("tracking_code", Text, nullable=False),
    Column("state", Text, nullable=False, server_default="CREATED"),
    Column("correlation_id", Text, comment="of the flow that asked for it; the pickup belongs to it"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("picked_up_at", DateTime(timezone=True)),
    CheckConstraint("state IN ('CREATED', 'CANCELLED', 'PICKED_UP')", name="known_state"),
)
parcels_back = Table(
    "parcels_back",
    metadata,
    Column("return_id", Text, primary_key=True, comment="what was not accepted goes back once"),
    Column("order_id", Text, nullable=False),
    Column("shipment_id", Text, nullable=False),
    Column("lines", JSONB, nullable=False),
    Column("ship_to", JSONB, nullable=False),
    Column("requested_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
)


NEAR = frozenset({"AT", "BE", "CH", "CZ", "DE", "DK", "ES", "FI", "FR", "IE", "IT", "LU", "NL", "NO", "PL", "PT", "SE"})
FAR = frozenset({"AU", "CA", "GB", "JP", "NZ", "US"})


def carrier_to(address: Address) -> str:
    """Parcels go everywhere; what is not near goes by air."""
    return "post" if address.country in NEAR else "air-freight"


def refusal_of(ship_from: Address) -> LabelRefusal | None:
    """Why no carrier fetches a parcel there; None if one does."""
    return None if ship_from.country in NEAR | FAR else "address_not_served"
