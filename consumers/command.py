"""The process that runs the shop's consumers: `python -m consumers` and `surefoot services run`."""

from typing import TYPE_CHECKING, Annotated

import typer

from surefoot.cli.command import Database, Kafka, LogFormatOption, required_database, run
from surefoot.cli.deployment import settings_of
from surefoot.cli.process import MetricsPort, check_version, collect_rarely, event_log, serve_health, stop_on_signals
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError
from surefoot.telemetry.logging import set_up_logging

if TYPE_CHECKING:
    from services.settings import Service
    from surefoot.consumer_runtime.settings import ConsumerSettings
    from surefoot.telemetry.health import Health

NAMES: "tuple[Service, ...]" = (
    "checkout",
    "order",
    "payment",
    "warehouse",
    "shipping",
    "returns",
    "notification",
    "flow",
)
"""The services in `consumers.runtime`, which takes long to load."""


def run_services(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(help=f"Which: {', '.join(NAMES)}. Without any: all of them.", metavar="SERVICE…"),
    ] = None,
    database: Database = None,
    kafka: Kafka = None,
    metrics_port: MetricsPort = None,
    log_format: LogFormatOption = "text",
) -> None:
    """Run services in one process until Ctrl-C. Each keeps its data in the database, or in one of its own
    (SUREFOOT_WAREHOUSE_DATABASE, …). Their tables are made if they are not there."""
    from surefoot.consumer_runtime.settings import ConsumerSettings

    set_up_logging(log_format)
    url = required_database(database)
    chosen = [service_of(name) for name in names or NAMES]
    health = serve_health(metrics_port)
    run(_run(chosen, url, kafka, settings_of(context, ConsumerSettings)(), health))


async def _run(
    services: "list[Service]", url: str, kafka: str | None, reading: "ConsumerSettings", health: "Health | None"
) -> None:
    import structlog

    from consumers.runtime import CONSUMERS, ServicesRuntime
    from services.settings import ServiceSettings
    from services.tables import create_tables
    from surefoot.cli.health import watched

    log = structlog.get_logger("surefoot.services")
    settings = ServiceSettings(database=url)
    for service in services:
        await check_version(settings.database_of(service), DEFAULT_SCHEMA)
        await create_tables(settings.database_of(service), service)
    collect_rarely()
    async with event_log(kafka, url, DEFAULT_SCHEMA) as its_log:
        runtime = ServicesRuntime(services, settings, its_log, reading)
        databases = {settings.database_of(service): DEFAULT_SCHEMA for service in services}
        topics = [topic.name for service in services for consumer in CONSUMERS[service] for topic in consumer.topics]
        whole = watched(health, runtime, databases, log=lambda: its_log.describe(sorted(set(topics))))
        stop_on_signals(whole)
        log.info("services start", services=list(services))
        await whole.run()
    log.info("services stopped", services=list(services))


def service_of(name: str) -> "Service":
    for service in NAMES:
        if service == name:
            return service
    raise ConfigurationError(f"{name!r} is no service that runs by itself: choose from {', '.join(NAMES)}.")
