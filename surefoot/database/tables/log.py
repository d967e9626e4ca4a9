"""The Postgres event log (`surefoot.log.postgres`): partitions with offsets, and where each group has got to."""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKeyConstraint,
    Integer,
    Interval,
    LargeBinary,
    Table,
    Text,
    text,
)

from surefoot.database.tables.base import metadata

log_topics = Table(
    "log_topics",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("partitions", Integer, nullable=False),
    Column("retention", Interval, nullable=False),
    Column("max_record_bytes", Integer, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    CheckConstraint("partitions > 0", name="log_topics_partitions_positive"),
)

log_partitions = Table(
    "log_partitions",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column(
        "first_offset", BigInteger, nullable=False, server_default=text("0"), comment="older ones are past retention"
    ),
    Column("next_offset", BigInteger, nullable=False, server_default=text("0"), comment="drawn under this row's lock"),
    ForeignKeyConstraint(["topic"], ["surefoot.log_topics.topic"], ondelete="CASCADE"),
    postgresql_with={"fillfactor": 50},
)

log_records = Table(
    "log_records",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("log_offset", BigInteger, primary_key=True, autoincrement=False),
    Column("stored_at", DateTime(timezone=True), nullable=False, server_default=text("clock_timestamp()")),
    Column("key", LargeBinary),
    Column("value", LargeBinary),
    Column("header_names", ARRAY(Text), nullable=False),
    Column("header_values", ARRAY(LargeBinary), nullable=False),
)

log_offsets = Table(
    "log_offsets",
    metadata,
    Column("group_name", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("committed_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    postgresql_with={"fillfactor": 50},
)


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
