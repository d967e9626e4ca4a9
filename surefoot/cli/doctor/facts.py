"""What `surefoot doctor` looks at: the database, its tables, and the topics of the log."""

from datetime import UTC, datetime

from surefoot.cli.doctor.checks import Finding, OutboxFacts, check_outbox, check_topics, check_version
from surefoot.cli.event_log import event_log
from surefoot.cli.topics import declared
from surefoot.database.connection import close_quietly, connect, explain, is_database_error
from surefoot.database.version import current_version, newest_version
from surefoot.errors import DatabaseUnavailable, LogUnavailable
from surefoot.events import Catalogue

FAILED_LIMIT = 1000


async def examine(url: str, kafka: str | None, schema: str, catalogue: Catalogue) -> list[Finding]:
    try:
        version = await current_version(url, schema=schema)
    except DatabaseUnavailable as error:
        return [Finding("error", str(error)), *(await _examine_log(url, kafka, schema, catalogue) if kafka else [])]
    findings = [check_version(version, newest_version())]
    if findings[0].level == "error":
        return findings
    try:
        findings += check_outbox(await _gather(url, schema))
    except Exception as error:
        if not is_database_error(error):
            raise
        return [*findings, Finding("error", str(explain(error, url)))]
    return findings + await _examine_log(url, kafka, schema, catalogue)


async def _examine_log(url: str, kafka: str | None, schema: str, catalogue: Catalogue) -> list[Finding]:
    wanted = declared(catalogue)
    try:
        async with event_log(kafka, url, schema) as log:
            found = await log.describe([spec.name for spec in wanted])
    except LogUnavailable as error:
        return [Finding("error", str(error))]
    name = f"Kafka at {kafka}" if kafka else "The Postgres log"
    return [Finding("ok", f"{name} answers."), *check_topics(wanted, found)]


async def _gather(url: str, schema: str) -> OutboxFacts:
    connection = await connect(url, name="surefoot-doctor")
    try:
        before = datetime.now(UTC)
        row = await connection.fetchrow(
            f"""
            SELECT current_setting('server_version_num')::int / 10000 AS version, clock_timestamp() AS clock,
                   (SELECT shards FROM {schema}.outbox_settings) AS shards,
                   (SELECT count(*) FROM {schema}.lease_members
                        WHERE scope = 'outbox' AND alive_until > now()) AS relays,
                   (SELECT count(*) FROM {schema}.leases WHERE scope = 'outbox' AND lease_until <= now()) AS unowned,
                   (SELECT now() - min(oldest.created_at) FROM {schema}.leases l CROSS JOIN LATERAL (
                        SELECT created_at FROM {schema}.outbox_events e
                        WHERE e.shard = l.unit AND e.status = 'PENDING' ORDER BY e.position LIMIT 1) oldest
                    WHERE l.scope = 'outbox') AS oldest,
                   (SELECT count(*) FROM (SELECT FROM {schema}.outbox_events
                        WHERE status = 'FAILED'
                        LIMIT {FAILED_LIMIT}) f) AS failed,
                   (SELECT coalesce(sum(open), 0)::bigint FROM {schema}.dlq_groups) AS open_letters"""
        )
        after = datetime.now(UTC)
        assert row is not None
        return OutboxFacts(
            postgres_version=row["version"],
            clock_difference=row["clock"] - (before + (after - before) / 2),
            shards=row["shards"],
            relays=row["relays"],
            unowned_shards=row["unowned"],
            oldest_pending=row["oldest"],
            failed=row["failed"],
            open_letters=row["open_letters"],
        )
    finally:
        await close_quietly(connection)
