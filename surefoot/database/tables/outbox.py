"""The outbox: events written in a service's own transaction, waiting for a relay."""

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ENUM

from surefoot.database.tables.base import declare, metadata

STATUS = ENUM("PENDING", "HELD", "PUBLISHED", "FAILED", "RELEASED", name="outbox_status", metadata=metadata)

outbox_events = Table(
    "outbox_events",
    metadata,
    # The event's id is the only plain index: each index costs a write when a row is added and another when it is
    # marked, and a plain one on `position` would tempt the planner away from the partial index below
    # (docs/decisions/0002).
    Column("event_id", Uuid, primary_key=True),
    Column("position", BigInteger, Identity(always=True), nullable=False, comment="within a key: the order of commits"),
    Column("shard", SmallInteger, nullable=False),
    Column("key_hash", Integer, nullable=False, comment="murmur2 of the key: decides shard and partition"),
    Column("topic", Text, nullable=False),
    Column("event_type", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("body", LargeBinary, comment="the bytes that are sent"),
    Column("headers", JSON, nullable=False, comment="the record's headers, in order: [[name, value], …]"),
    # An enum, because a check would be compiled anew for every insert; it shows in the cost of adding an event.
    Column("status", STATUS, nullable=False, server_default=text("'PENDING'")),
    Column("attempts", SmallInteger, nullable=False, server_default=text("0")),
    Column("next_attempt_at", DateTime(timezone=True), comment="after a refusal: not before this"),
    Column("last_error", Text, comment="a sentence"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("published_at", DateTime(timezone=True)),
    Column("decision", Text, comment="who retried or released it, when, and why"),
    # Vacuum by count, not by share of the table: dead entries of the pending index are walked by every claim.
    postgresql_with={"autovacuum_vacuum_scale_factor": 0, "autovacuum_vacuum_threshold": 50000},
)

Index(
    "outbox_events_pending",
    outbox_events.c.shard,
    outbox_events.c.position,
    unique=True,
    postgresql_where=text("status = 'PENDING'"),
)
Index(
    "outbox_events_refused",
    outbox_events.c.shard,
    outbox_events.c.topic,
    outbox_events.c.key,
    postgresql_where=text("status IN ('FAILED', 'HELD') OR (status = 'PENDING' AND attempts > 0)"),
)
Index(
    "outbox_events_published",
    outbox_events.c.published_at,
    postgresql_where=text("status = 'PUBLISHED'"),
)

outbox_settings = Table(
    "outbox_settings",
    metadata,
    Column("only", Integer, primary_key=True, server_default=text("1"), comment="there is one row"),
    Column("shards", SmallInteger, nullable=False, comment="fixed once there is data: changing it splits keys"),
    Column(
        "asleep_until",
        DateTime(timezone=True),
        nullable=False,
        server_default=text("'-infinity'::timestamptz"),
        comment="while this lies ahead a relay sleeps, and writers send it a notification",
    ),
    CheckConstraint('"only" = 1', name="outbox_settings_one_row"),
    CheckConstraint("shards BETWEEN 1 AND 1024", name="outbox_settings_shards"),
    postgresql_with={"fillfactor": 50},
)

# One round trip writes a transaction's events. Order matters: first the locks, all of them and in sorted order (two
# transactions that lock in different orders would deadlock), then the rows, whose insert draws their positions. The
# locks are held until the commit is visible, so within a key position order is commit order. Buckets, not keys, are
# locked: the server's lock table is of bounded size. The notification is sent only while a relay says it sleeps.
# (A single event, the usual case, is written by one plain statement that does the same: see surefoot.outbox.session.)
declare("""
CREATE FUNCTION {schema}.outbox_write(
    event_ids uuid[], hashes integer[], topics text[], types text[], keys text[], bodies bytea[], headers text[]
) RETURNS void LANGUAGE plpgsql AS $function$
DECLARE
    settings {schema}.outbox_settings;
    bucket integer;
BEGIN
    SELECT * INTO STRICT settings FROM {schema}.outbox_settings;
    FOR bucket IN SELECT DISTINCT h % 512 FROM unnest(hashes) AS h ORDER BY 1 LOOP
        PERFORM pg_advisory_xact_lock(1937076838, bucket);
    END LOOP;
    INSERT INTO {schema}.outbox_events (event_id, shard, key_hash, topic, event_type, key, body, headers)
        SELECT e.event_id, e.hash % settings.shards, e.hash, e.topic, e.type, e.key, e.body, e.headers::json
        FROM unnest(event_ids, hashes, topics, types, keys, bodies, headers) WITH ORDINALITY
             AS e(event_id, hash, topic, type, key, body, headers, n)
        ORDER BY e.n;
    IF settings.asleep_until > now() THEN
        PERFORM pg_notify('surefoot_outbox', '');
    END IF;
END
$function$
""")

# PENDING: waits for a relay. HELD: waits behind a FAILED row of its key, out of the claims' way. PUBLISHED: the log has
# acknowledged it. FAILED: the log refused it for good. RELEASED: an operator let its key go on without it.

# Postgres before 16 cannot ask whether text is JSON; a body that is not is shown as null.
declare("""
CREATE FUNCTION {schema}.as_json(body bytea) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $function$
BEGIN
    RETURN convert_from(body, 'UTF8')::jsonb;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END
$function$
""")

declare("""
CREATE VIEW {schema}.outbox AS
    SELECT e.position, e.event_id, e.topic, e.event_type, e.key, e.status, e.attempts, e.last_error,
           {schema}.as_json(e.body) AS payload, e.headers, e.created_at, e.published_at, e.next_attempt_at, e.decision,
           e.shard, l.owner AS relay,
           e.status = 'HELD' OR e.status = 'PENDING' AND EXISTS (
               SELECT FROM {schema}.outbox_events f
               WHERE f.shard = e.shard AND f.topic = e.topic AND f.key = e.key AND f.status = 'FAILED'
           ) AS held
    FROM {schema}.outbox_events e LEFT JOIN {schema}.leases l ON l.scope = 'outbox' AND l.unit = e.shard
""")
