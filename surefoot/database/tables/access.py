"""Who may use the admin service, and which of their requests were answered already."""

from sqlalchemy import Column, DateTime, Index, Integer, LargeBinary, PrimaryKeyConstraint, Table, Text, Uuid, text

from surefoot.database.tables.base import metadata

admin_tokens = Table(
    "admin_tokens",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("person", Text, nullable=False),
    Column("role", Text, nullable=False, comment="VIEWER, OPERATOR, ADMIN or SUPER_ADMIN"),
    Column("token_hash", LargeBinary, nullable=False, unique=True, comment="SHA-256; the token itself is nowhere"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("revoked_at", DateTime(timezone=True)),
)

admin_requests = Table(
    "admin_requests",
    metadata,
    Column("person", Text, nullable=False),
    Column("key", Text, nullable=False, comment="the Idempotency-Key"),
    Column("fingerprint", LargeBinary, nullable=False, comment="SHA-256 of method, path and body"),
    Column("status", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("answered_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    PrimaryKeyConstraint("person", "key", name="admin_requests_pkey"),
)
Index("admin_requests_by_time", admin_requests.c.answered_at)
