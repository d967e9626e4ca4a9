"""`surefoot migrate` makes the tables; `surefoot doctor` says whether everything is there that should be."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from surefoot.cli.command import Catalogues, Database, Kafka, Schema, required_database, run
from surefoot.cli.diagnosis import Finding, OutboxFacts, check_outbox, check_sessions, check_topics, check_version
from surefoot.cli.loading import load_known_catalogue
from surefoot.cli.process import event_log
from surefoot.cli.show import styled
from surefoot.cli.topics import declared
from surefoot.database.schema import DEFAULT_SCHEMA, DEFAULT_SHARDS, checked_schema
from surefoot.errors import DatabaseUnavailable, LogUnavailable

if TYPE_CHECKING:
    from surefoot.events import Catalogue

FAILED_LIMIT = 1000
MARKS = {"ok": "[green]✓[/]", "warning": "[yellow]![/]", "error": "[red]✗[/]"}


def migrate(
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
    shards: Annotated[
        int, typer.Option(help="Outbox shards, the most relays that can share the work. Counts the first time only.")
    ] = DEFAULT_SHARDS,
    grant_to: Annotated[
        str | None,
        typer.Option(
            metavar="ROLE",
            help="Give this role the rights to run every part. It need not own anything.",
            show_default=False,
        ),
    ] = None,
    as_sql: Annotated[
        bool, typer.Option("--sql", help="Print what would be run on this database, and change nothing.")
    ] = False,
) -> None:
    """Make or update Surefoot's tables, in a schema of their own. Safe to run again, also from several places.

    Where another person runs migrations: `surefoot migrate --sql --grant-to app > surefoot.sql`
    """
    from surefoot.database.address import shown_url
    from surefoot.database.migrate import migrate as migrate_tables
    from surefoot.database.migrate import migration_sql

    url = required_database(database)
    if as_sql:
        typer.echo(run(migration_sql(url, schema=schema, shards=shards, grant_to=grant_to)))
        return
    version = run(migrate_tables(url, schema=schema, shards=shards, grant_to=grant_to))
    styled.print(f"The schema [bold]{schema}[/] at {escape(shown_url(url))} is at version {version}.")


def doctor(
    database: Database = None, kafka: Kafka = None, schema: Schema = DEFAULT_SCHEMA, catalogue: Catalogues = None
) -> None:
    """Check the set-up: database, tables, broker, topics, clocks, leases. Exit code 1 if something is wrong."""
    url = required_database(database)
    findings = run(_examine(url, kafka, checked_schema(schema), load_known_catalogue(catalogue or [])))
    for finding in findings:
        styled.print(f"{MARKS[finding.level]} {escape(finding.sentence)}")
        if finding.advice:
            styled.print(f"  [dim]→ {escape(finding.advice)}[/]")
    if any(finding.level == "error" for finding in findings):
        raise typer.Exit(1)


async def _examine(url: str, kafka: str | None, schema: str, catalogue: "Catalogue") -> list[Finding]:
    from surefoot.database.connection import explain, is_database_error
    from surefoot.database.pooler import shares_sessions
    from surefoot.database.version import newest_version, stored_version

    try:
        version = await stored_version(url, schema=schema)
    except DatabaseUnavailable as error:
        return [Finding("error", str(error)), *(await _examine_log(url, kafka, schema, catalogue) if kafka else [])]
    findings = [check_version(version, newest_version())]
    if findings[0].level == "error":
        return findings
    findings += check_sessions(await shares_sessions(url))
    try:
        findings += check_outbox(await _gather(url, schema))
    except Exception as error:
        if not is_database_error(error):
            raise
        return [*findings, Finding("error", str(explain(error, url)))]
    return findings + await _examine_log(url, kafka, schema, catalogue)


async def _examine_log(url: str, kafka: str | None, schema: str, catalogue: "Catalogue") -> list[Finding]:
    wanted = declared(catalogue)
    try:
        async with event_log(kafka, url, schema) as log:
            found = await log.describe([spec.name for spec in wanted])
    except LogUnavailable as error:
        return [Finding("error", str(error))]
    name = f"Kafka at {kafka}" if kafka else "The Postgres log"
    return [Finding("ok", f"{name} answers."), *check_topics(wanted, found)]


async def _gather(url: str, schema: str) -> OutboxFacts:
    from surefoot.database.connection import close_quietly, connect

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
