"""What operators have decided about dead letters: jobs over a frozen set, discards that wait for a second person."""

from sqlalchemy import (
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ENUM

from surefoot.database.tables.base import metadata

JOB_KIND = ENUM("replay", "discard", "supersede", "inspect", name="dlq_job_kind", metadata=metadata)
JOB_STATUS = ENUM("RUNNING", "PAUSED", "CANCELLING", "CANCELLED", "DONE", name="dlq_job_status", metadata=metadata)
ITEM_STATE = ENUM("PENDING", "SENT", "ANSWERED", "CANCELLED", name="dlq_item_state", metadata=metadata)
APPROVAL_STATUS = ENUM("WAITING", "APPROVED", "REFUSED", "EXPIRED", name="dlq_approval_status", metadata=metadata)

dlq_jobs = Table(
    "dlq_jobs",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("kind", JOB_KIND, nullable=False, comment="what the control records say; inspect is a dry run"),
    Column("status", JOB_STATUS, nullable=False, server_default=text("'RUNNING'")),
    Column("asked", JSON, nullable=False, comment="the filter or the ids it was asked for by"),
    Column("reason", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("total", Integer, nullable=False, comment="events in its set, which never changes"),
    Column("canary", Integer, nullable=False, server_default=text("0"), comment="so many first, and all must go well"),
    Column("rate", Double, comment="control records a second, at most; null for as fast as they are answered"),
    Column("stop_on_error_rate", Double, comment="it pauses when more than this share of the answers are failures"),
    Column("note", Text, comment="a sentence: why it is paused, or how it ended"),
    Column("allowance", Double, nullable=False, server_default=text("0"), comment="what the rate has left to send"),
    Column("looked_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column(
        "counted_from", DateTime(timezone=True), comment="set once it paused by itself: earlier answers do not count"
    ),
    Column("ended_at", DateTime(timezone=True)),
    Column("approval_id", Uuid, comment="the approval that a discard is carried out by"),
    CheckConstraint("(ended_at IS NULL) = (status NOT IN ('CANCELLED', 'DONE'))", name="dlq_jobs_ended"),
    postgresql_with={"fillfactor": 70},
)
Index("dlq_jobs_under_way", dlq_jobs.c.id, postgresql_where=text("ended_at IS NULL"))
Index("dlq_jobs_by_person", dlq_jobs.c.created_by, dlq_jobs.c.id)

dlq_job_items = Table(
    "dlq_job_items",
    metadata,
    Column("job_id", Uuid, nullable=False),
    Column("number", Integer, nullable=False, comment="the order of the log, partition by partition"),
    Column("dlq_id", Uuid, nullable=False),
    Column("lane", Text, nullable=False, comment="consumer, topic, partition and key: one at a time in each"),
    Column("control_id", Uuid, nullable=False, comment="the same whenever it is sent"),
    Column("replacement", JSON, comment="the edited record of a supersede"),
    Column("state", ITEM_STATE, nullable=False, server_default=text("'PENDING'")),
    Column("sent_at", DateTime(timezone=True), comment="when it was sent last; written before it is sent"),
    Column("sends", Integer, nullable=False, server_default=text("0")),
    Column("answer", Text, comment="what the consumer said, in a word"),
    Column("sentence", Text),
    Column("waiting_behind", Integer),
    Column("past_retention", Boolean),
    Column("answered_at", DateTime(timezone=True)),
    PrimaryKeyConstraint("job_id", "number", name="dlq_job_items_pkey"),
    postgresql_with={"fillfactor": 70},
)
Index("dlq_job_items_control", dlq_job_items.c.control_id, unique=True)
Index("dlq_job_items_event", dlq_job_items.c.dlq_id)
Index(
    "dlq_job_items_open",
    dlq_job_items.c.job_id,
    dlq_job_items.c.state,
    dlq_job_items.c.number,
    postgresql_where=text("state IN ('PENDING', 'SENT')"),
)

dlq_approvals = Table(
    "dlq_approvals",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("status", APPROVAL_STATUS, nullable=False, server_default=text("'WAITING'")),
    Column("reason", Text, nullable=False),
    Column("requested_by", Text, nullable=False),
    Column("requested_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("total", Integer, nullable=False),
    Column("set_hash", Text, nullable=False, comment="SHA-256 over the set as the requester saw it"),
    Column("decided_by", Text),
    Column("decided_at", DateTime(timezone=True)),
    Column("decision", Text, comment="what the second person said"),
    Column("job_id", Uuid, comment="the job that carries it out"),
    CheckConstraint("decided_by IS NULL OR decided_by <> requested_by", name="dlq_approvals_two_people"),
)
Index("dlq_approvals_waiting", dlq_approvals.c.expires_at, postgresql_where=text("status = 'WAITING'"))

dlq_approval_items = Table(
    "dlq_approval_items",
    metadata,
    Column("approval_id", Uuid, nullable=False),
    Column("dlq_id", Uuid, nullable=False),
    PrimaryKeyConstraint("approval_id", "dlq_id", name="dlq_approval_items_pkey"),
)
Index("dlq_approval_items_event", dlq_approval_items.c.dlq_id)


dlq_told = Table(
    "dlq_told",
    metadata,
    Column("code", Text, nullable=False, comment="the alert"),
    Column("subject", Text, nullable=False, comment="what it was about: a consumer"),
    Column("told_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("up_to", DateTime(timezone=True), comment="letters that died before this were among those told of"),
    PrimaryKeyConstraint("code", "subject", name="dlq_told_pkey"),
)
