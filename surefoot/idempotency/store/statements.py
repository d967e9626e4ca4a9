"""The store's SQL. Times are the database's, parameters have their types said, and history lines ride along.

Every change of a claim is one statement under its fence: key hash, fence and time of the first request are $1, $2 and
$3 there. The time is part of it because a key that was deleted and comes back begins at the first fence again.
"""

from surefoot.database.schema import checked_schema

STUCK_AFTER_S = 60
WORK = "surefoot_work"
"""The savepoint that the work of a local route is done in."""
MARK = "idempotency.transaction"
"""Set for one transaction: `true` where it is ours to claim in. Gone with it, whoever ends it."""
OURS = f"current_setting('{MARK}', true) = 'true'"
MINE = "key_hash = $1::bytea AND fence = $2::bigint AND created_at = $3::timestamptz AND state = 'IN_FLIGHT'"
OPEN = "state IN ('IN_FLIGHT', 'FAILED_RETRY')"
OVERDUE = """effect = 'outside' AND request IS NOT NULL AND (
    state = 'IN_FLIGHT' AND lease_until < now() - $2::interval OR state = 'FAILED_RETRY' AND due_at <= now())"""
# An answer that comes after its time is given again for as long as any other: it is news to whoever asked.
STORED = """answered_at = now(), lease_until = NULL, due_at = NULL, request = NULL, error = NULL,
    outcome_unknown = false,
    replay_until = CASE WHEN k.replay_until > now() THEN k.replay_until
        ELSE now() + (k.replay_until - k.created_at) END,
    gone_until = CASE WHEN k.replay_until > now() THEN k.gone_until ELSE now() + (k.gone_until - k.created_at) END"""
# The columns that an insert does not name have their defaults in `excluded`: nothing of the old request stays.
WRITTEN_OVER = ", ".join(
    f"{name} = excluded.{name}"
    for name in (
        *("fence", "created_at", "tenant", "route", "effect", "state", "fingerprint", "fingerprint_version"),
        *("attempts", "owner", "lease_until", "leased_at", "due_at", "minted", "resource", "recovery_point", "request"),
        *("outcome_unknown", "error", "status", "headers", "body", "answered_at", "replay_until", "gone_until"),
    )
)


BEGIN = f"BEGIN ISOLATION LEVEL READ COMMITTED; SELECT set_config('{MARK}', 'true', true)"


