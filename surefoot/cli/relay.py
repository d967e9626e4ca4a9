"""`surefoot relay`: publish what is in the outbox, until stopped."""

from typing import TYPE_CHECKING

import typer

from surefoot.cli.deployment import settings_of
from surefoot.cli.event_log import event_log
from surefoot.cli.options import Database, Kafka, LogFormatOption, Schema, required_database
from surefoot.cli.processes import MetricsPort, check_version, collect_rarely, serve_metrics
from surefoot.cli.running import run, serve
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.telemetry.logging import set_up_logging

if TYPE_CHECKING:
    from surefoot.relay.settings import RelaySettings


def relay(
    context: typer.Context,
    database: Database = None,
    kafka: Kafka = None,
    schema: Schema = DEFAULT_SCHEMA,
    metrics_port: MetricsPort = None,
    log_format: LogFormatOption = "text",
) -> None:
    """Publish committed outbox events, in order per key, until Ctrl-C.

    Start as many as you like, on as many hosts as you like: they share the shards among themselves and take over from
    one that dies. Everything else is set by the environment: SUREFOOT_RELAY_LEASE, SUREFOOT_RELAY_MAX_ATTEMPTS,
    SUREFOOT_RELAY_ALERT_WEBHOOK … (docs/relay.md lists them).
    """
    from surefoot.relay.settings import RelaySettings

    set_up_logging(log_format)
    url = required_database(database)
    settings = settings_of(context, RelaySettings)(db_schema=schema)
    if metrics_port is not None:
        serve_metrics(metrics_port)
    run(_relay(url, kafka, settings))


async def _relay(url: str, kafka: str | None, settings: "RelaySettings") -> None:
    import structlog

    from surefoot.database.connection import shown_url
    from surefoot.relay.runtime import Relay

    log = structlog.get_logger("surefoot.relay")
    await check_version(url, settings.db_schema)
    collect_rarely()
    async with event_log(kafka, url, settings.db_schema) as its_log:
        service = Relay(url, its_log, settings)
        where = kafka or "the Postgres log of this database"
        log.info("relay starts", name=service.name, database=shown_url(url), log=where)
        await serve(service)
    log.info("relay stopped; its shards are free for others", name=service.name)
