"""The dead-letter queue: what consumers gave up on, row by row. Its groups are in `dead_letter_groups`."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ENUM

from surefoot.database.tables.base import metadata

DLQ_STATUS = ENUM(
    "OPEN",
    "REPLAYING",
    "REPLAYED",
    "DISCARD_REQUESTED",
    "DISCARDED",
    "SUPERSEDED",
    name="dlq_status",
    metadata=metadata,
)

dlq_events = Table(
    "dlq_events",
    metadata,
    Column("id", Uuid, primary_key=True, comment="rises with the time it was taken in: pages go by it"),
    Column("consumer", Text, nullable=False, comment="who gave up on it; empty where the letter could not be read"),
    Column("source", Text, nullable=False, comment="as the consumer's inbox has it"),
    Column("event_id", Text, nullable=False, comment="as the consumer's inbox has it"),
    Column("event_type", Text, comment="null where the record is no event"),
    Column("topic", Text, nullable=False, comment="where the event came from"),
    Column("partition", Integer, nullable=False),
    Column("log_offset", BigInteger, nullable=False),
    Column("key", Text, nullable=False, comment="what it is ordered by"),
    Column("correlation_id", Text, comment="the flow it belongs to"),
    Column("saga_id", Text, comment="the saga whose command it is, or that it answers"),
    Column("recorded_at", DateTime(timezone=True), nullable=False, comment="the log's own time of the event"),
    Column("record_key", LargeBinary),
    Column("value", LargeBinary, comment="the record's bytes"),
    Column("headers", JSON, nullable=False, comment="the event's own, in order: [[name, value in Base64], …]"),
    Column("headers_left_out", Integer, nullable=False, server_default=text("0")),
    Column("reason", Text, nullable=False, comment="why it is dead: a word from a fixed list"),
    Column("error_type", Text, nullable=False),
    Column("error", Text, nullable=False, comment="a sentence"),
    Column("stack", Text, nullable=False, server_default=text("''")),
    Column("fingerprint", Text, nullable=False, comment="the same for failures that have one cause"),
    Column("failures", JSON, nullable=False, server_default=text("'[]'"), comment="the latest: [[time, error], …]"),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("replays", Integer, nullable=False, server_default=text("0"), comment="as the consumer counts them"),
    Column("deaths", Integer, nullable=False, server_default=text("1"), comment="letters that came for it"),
    Column("held", Boolean, nullable=False, comment="later events of its key wait for it"),
    Column("letter_id", Text, nullable=False, comment="the latest letter"),
    Column("first_failed_at", DateTime(timezone=True), nullable=False),
    Column("failed_at", DateTime(timezone=True), nullable=False, comment="when it died last"),
    Column("received_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("status", DLQ_STATUS, nullable=False, server_default=text("'OPEN'")),
    Column("job_id", Uuid, comment="the job that has it in hand, or had it last"),
    Column("resolution", Text, comment="a sentence: what became of it, who decided it and why"),
    Column("resolved_at", DateTime(timezone=True)),
    Column("superseded_by", Text, comment="the id of the edited event"),
    UniqueConstraint("event_id", "consumer", "source", name="dlq_events_event"),
    postgresql_with={"fillfactor": 90},
)
# The two ways through a group: as letters were taken in, and as they failed.
Index("dlq_events_by_group", dlq_events.c.fingerprint, dlq_events.c.status, dlq_events.c.id)
Index(
    "dlq_events_by_group_time",
    dlq_events.c.fingerprint,
    dlq_events.c.status,
    dlq_events.c.failed_at,
    dlq_events.c.id,
)
Index("dlq_events_by_consumer", dlq_events.c.consumer, dlq_events.c.status, dlq_events.c.id)
Index("dlq_events_by_status", dlq_events.c.status, dlq_events.c.id)
Index("dlq_events_by_type", dlq_events.c.event_type, dlq_events.c.id)
Index("dlq_events_by_key", dlq_events.c.key, dlq_events.c.id)
Index("dlq_events_by_time", dlq_events.c.failed_at, dlq_events.c.id)
Index(
    "dlq_events_by_flow",
    dlq_events.c.correlation_id,
    dlq_events.c.id,
    postgresql_where=text("correlation_id IS NOT NULL"),
)
Index("dlq_events_by_saga", dlq_events.c.saga_id, dlq_events.c.id, postgresql_where=text("saga_id IS NOT NULL"))
Index("dlq_events_resolved", dlq_events.c.resolved_at, postgresql_where=text("resolved_at IS NOT NULL"))