class Statements:
    def __init__(self, schema: str) -> None:
        self.schema = checked_schema(schema)
        self.keys = f"{schema}.idempotency_keys"
        self.phases = f"{schema}.idempotency_phases"
        self.calls = f"{schema}.pending_calls"
        self.history = f"{schema}.idempotency_history"
        self.state = f"{schema}.idempotency_state"
        self._looking()
        self._claiming()
        self._taking_over()
        self._local()
        self._holding()
        self._settling()
        self._upkeep()

    def _noted(self, source: str, whats: str, details: str, *, unless: str = "false") -> str:
        """History lines for the row that `source` has changed, if it has."""
        return f"""
            noted AS (
                INSERT INTO {self.history} (key_hash, tenant, fence, what, details)
                SELECT s.key_hash, s.tenant, s.fence, n.what, n.details::json
                FROM {source} s, unnest({whats}::text[], {details}::text[]) AS n(what, details)
                WHERE NOT ({unless}))"""

    def _looking(self) -> None:
        columns = """k.state::text, k.effect, k.fingerprint, k.fingerprint_version, k.fence, k.attempts, k.created_at,
            k.lease_until, k.replay_until, k.gone_until, k.resource, k.status, k.headers::text, k.body"""
        self.found = f"""
            SELECT {OURS} AS had, now() AS now, {columns}
            FROM (VALUES (true)) AS always LEFT JOIN {self.keys} k ON k.key_hash = $1::bytea"""
        # The lock is shared between those who look, and let go at once.
        self.look = f"""
            SELECT pg_try_advisory_xact_lock_shared($2::bigint) AS had, now() AS now, {columns}
            FROM (VALUES (true)) AS always LEFT JOIN {self.keys} k ON k.key_hash = $1::bytea"""
        self.current = f"SELECT fence FROM {self.keys} WHERE key_hash = $1::bytea AND state = 'IN_FLIGHT'"

    def _claiming(self) -> None:
        # $4: the fence that was seen there, null where there was no row.
        self.keep = f"""
            WITH kept AS (
                INSERT INTO {self.keys} AS k (key_hash, fence, created_at, tenant, route, effect, state, fingerprint,
                    fingerprint_version, attempts, owner, lease_until, leased_at, minted, resource, request,
                    replay_until, gone_until)
                SELECT $1::bytea, $2::bigint, $3::timestamptz, $5::text, $6::text, $7::text, 'IN_FLIGHT', $8::bytea,
                    $9::smallint, 1, $10::text, at + $11::interval, at, $12::text::json, $13::text, $14::bytea,
                    $3::timestamptz + $15::interval, $3::timestamptz + $16::interval
                FROM clock_timestamp() AS at WHERE {OURS}
                ON CONFLICT (key_hash) DO UPDATE SET {WRITTEN_OVER}
                WHERE k.fence = $4::bigint AND k.state <> 'IN_FLIGHT'
                RETURNING key_hash, tenant, fence),
            emptied AS (DELETE FROM {self.phases} WHERE $4::bigint IS NOT NULL AND key_hash = $1::bytea),
            called AS (
                INSERT INTO {self.calls} (key_hash, provider_key) SELECT key_hash, $17::text FROM kept
                ON CONFLICT (key_hash) DO UPDATE
                SET provider_key = excluded.provider_key, calls = 0, created_at = now(), closed_at = NULL),
            {self._noted("kept", "$18", "$19")}
            SELECT fence FROM kept"""
        self.keep_taken_over = f"""
            WITH kept AS (
                UPDATE {self.keys} k SET minted = $4::text::json, resource = coalesce($5::text, k.resource),
                    request = coalesce(k.request, $6::bytea)
                WHERE {MINE} AND {OURS} RETURNING key_hash, fence),
            called AS (
                INSERT INTO {self.calls} (key_hash, provider_key) SELECT key_hash, $7::text FROM kept
                ON CONFLICT (key_hash) DO UPDATE SET closed_at = NULL)
            SELECT fence FROM kept"""

    def _taking_over(self) -> None:
        seen = f"""
            SELECT key_hash FROM {self.keys} WHERE key_hash = $1::bytea AND fence = $2::bigint AND {OPEN}
                AND (state = 'FAILED_RETRY' OR lease_until IS NULL OR lease_until <= now()) FOR UPDATE SKIP LOCKED"""
        overdue = f"SELECT key_hash FROM {self.keys} WHERE key_hash = $1::bytea AND {OVERDUE} FOR UPDATE SKIP LOCKED"
        self.take_over = self._taken(seen)
        self.take_over_overdue = self._taken(overdue)
        # In a statement of its own: a phase that was committed while the one above waited for the row is seen by this
        # one, and was not by that. A phase settles what became of the calls that were made before it, under its fence.
        self.so_far = f"""
            WITH told AS (
                SELECT number, fence, what, details FROM {self.history} WHERE key_hash = $1::bytea AND number > (
                    SELECT max(number) FROM {self.history} WHERE key_hash = $1::bytea AND what = 'claimed')),
            made AS (SELECT number, fence, coalesce(details->>'name', '') AS name FROM told WHERE what = 'called')
            SELECT (SELECT provider_key FROM {self.calls} WHERE key_hash = $1::bytea) AS provider_key,
                ARRAY(SELECT name FROM {self.phases} WHERE key_hash = $1::bytea ORDER BY at, name) AS names,
                ARRAY(SELECT result::text FROM {self.phases} WHERE key_hash = $1::bytea ORDER BY at, name) AS results,
                (SELECT coalesce(max(number) FILTER (WHERE what = 'phase') > max(number) FILTER (
                        WHERE what = 'called' OR what = 'failed' AND details->>'unknown' = 'true'), false)
                    FROM told) AS is_settled,
                ARRAY(SELECT DISTINCT m.name FROM made m WHERE NOT EXISTS (
                        SELECT FROM made s JOIN told p ON p.what = 'phase' AND p.fence = s.fence
                        WHERE s.name = m.name AND s.number >= m.number AND p.number > s.number)) AS unsettled"""
        self.overdue = f"""
            SELECT key_hash FROM {self.keys} WHERE {OPEN} AND {OVERDUE}
            ORDER BY coalesce(due_at, lease_until) LIMIT $1::int"""

    def _taken(self, which: str) -> str:
        """Whoever did not let go of it may have called the provider: its outcome is in doubt from here on."""
        return f"""
            WITH taken AS (
                UPDATE {self.keys} k SET fence = fence + 1, attempts = attempts + 1, state = 'IN_FLIGHT',
                    owner = $3::text, leased_at = clock_timestamp(), lease_until = clock_timestamp() + $4::interval,
                    due_at = NULL, outcome_unknown = outcome_unknown OR state = 'IN_FLIGHT'
                WHERE key_hash = ({which}) AND {OURS} RETURNING k.*),
            {self._noted("taken", "ARRAY['taken_over']", "ARRAY[json_build_object('attempt', attempts)]")}
            SELECT fence, attempts, created_at, minted::text, outcome_unknown, tenant, route, effect, fingerprint,
                fingerprint_version, request FROM taken"""

    def _local(self) -> None:
        # $4: as in keep. Claim and answer are one row that is written once, at the end. An answer that comes after its
        # time, because it took long or earlier attempts had failed, is given again for as long as any other.
        self.finish = f"""
            WITH done AS (
                INSERT INTO {self.keys} AS k (key_hash, fence, created_at, tenant, route, effect, state, fingerprint,
                    fingerprint_version, attempts, owner, error, status, headers, body, answered_at, replay_until,
                    gone_until)
                SELECT $1::bytea, $2::bigint, $3::timestamptz, $5::text, $6::text, $7::text, $8::text::{self.state},
                    $9::bytea, $10::smallint, $11::int, $12::text, $13::text, $14::smallint, $15::text::json,
                    $16::bytea, clock_timestamp(), since + $17::interval, since + $18::interval
                FROM (SELECT CASE WHEN $8::text <> 'FAILED_RETRY' AND $3::timestamptz + $17::interval <= at
                    THEN at ELSE $3::timestamptz END AS since FROM clock_timestamp() AS at) AS windows
                WHERE {OURS}
                ON CONFLICT (key_hash) DO UPDATE SET {WRITTEN_OVER}
                WHERE k.fence = $4::bigint AND k.state <> 'IN_FLIGHT'
                RETURNING key_hash, tenant, fence),
            {self._noted("done", "$19", "$20")}
            SELECT fence FROM done"""
        # Only where the same route had an outside effect when the key was new.
        self.empty = f"""
            WITH closed AS (DELETE FROM {self.calls} WHERE key_hash = $1::bytea)
            DELETE FROM {self.phases} WHERE key_hash = $1::bytea"""

    def _holding(self) -> None:
        self.phase = f"""
            WITH kept AS (
                UPDATE {self.keys} SET recovery_point = $4::text WHERE {MINE} AND {OURS}
                RETURNING key_hash, tenant, fence),
            done AS (
                INSERT INTO {self.phases} (key_hash, name, result)
                SELECT key_hash, $4::text, $5::text::json FROM kept),
            {self._noted("kept", "$6", "$7")}
            SELECT fence FROM kept"""
        self.renew = f"""
            UPDATE {self.keys} SET lease_until = least(now() + $4::interval, leased_at + $5::interval)
            WHERE {MINE} AND lease_until < leased_at + $5::interval RETURNING true"""
        self.note = f"""
            WITH counted AS (
                UPDATE {self.calls} SET calls = calls + $6::int WHERE key_hash = $1::bytea AND $6::int > 0)
            INSERT INTO {self.history} (key_hash, tenant, fence, what, details)
            VALUES ($1::bytea, $2::text, $3::bigint, $4::text, $5::text::json)"""

    def _settling(self) -> None:
        self.complete = f"""
            WITH done AS (
                UPDATE {self.keys} k SET state = $4::text::{self.state}, status = $5::smallint,
                    headers = $6::text::json, body = $7::bytea, {STORED}
                WHERE {MINE} RETURNING key_hash, tenant, fence),
            closed AS (
                UPDATE {self.calls} c SET closed_at = now() FROM done d
                WHERE c.key_hash = d.key_hash AND c.closed_at IS NULL),
            {self._noted("done", "$8", "$9")}
            SELECT fence FROM done"""
        # $6 null: there is nothing to go on with by ourselves, so nothing is pending. $7: so many attempts are enough.
        self.fail = f"""
            WITH done AS (
                UPDATE {self.keys} k SET state = 'FAILED_RETRY', lease_until = NULL, error = $4::text,
                    outcome_unknown = outcome_unknown OR $5::bool, due_at = now() + $6::interval
                WHERE {MINE}
                RETURNING key_hash, tenant, fence, attempts >= $7::int AS is_exhausted, outcome_unknown),
            closed AS (
                UPDATE {self.calls} c SET closed_at = now() FROM done d
                WHERE c.key_hash = d.key_hash AND $6::interval IS NULL AND NOT d.outcome_unknown),
            {self._noted("done", "$8", "$9", unless="n.what = 'exhausted' AND NOT s.is_exhausted")}
            SELECT is_exhausted FROM done"""
        self.forget = f"""
            WITH done AS (
                DELETE FROM {self.keys} k WHERE {MINE} AND NOT outcome_unknown AND recovery_point IS NULL
                RETURNING key_hash, tenant, fence),
            {self._noted("done", "$4", "$5")}
            SELECT fence FROM done"""

    def _upkeep(self) -> None:
        # Old keys lose their answers first, then they go themselves: batch by batch, around what is in use. What may
        # have an unknown effect outside is left alone, however old it is. Arrays, because a join with thousands of rows
        # makes the planner read the whole table.
        self.expire = f"""
            WITH due AS (
                SELECT key_hash FROM {self.keys}
                WHERE state IN ('COMPLETED', 'FAILED_TERMINAL') AND replay_until <= now()
                ORDER BY replay_until LIMIT $1::int FOR UPDATE SKIP LOCKED),
            expired AS (
                UPDATE {self.keys} SET state = 'EXPIRED', headers = NULL, body = NULL, request = NULL
                WHERE key_hash = ANY (ARRAY(SELECT key_hash FROM due)) RETURNING key_hash, tenant, fence),
            noted AS (
                INSERT INTO {self.history} (key_hash, tenant, fence, what)
                SELECT key_hash, tenant, fence, 'expired' FROM expired)
            SELECT count(*) FROM expired"""
        self.reap = f"""
            WITH old AS (
                SELECT key_hash FROM {self.keys} k
                WHERE gone_until <= now() AND (
                    state IN ('COMPLETED', 'FAILED_TERMINAL', 'EXPIRED')
                    OR state = 'FAILED_RETRY' AND NOT outcome_unknown AND NOT EXISTS (
                        SELECT FROM {self.calls} c WHERE c.key_hash = k.key_hash AND c.closed_at IS NULL))
                ORDER BY gone_until LIMIT $1::int FOR UPDATE SKIP LOCKED),
            gone AS (DELETE FROM {self.keys} WHERE key_hash = ANY (ARRAY(SELECT key_hash FROM old)) RETURNING 1)
            SELECT count(*) FROM gone"""
        # What is left to its client (no due_at) is not pending here.
        self.standing = f"""
            SELECT (SELECT count(*) FROM {self.keys}
                    WHERE {OPEN} AND state = 'IN_FLIGHT' AND lease_until < now() - interval '{STUCK_AFTER_S} seconds'),
                (SELECT extract(epoch FROM now() - min(c.created_at))::float8
                 FROM {self.calls} c JOIN {self.keys} k USING (key_hash)
                 WHERE c.closed_at IS NULL
                    AND (k.state = 'IN_FLIGHT' OR k.state = 'FAILED_RETRY' AND k.due_at IS NOT NULL))"""
