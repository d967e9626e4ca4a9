"""`surefoot relay`: publish what is in the outbox, until stopped."""

import gc
from typing import Annotated

import structlog
import typer
from prometheus_client import start_http_server

from outbox_publisher.runtime import Relay
from outbox_publisher.settings import RelaySettings
from surefoot.commands.event_log import event_log
from surefoot.commands.options import Database, Kafka, LogFormatOption, Schema, required_database
from surefoot.commands.running import run, serve
from surefoot.database.connection import shown_url
from surefoot.database.migrate import current_version, newest_version
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError, SchemaOutdated
from surefoot.telemetry.logging import set_up_logging

log = structlog.get_logger("surefoot.relay")


def relay(
    database: Database = None,
    kafka: Kafka = None,
    schema: Schema = DEFAULT_SCHEMA,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Serve Prometheus metrics on this port.", envvar="SUREFOOT_METRICS_PORT"),
    ] = None,
    log_format: LogFormatOption = "text",
) -> None:
    """Publish committed outbox events, in order per key, until Ctrl-C.

    Start as many as you like, on as many hosts as you like: they share the shards among themselves and take over from
    one that dies. Everything else is set by the environment: SUREFOOT_RELAY_LEASE, SUREFOOT_RELAY_MAX_ATTEMPTS,
    SUREFOOT_RELAY_ALERT_WEBHOOK … (docs/relay.md lists them).
    """
    set_up_logging(log_format)
    url = required_database(database)
    settings = RelaySettings(db_schema=schema)
    if metrics_port is not None:
        _serve_metrics(metrics_port)
    run(_relay(url, kafka, settings))


async def _relay(url: str, kafka: str | None, settings: RelaySettings) -> None:
    await _check_version(url, settings.db_schema)
    _collect_rarely()
    async with event_log(kafka, url, settings.db_schema) as its_log:
        service = Relay(url, its_log, settings)
        where = kafka or "the Postgres log of this database"
        log.info("relay starts", name=service.name, database=shown_url(url), log=where)
        await serve(service)
    log.info("relay stopped; its shards are free for others", name=service.name)


def _collect_rarely() -> None:
    """A relay makes a million short-lived values a second and no cycles among them: at Python's default threshold the
    collector takes a third of its time (measured). What lives now lives on."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


async def _check_version(url: str, schema: str) -> None:
    version = await current_version(url, schema=schema)
    if version != newest_version():
        raise SchemaOutdated(
            f"The schema {schema} at {shown_url(url)} is at version {version or 'none'}, this relay needs "
            f"{newest_version()}. Run: surefoot migrate --database …"
        )


def _serve_metrics(port: int) -> None:
    try:
        start_http_server(port)
    except OSError as error:
        raise ConfigurationError(
            f"Metrics cannot be served on port {port}: {error}. Choose another --metrics-port."
        ) from error
