"""Who owns which shard or partition (`surefoot.database.leases`)."""

from sqlalchemy import BigInteger, Boolean, Column, DateTime, Integer, Table, Text, text

from surefoot.database.tables.base import metadata

leases = Table(
    "leases",
    metadata,
    Column("scope", Text, primary_key=True, comment="what is shared out: 'outbox', or 'log/<group>/<topic>'"),
    Column("unit", Integer, primary_key=True, autoincrement=False, comment="the shard or partition"),
    Column("owner", Text, comment="the member that owns it; null if nobody does"),
    Column("fence", BigInteger, nullable=False, server_default=text("0"), comment="rises with every owner"),
    Column("lease_until", DateTime(timezone=True), nullable=False, server_default=text("'-infinity'::timestamptz")),
    Column("taken_at", DateTime(timezone=True), comment="when this owner took it"),
    # A hot, tiny table that is updated in place: leave room on the page for that.
    postgresql_with={"fillfactor": 50},
)

lease_members = Table(
    "lease_members",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("member", Text, primary_key=True),
    Column("started_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("alive_until", DateTime(timezone=True), nullable=False),
    Column("asleep", Boolean, nullable=False, server_default=text("false"), comment="wants a notification to wake up"),
    postgresql_with={"fillfactor": 50},
)
