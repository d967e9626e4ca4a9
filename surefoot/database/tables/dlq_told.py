"""What somebody was told of dead letters, so that several services, and one that is started again, tell it once."""

from sqlalchemy import Column, DateTime, PrimaryKeyConstraint, Table, Text, text

from surefoot.database.tables.base import metadata

dlq_told = Table(
    "dlq_told",
    metadata,
    Column("code", Text, nullable=False, comment="the alert"),
    Column("subject", Text, nullable=False, comment="what it was about: a consumer"),
    Column("told_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("up_to", DateTime(timezone=True), comment="letters that died before this were among those told of"),
    PrimaryKeyConstraint("code", "subject", name="dlq_told_pkey"),
)
