"""The sagas' tables: where each stands, what has happened to it, and when its clock runs out.

People read them with SQL: `saga_instances` and `saga_history` are documented in docs/tables.md, with views for the
common questions.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Identity,
    Index,
    Integer,
    Interval,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ENUM, JSONB

from surefoot.database.tables.base import declare, metadata

SAGA_STATUS = ENUM(
    "RUNNING",
    "COMPENSATING",
    "PAUSED",
    "COMPLETED",
    "COMPENSATED",
    "FAILED",
    "STUCK",
    name="saga_status",
    metadata=metadata,
)

saga_instances = Table(
    "saga_instances",
    metadata,
    Column("saga_id", Uuid, primary_key=True),
    Column("saga_type", Text, nullable=False),
    Column("definition_version", Integer, nullable=False, comment="it ends on the version it began with"),
    Column("entity_id", Text, nullable=False, comment="what it is about: an order, a return"),
    Column("start_event_id", Text, nullable=False),
    Column("correlation_id", Text, nullable=False, comment="the flow it belongs to"),
    Column("status", SAGA_STATUS, nullable=False),
    Column("current_step", Text, comment="whose answer it waits for; null when it has ended"),
    Column("current_direction", Text, comment="do, or undo"),
    Column("reason", Text, comment="a sentence: why it is being undone, or stuck"),
    Column("context", JSONB, nullable=False, comment="what it was started with"),
    Column("standing", JSONB, nullable=False, comment="the steps entered, their states, attempts and results"),
    Column("version", BigInteger, nullable=False, comment="rises with every decision"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("ended_at", DateTime(timezone=True)),
    UniqueConstraint("entity_id", "saga_type", "start_event_id", name="saga_instances_start"),
    # Room on the page for the next standing, so that a decision touches no index.
    postgresql_with={"fillfactor": 60},
)
Index(
    "saga_instances_open",
    saga_instances.c.status,
    saga_instances.c.saga_type,
    postgresql_where=text("ended_at IS NULL"),
)
# For the retention: what ended long ago is found without a look at all the others.
Index("saga_instances_ended", saga_instances.c.ended_at, postgresql_where=text("ended_at IS NOT NULL"))

saga_history = Table(
    "saga_history",
    metadata,
    Column("id", BigInteger, Identity(always=True)),
    Column("saga_id", Uuid, nullable=False),
    Column("at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("kind", Text, nullable=False, comment="STARTED, SENT, DONE, REFUSED, TIMED_OUT, …"),
    Column("step", Text),
    Column("direction", Text),
    Column("attempt", Integer),
    Column("sentence", Text),
    Column("before", SAGA_STATUS, nullable=False),
    Column("after", SAGA_STATUS, nullable=False),
    Column("event_id", Text, comment="the command that was sent, or the event that had this consequence"),
    PrimaryKeyConstraint("saga_id", "id", name="saga_history_pkey"),
)
# A reply names the command it answers; this finds the saga, however late it comes.
Index("saga_history_sent", saga_history.c.event_id, postgresql_where=text("kind = 'SENT'"))
Index("saga_history_by_time", saga_history.c.at, postgresql_using="brin")

saga_timers = Table(
    "saga_timers",
    metadata,
    Column("saga_id", Uuid, primary_key=True),
    Column("step", Text, nullable=False),
    Column("direction", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("kind", Text, nullable=False, comment="timeout, rest or deadline"),
    Column("after", Interval, nullable=False),
    Column("fires_at", DateTime(timezone=True), nullable=False),
    Column("command_id", Uuid, comment="the command whose answer is waited for"),
    postgresql_with={"fillfactor": 70},
)
Index("saga_timers_due", saga_timers.c.fires_at)

saga_definitions = Table(
    "saga_definitions",
    metadata,
    Column("saga_type", Text, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("fingerprint", Text, nullable=False, comment="tells whether a version was changed after it was first used"),
    Column("first_used_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
)

declare("""
CREATE VIEW {schema}.stuck_sagas AS
    SELECT saga_id, saga_type, definition_version, entity_id, current_step, current_direction, reason,
           updated_at AS stuck_since, correlation_id
    FROM {schema}.saga_instances WHERE status = 'STUCK' AND ended_at IS NULL
""")

declare("""
CREATE VIEW {schema}.slow_sagas AS
    SELECT saga_id, saga_type, definition_version, entity_id, status, current_step, current_direction,
           now() - updated_at AS unchanged_for, now() - created_at AS age, correlation_id
    FROM {schema}.saga_instances WHERE ended_at IS NULL AND status IN ('RUNNING', 'COMPENSATING')
    ORDER BY updated_at
""")

declare("""
CREATE VIEW {schema}.sagas_by_step AS
    SELECT saga_type, definition_version, status, current_step, current_direction, count(*) AS sagas,
           min(updated_at) AS longest_unchanged_since
    FROM {schema}.saga_instances WHERE ended_at IS NULL
    GROUP BY saga_type, definition_version, status, current_step, current_direction
""")
