"""The consumer's SQL. Every statement takes consumer, topic and partition as $1, $2, $3, unless it says otherwise."""

from surefoot.database import locks
from surefoot.database.schema import checked_schema

HERE = "consumer = $1::text AND topic = $2::text AND partition = $3::int"


class Statements:
    def __init__(self, schema: str) -> None:
        self.schema = checked_schema(schema)
        self._the_transaction(schema)
        self._taking_a_partition(schema)
        self._the_inbox(schema)
        self._command_barriers(schema)

    def _the_transaction(self, schema: str) -> None:
        partitions = f"{schema}.consumer_partitions"
        parked = f"{schema}.parked_events"
        # The lock is shared, so it never makes anybody wait: it only tells a new owner which backend works here.
        self.begin = f"""
            WITH opened AS (INSERT INTO {schema}.open_batches VALUES (pg_current_xact_id()))
            SELECT pg_current_xact_id()::text, ARRAY(
                SELECT DISTINCT key FROM {parked} WHERE {HERE} AND holds AND key = ANY ($5::text[]))
            FROM (SELECT pg_advisory_xact_lock_shared(hashtextextended($4::text, 0)) OFFSET 0) AS locked"""
        self.take_turn = f"SELECT pg_advisory_xact_lock({locks.CONSUMER_TURN}, hashtext($1::text))"
        self.fence = f"""
            WITH closed AS (DELETE FROM {schema}.open_batches WHERE xid = pg_current_xact_id())
            UPDATE {partitions}
            SET next_offset = coalesce($5::bigint, next_offset), ignored = ignored + $6::bigint, updated_at = now()
            WHERE {HERE} AND fence = $4::bigint AND pg_current_xact_id()::text = $7::text RETURNING true"""
        self.current_fence = f"SELECT fence FROM {partitions} WHERE {HERE}"

    def _taking_a_partition(self, schema: str) -> None:
        partitions = f"{schema}.consumer_partitions"
        # $4: the lock's name. A frozen member keeps its transaction, and with it locks on the inbox, for as long as it
        # is frozen. Nothing of it can be committed any more, so its backend is ended.
        self.end_others = """
            SELECT count(pg_terminate_backend(pid))
            FROM pg_locks, (SELECT hashtextextended($1::text, 0) AS h) AS name
            WHERE locktype = 'advisory' AND objsubid = 1
              AND classid = ((h >> 32) & 4294967295)::oid AND objid = (h & 4294967295)::oid
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
              AND granted AND pid <> pg_backend_pid()"""
        self.take = f"""
            INSERT INTO {partitions} AS p (consumer, topic, partition, owner, fence, taken_at)
            VALUES ($1::text, $2::text, $3::int, $4::text, 1, now())
            ON CONFLICT (consumer, topic, partition)
                DO UPDATE SET owner = excluded.owner, fence = p.fence + 1, taken_at = now()
            RETURNING fence, next_offset"""
        self.move = f"""
            UPDATE {partitions} SET next_offset = $5::bigint WHERE {HERE} AND fence = $4::bigint RETURNING true"""

    def _the_inbox(self, schema: str) -> None:
        inbox = f"{schema}.processed_events"
        self.receive = f"""
            INSERT INTO {inbox} (consumer, source, event_id, outcome)
            SELECT $1::text, source, event_id, 'PROCESSED' FROM unnest($2::text[], $3::text[]) AS e(source, event_id)
            ON CONFLICT DO NOTHING RETURNING source, event_id"""
        self.settle = f"""
            UPDATE {inbox} i SET outcome = e.outcome::{schema}.inbox_outcome, processed_at = now(),
                                 decision = coalesce(e.decision, i.decision)
            FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS e(source, event_id, outcome, decision)
            WHERE i.consumer = $1::text AND i.source = e.source AND i.event_id = e.event_id"""
        self.outcome = f"""
            SELECT outcome::text, processed_at FROM {inbox}
            WHERE consumer = $1::text AND source = $2::text AND event_id = $3::text"""
        self.expire = f"""
            WITH old AS (
                SELECT ctid FROM {inbox}
                WHERE processed_at < now() - $2::interval AND consumer = $1::text AND outcome NOT IN ('PARKED', 'DEAD')
                LIMIT $3::int)
            DELETE FROM {inbox} WHERE ctid = ANY (ARRAY(SELECT ctid FROM old))"""
        # A dead command may be tried again as long as it is parked, whoever its consumer is, and its undo may have
        # barred it. It is parked under its saga's id; if that is too long, under its first 40 characters and a hash.
        self.expire_barriers = f"""
            WITH old AS (
                SELECT ctid FROM {schema}.command_barriers
                WHERE settled_at < now() - $2::interval AND consumer = $1::text
                  AND left(saga_id, 40) NOT IN (SELECT left(key, 40) FROM {schema}.parked_events)
                LIMIT $3::int)
            DELETE FROM {schema}.command_barriers WHERE ctid = ANY (ARRAY(SELECT ctid FROM old))"""

    def _command_barriers(self, schema: str) -> None:
        """For many commands at once: sagas, steps, … are arrays."""
        barriers = f"{schema}.command_barriers"
        self.barriers = f"""
            SELECT saga_id, step, direction, barred,
                   reply_type, reply_version, reply_topic, reply_source, reply_key, reply
            FROM {barriers} WHERE saga_id = ANY ($1::text[])"""
        self.set_barriers = f"""
            INSERT INTO {barriers} (saga_id, step, direction, consumer, barred,
                                    reply_type, reply_version, reply_topic, reply_source, reply_key, reply)
            SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bool[],
                                 $6::text[], $7::int[], $8::text[], $9::text[], $10::text[], $11::bytea[])"""
