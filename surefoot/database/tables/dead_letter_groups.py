"""The groups of dead letters: what has one cause, with its counts, so that a page reads as many rows as it shows.

The counts are kept by triggers, whoever changes a letter. Each statement notes what it changed; when the transaction is
committed its notes are added up and the groups changed in the order of their fingerprints. So a group is locked for the
moment of the commit, and two transactions that change the same groups in any order wait for each other, and do not
deadlock. In the transaction itself the counts are those from before it.
"""

from sqlalchemy import BigInteger, Boolean, Column, DateTime, Index, Integer, Table, Text, text

from surefoot.database.tables.base import declare, metadata
from surefoot.database.tables.consumers import XID8
from surefoot.database.tables.dead_letters import DLQ_STATUS

dlq_groups = Table(
    "dlq_groups",
    metadata,
    Column("fingerprint", Text, primary_key=True),
    Column("consumer", Text, nullable=False),
    Column("event_type", Text),
    Column("reason", Text, nullable=False, comment="of the latest"),
    Column("mixed", Boolean, nullable=False, comment="its letters differ in consumer, type, reason or error"),
    Column("error_type", Text, nullable=False),
    Column("sentence", Text, nullable=False, comment="the latest error"),
    Column("first_at", DateTime(timezone=True), nullable=False, comment="never changes: pages go by it"),
    Column("oldest_at", DateTime(timezone=True), nullable=False, comment="before first_at if a letter came late"),
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
Index("dlq_groups_by_time", dlq_groups.c.first_at, dlq_groups.c.fingerprint)
Index("dlq_groups_untold", dlq_groups.c.first_at, postgresql_where=text("told_at IS NULL"))

# What the statements of a transaction have changed, until it is committed: nobody else ever sees a row. (So they need
# not survive a crash either.)
dlq_group_changes = Table(
    "dlq_group_changes",
    metadata,
    Column("xid", XID8, nullable=False),
    Column("number", Integer, nullable=False, comment="among those of one statement"),
    Column("fingerprint", Text, nullable=False),
    Column("status", DLQ_STATUS, nullable=False),
    Column("many", BigInteger, nullable=False, comment="so many more letters, or fewer"),
    Column("consumer", Text, nullable=False),
    Column("event_type", Text),
    Column("reason", Text, nullable=False),
    Column("mixed", Boolean, nullable=False),
    Column("error_type", Text, nullable=False),
    Column("sentence", Text, nullable=False),
    Column("first_at", DateTime(timezone=True), nullable=False),
    Column("last_at", DateTime(timezone=True), nullable=False),
    prefixes=["UNLOGGED"],
    postgresql_with={"autovacuum_vacuum_scale_factor": 0, "autovacuum_vacuum_threshold": 1000},
)
Index("dlq_group_changes_xid", dlq_group_changes.c.xid)

# One note for each group and status that a statement has changed, with the latest of its letters. A change that is
# neither to be counted nor to be told (a letter gets its job) leaves none.
_NOTE = """
CREATE FUNCTION {{schema}}.note_{what}_letters() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
    INSERT INTO {{schema}}.dlq_group_changes (xid, number, fingerprint, status, many, consumer, event_type, reason,
        mixed, error_type, sentence, first_at, last_at)
    SELECT pg_current_xact_id(), row_number() OVER (), c.fingerprint, c.status, sum(c.many),
        (array_agg(c.consumer ORDER BY c.failed_at DESC))[1],
        (array_agg(c.event_type ORDER BY c.failed_at DESC))[1],
        (array_agg(c.reason ORDER BY c.failed_at DESC))[1],
        count(DISTINCT (c.consumer, c.event_type, c.reason, c.error_type)) > 1,
        (array_agg(c.error_type ORDER BY c.failed_at DESC))[1],
        (array_agg(c.error ORDER BY c.failed_at DESC))[1],
        min(c.first_failed_at), max(c.failed_at)
    FROM ({rows}) c
    GROUP BY c.fingerprint, c.status{having};
    RETURN NULL;
END
$function$
"""
_WORTH_A_NOTE = """
    HAVING sum(c.many) <> 0
        OR max(c.failed_at) FILTER (WHERE c.many = 1) > max(c.failed_at) FILTER (WHERE c.many = -1)
        OR count(DISTINCT (c.consumer, c.event_type, c.reason, c.error_type)) > 1"""
_NEW = "SELECT n.*, 1 AS many FROM after_it n"
declare(_NOTE.format(what="new", rows=_NEW, having=""))
declare(_NOTE.format(what="removed", rows="SELECT o.*, -1 AS many FROM before_it o", having=""))
declare(_NOTE.format(what="changed", rows=f"{_NEW} UNION ALL SELECT o.*, -1 FROM before_it o", having=_WORTH_A_NOTE))
declare("""
CREATE TRIGGER count_new AFTER INSERT ON {schema}.dlq_events
    REFERENCING NEW TABLE AS after_it FOR EACH STATEMENT EXECUTE FUNCTION {schema}.note_new_letters()
""")
declare("""
CREATE TRIGGER count_changed AFTER UPDATE ON {schema}.dlq_events
    REFERENCING OLD TABLE AS before_it NEW TABLE AS after_it FOR EACH STATEMENT
    EXECUTE FUNCTION {schema}.note_changed_letters()
""")
declare("""
CREATE TRIGGER count_removed AFTER DELETE ON {schema}.dlq_events
    REFERENCING OLD TABLE AS before_it FOR EACH STATEMENT EXECUTE FUNCTION {schema}.note_removed_letters()
""")
declare("""
CREATE FUNCTION {schema}.count_dead_letters() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
    -- The first statement takes the notes of all; for the others nothing is left.
    WITH notes AS (DELETE FROM {schema}.dlq_group_changes c WHERE c.xid = NEW.xid RETURNING c.*),
    latest AS (
        SELECT DISTINCT ON (n.fingerprint) n.fingerprint, n.consumer, n.event_type, n.reason, n.error_type, n.sentence
        FROM notes n ORDER BY n.fingerprint, n.last_at DESC, n.many DESC),
    counted AS (
        SELECT n.fingerprint, min(n.first_at) AS first_at, max(n.last_at) AS last_at,
            bool_or(n.mixed) OR count(DISTINCT (n.consumer, n.event_type, n.reason, n.error_type)) > 1 AS mixed,
            coalesce(sum(n.many) FILTER (WHERE n.status = 'OPEN'), 0) AS open,
            coalesce(sum(n.many) FILTER (WHERE n.status = 'REPLAYING'), 0) AS replaying,
            coalesce(sum(n.many) FILTER (WHERE n.status = 'REPLAYED'), 0) AS replayed,
            coalesce(sum(n.many) FILTER (WHERE n.status = 'DISCARD_REQUESTED'), 0) AS discard_requested,
            coalesce(sum(n.many) FILTER (WHERE n.status = 'DISCARDED'), 0) AS discarded,
            coalesce(sum(n.many) FILTER (WHERE n.status = 'SUPERSEDED'), 0) AS superseded
        FROM notes n GROUP BY n.fingerprint)
    INSERT INTO {schema}.dlq_groups AS g (fingerprint, consumer, event_type, reason, mixed, error_type, sentence,
        first_at, oldest_at, last_at, open, replaying, replayed, discard_requested, discarded, superseded)
    SELECT l.fingerprint, l.consumer, l.event_type, l.reason, c.mixed, l.error_type, l.sentence, c.first_at, c.first_at,
        c.last_at, c.open, c.replaying, c.replayed, c.discard_requested, c.discarded, c.superseded
    FROM latest l JOIN counted c USING (fingerprint)
    ORDER BY l.fingerprint
    ON CONFLICT (fingerprint) DO UPDATE SET
        open = g.open + excluded.open, replaying = g.replaying + excluded.replaying,
        replayed = g.replayed + excluded.replayed,
        discard_requested = g.discard_requested + excluded.discard_requested,
        discarded = g.discarded + excluded.discarded, superseded = g.superseded + excluded.superseded,
        reason = CASE WHEN excluded.last_at > g.last_at THEN excluded.reason ELSE g.reason END,
        sentence = CASE WHEN excluded.last_at > g.last_at THEN excluded.sentence ELSE g.sentence END,
        last_at = greatest(g.last_at, excluded.last_at), oldest_at = least(g.oldest_at, excluded.oldest_at),
        mixed = g.mixed OR excluded.mixed
            OR (excluded.consumer, excluded.event_type, excluded.reason, excluded.error_type)
                IS DISTINCT FROM (g.consumer, g.event_type, g.reason, g.error_type);
    RETURN NULL;
END
$function$
""")
declare("""
CREATE CONSTRAINT TRIGGER count_dead_letters AFTER INSERT ON {schema}.dlq_group_changes
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.number = 1)
    EXECUTE FUNCTION {schema}.count_dead_letters()
""")
