"""The dead-letter queue: what consumers gave up on, row by row, and grouped by what they have in common.

The counts of a group are kept by a trigger, whoever changes a row: a page of groups reads as many rows as it shows.
"""

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

from surefoot.database.tables.base import declare, metadata

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
Index("dlq_events_by_group", dlq_events.c.fingerprint, dlq_events.c.status, dlq_events.c.id)
Index("dlq_events_by_consumer", dlq_events.c.consumer, dlq_events.c.status, dlq_events.c.id)
Index("dlq_events_by_status", dlq_events.c.status, dlq_events.c.id)
Index("dlq_events_by_type", dlq_events.c.event_type, dlq_events.c.id)
Index("dlq_events_by_key", dlq_events.c.key, dlq_events.c.id)
Index("dlq_events_by_time", dlq_events.c.failed_at)
Index(
    "dlq_events_by_flow",
    dlq_events.c.correlation_id,
    dlq_events.c.id,
    postgresql_where=text("correlation_id IS NOT NULL"),
)
Index("dlq_events_by_saga", dlq_events.c.saga_id, dlq_events.c.id, postgresql_where=text("saga_id IS NOT NULL"))
Index("dlq_events_resolved", dlq_events.c.resolved_at, postgresql_where=text("resolved_at IS NOT NULL"))

dlq_groups = Table(
    "dlq_groups",
    metadata,
    Column("fingerprint", Text, primary_key=True),
    Column("consumer", Text, nullable=False),
    Column("event_type", Text),
    Column("reason", Text, nullable=False),
    Column("error_type", Text, nullable=False),
    Column("sentence", Text, nullable=False, comment="the latest error"),
    Column("first_at", DateTime(timezone=True), nullable=False),
    Column("last_at", DateTime(timezone=True), nullable=False),
    Column("open", BigInteger, nullable=False, server_default=text("0")),
    Column("replaying", BigInteger, nullable=False, server_default=text("0")),
    Column("replayed", BigInteger, nullable=False, server_default=text("0")),
    Column("discard_requested", BigInteger, nullable=False, server_default=text("0")),
    Column("discarded", BigInteger, nullable=False, server_default=text("0")),
    Column("superseded", BigInteger, nullable=False, server_default=text("0")),
    Column("told_at", DateTime(timezone=True), comment="when somebody was told that it is there"),
    postgresql_with={"fillfactor": 50},
)
# Pages of groups go by when each began, which never changes.
Index("dlq_groups_by_time", dlq_groups.c.first_at, dlq_groups.c.fingerprint)
Index("dlq_groups_untold", dlq_groups.c.first_at, postgresql_where=text("told_at IS NULL"))

# Statement by statement, in the order of the fingerprints: two that change the same groups wait, and do not deadlock.
declare("""
CREATE FUNCTION {schema}.count_dead_letters() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
    IF TG_OP IN ('INSERT', 'UPDATE') THEN
        INSERT INTO {schema}.dlq_groups AS g (fingerprint, consumer, event_type, reason, error_type, sentence, first_at,
            last_at)
        SELECT DISTINCT ON (n.fingerprint) n.fingerprint, n.consumer, n.event_type, n.reason, n.error_type, n.error,
            n.first_failed_at, n.failed_at
        FROM after_it n ORDER BY n.fingerprint, n.failed_at DESC
        ON CONFLICT (fingerprint) DO UPDATE SET
            sentence = CASE WHEN excluded.last_at > g.last_at THEN excluded.sentence ELSE g.sentence END,
            last_at = greatest(g.last_at, excluded.last_at)
        WHERE excluded.last_at > g.last_at;
    END IF;
    IF TG_OP = 'INSERT' THEN
        PERFORM {schema}.add_to_groups(array_agg(x.fingerprint), array_agg(x.status), array_agg(x.many)) FROM (
            SELECT n.fingerprint, n.status::text AS status, count(*) AS many FROM after_it n GROUP BY 1, 2) x;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM {schema}.add_to_groups(array_agg(x.fingerprint), array_agg(x.status), array_agg(x.many)) FROM (
            SELECT o.fingerprint, o.status::text AS status, -count(*) AS many FROM before_it o GROUP BY 1, 2) x;
    ELSE
        PERFORM {schema}.add_to_groups(array_agg(x.fingerprint), array_agg(x.status), array_agg(x.many)) FROM (
            SELECT c.fingerprint, c.status, sum(c.many) AS many FROM (
                SELECT n.fingerprint, n.status::text AS status, 1 AS many FROM after_it n
                UNION ALL SELECT o.fingerprint, o.status::text, -1 FROM before_it o) c
            GROUP BY 1, 2 HAVING sum(c.many) <> 0) x;
    END IF;
    RETURN NULL;
END
$function$
""")
declare("""
CREATE FUNCTION {schema}.add_to_groups(fingerprints text[], statuses text[], many bigint[]) RETURNS void
LANGUAGE sql AS $function$
    UPDATE {schema}.dlq_groups g SET open = g.open + d.open, replaying = g.replaying + d.replaying,
        replayed = g.replayed + d.replayed, discard_requested = g.discard_requested + d.discard_requested,
        discarded = g.discarded + d.discarded, superseded = g.superseded + d.superseded
    FROM (SELECT l.fingerprint,
            coalesce(sum(c.many) FILTER (WHERE c.status = 'OPEN'), 0) AS open,
            coalesce(sum(c.many) FILTER (WHERE c.status = 'REPLAYING'), 0) AS replaying,
            coalesce(sum(c.many) FILTER (WHERE c.status = 'REPLAYED'), 0) AS replayed,
            coalesce(sum(c.many) FILTER (WHERE c.status = 'DISCARD_REQUESTED'), 0) AS discard_requested,
            coalesce(sum(c.many) FILTER (WHERE c.status = 'DISCARDED'), 0) AS discarded,
            coalesce(sum(c.many) FILTER (WHERE c.status = 'SUPERSEDED'), 0) AS superseded
          FROM (SELECT k.fingerprint FROM {schema}.dlq_groups k WHERE k.fingerprint = ANY (fingerprints)
                ORDER BY k.fingerprint FOR UPDATE) l
          JOIN unnest(fingerprints, statuses, many) AS c(fingerprint, status, many) ON c.fingerprint = l.fingerprint
          GROUP BY l.fingerprint) d
    WHERE g.fingerprint = d.fingerprint
$function$
""")
declare("""
CREATE TRIGGER count_inserted AFTER INSERT ON {schema}.dlq_events
    REFERENCING NEW TABLE AS after_it FOR EACH STATEMENT EXECUTE FUNCTION {schema}.count_dead_letters()
""")
declare("""
CREATE TRIGGER count_updated AFTER UPDATE ON {schema}.dlq_events
    REFERENCING OLD TABLE AS before_it NEW TABLE AS after_it FOR EACH STATEMENT
    EXECUTE FUNCTION {schema}.count_dead_letters()
""")
declare("""
CREATE TRIGGER count_deleted AFTER DELETE ON {schema}.dlq_events
    REFERENCING OLD TABLE AS before_it FOR EACH STATEMENT EXECUTE FUNCTION {schema}.count_dead_letters()
""")
