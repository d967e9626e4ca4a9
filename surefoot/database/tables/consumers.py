"""The consumers' tables: what was handled, how far each partition has got, what waits its turn, what was answered."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ENUM
from sqlalchemy.types import UserDefinedType

from surefoot.database.tables.base import declare, metadata


class XID8(UserDefinedType[str]):
    """The number of a transaction, as pg_current_xact_id() gives it."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "XID8"


OUTCOME = ENUM(
    "PROCESSED", "PARKED", "DEAD", "DISCARDED", "SUPERSEDED", "BARRED", name="inbox_outcome", metadata=metadata
)
PARKED_STATE = ENUM("WAITING", "DUE", "CALLING", "DEAD", name="parked_state", metadata=metadata)

processed_events = Table(
    "processed_events",
    metadata,
    Column("consumer", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("outcome", OUTCOME, nullable=False),
    Column("processed_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("decision", Text, comment="who discarded or superseded it, and why"),
    # The id first: consumers and sources repeat from row to row, and comparing them first costs every insert.
    PrimaryKeyConstraint("event_id", "consumer", "source", name="processed_events_pkey"),
    # Room on the page for a later change of the outcome.
    postgresql_with={"fillfactor": 95},
)
# Rows come in the order of time, so a few summary pages find the old ones; a tree would cost every insert.
Index("processed_events_by_time", processed_events.c.processed_at, postgresql_using="brin")

consumer_partitions = Table(
    "consumer_partitions",
    metadata,
    Column("consumer", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("owner", Text, comment="the member that took it last"),
    Column("fence", BigInteger, nullable=False, server_default=text("0"), comment="rises with every owner"),
    Column("next_offset", BigInteger, comment="where work goes on; null before the first batch"),
    Column("ignored", BigInteger, nullable=False, server_default=text("0"), comment="records without a handler"),
    Column("taken_at", DateTime(timezone=True)),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    postgresql_with={"fillfactor": 50},
)

# A batch puts its transaction in here when it begins and takes it out with its fence. The trigger below looks when the
# transaction is committed, by whomever: if it is still there, a handler has committed, and all of it is undone. (Nobody
# ever sees a row.)
open_batches = Table(
    "open_batches",
    metadata,
    Column("xid", XID8, primary_key=True),
    postgresql_with={"autovacuum_vacuum_scale_factor": 0, "autovacuum_vacuum_threshold": 1000},
)
declare("""
CREATE FUNCTION {schema}.refuse_open_batch() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
    IF EXISTS (SELECT FROM {schema}.open_batches b WHERE b.xid = NEW.xid) THEN
        RAISE EXCEPTION '%', 'a handler tried to commit the transaction of its batch, which only its consumer may do; '
            'if it was SET CONSTRAINTS ALL IMMEDIATE, it has to name its own constraints instead of ALL';
    END IF;
    RETURN NULL;
END
$function$
""")
declare("""
CREATE CONSTRAINT TRIGGER refuse_open_batch AFTER INSERT ON {schema}.open_batches
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.refuse_open_batch()
""")

parked_events = Table(
    "parked_events",
    metadata,
    Column("consumer", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("log_offset", BigInteger, primary_key=True),
    Column("key", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("event_type", Text, comment="null where the record is no event"),
    Column("state", PARKED_STATE, nullable=False),
    Column("holds", Boolean, nullable=False, server_default=text("true"), comment="later events of its key wait"),
    Column("attempts", SmallInteger, nullable=False, server_default=text("0")),
    Column("replays", SmallInteger, nullable=False, server_default=text("0")),
    Column("next_attempt_at", DateTime(timezone=True)),
    Column("reason", Text, comment="why it is dead: a word from a fixed list"),
    Column("last_error", Text, comment="a sentence"),
    Column("fingerprint", Text, comment="the same for failures that have one cause"),
    Column("failures", JSON, nullable=False, server_default=text("'[]'"), comment="the latest: [[time, error], …]"),
    Column("record_key", LargeBinary),
    Column("value", LargeBinary, comment="the record's bytes as they were read"),
    Column("headers", JSON, nullable=False, comment="in order: [[name, value in Base64], …]"),
    Column("recorded_at", DateTime(timezone=True), nullable=False, comment="the log's own time of the record"),
    Column("parked_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("dead_at", DateTime(timezone=True)),
    Column("prepared", JSON, comment="what the outside call was given"),
    Column("control_id", Text, comment="what asked for the attempt under way: action:id"),
    CheckConstraint("state IN ('WAITING', 'DEAD') OR next_attempt_at IS NOT NULL", name="parked_events_attempt"),
    CheckConstraint("state <> 'DEAD' OR (reason IS NOT NULL AND dead_at IS NOT NULL)", name="parked_events_dead"),
)
Index("parked_events_event", parked_events.c.event_id, parked_events.c.consumer, parked_events.c.source, unique=True)
Index(
    "parked_events_by_key",
    parked_events.c.consumer,
    parked_events.c.topic,
    parked_events.c.partition,
    parked_events.c.key,
    parked_events.c.log_offset,
    postgresql_where=text("holds"),
)
Index(
    "parked_events_due",
    parked_events.c.consumer,
    parked_events.c.topic,
    parked_events.c.partition,
    parked_events.c.next_attempt_at,
    postgresql_where=text("state IN ('DUE', 'CALLING')"),
)

command_barriers = Table(
    "command_barriers",
    metadata,
    Column("saga_id", Text, primary_key=True),
    Column("step", Text, primary_key=True),
    Column("direction", Text, primary_key=True, comment="do or undo"),
    Column("consumer", Text, nullable=False),
    Column("barred", Boolean, nullable=False, server_default=text("false"), comment="its undo came first"),
    Column("reply_type", Text, comment="null for a command without a reply, and for a barred one"),
    Column("reply_version", Integer),
    Column("reply_topic", Text),
    Column("reply_source", Text),
    Column("reply_key", Text),
    Column("reply", LargeBinary, comment="the JSON of the reply's data"),
    Column("settled_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    CheckConstraint("direction IN ('do', 'undo')", name="command_barriers_direction"),
)
Index("command_barriers_by_time", command_barriers.c.settled_at, postgresql_using="brin")

declare("""
CREATE VIEW {schema}.parked_keys AS
    SELECT DISTINCT ON (p.consumer, p.topic, p.partition, p.key)
           p.consumer, p.topic, p.partition, p.key, p.state, p.event_id, p.event_type, p.attempts, p.next_attempt_at,
           p.reason, p.last_error, p.parked_at,
           count(*) OVER (PARTITION BY p.consumer, p.topic, p.partition, p.key) - 1 AS waiting_behind
    FROM {schema}.parked_events p WHERE p.holds
    ORDER BY p.consumer, p.topic, p.partition, p.key, p.log_offset
""")
