"""`surefoot orchestrate`: run sagas until stopped."""

from typing import TYPE_CHECKING, Annotated

import typer

from surefoot.cli.deployment import settings_of
from surefoot.cli.event_log import event_log
from surefoot.cli.options import Database, Kafka, LogFormatOption, Schema, required_database
from surefoot.cli.processes import MetricsPort, check_version, collect_rarely, serve_metrics
from surefoot.cli.running import run, serve
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError
from surefoot.telemetry.logging import set_up_logging

if TYPE_CHECKING:
    from surefoot.consumer import Consumer
    from surefoot.consumer_runtime.settings import ConsumerSettings
    from surefoot.log.port import EventLog
    from surefoot.orchestrator.settings import OrchestratorSettings
    from surefoot.saga import Saga


def orchestrate(
    context: typer.Context,
    sagas: Annotated[
        list[str] | None,
        typer.Argument(
            help="The sagas to run, each as package.module:name; a name may be a list of them. Every version that has "
            "sagas under way has to be among them. Without any: those of the project file.",
            show_default=False,
            metavar="SAGA…",
        ),
    ] = None,
    database: Database = None,
    kafka: Kafka = None,
    schema: Schema = DEFAULT_SCHEMA,
    metrics_port: MetricsPort = None,
    log_format: LogFormatOption = "text",
) -> None:
    """Run sagas until Ctrl-C: each begins on its start event, commands services, and ends: done, undone, or stuck in
    front of an operator.

    Start as many as you like; they share the work. Look with `surefoot saga list`, act with `surefoot saga retry`. How
    it runs is set by the environment: SUREFOOT_ORCHESTRATOR_GRACE, SUREFOOT_CONSUMER_BATCH_RECORDS …
    """
    from surefoot.cli.saga.loading import load_sagas
    from surefoot.consumer_runtime.settings import ConsumerSettings
    from surefoot.orchestrator.settings import OrchestratorSettings

    set_up_logging(log_format)
    url = required_database(database)
    found = load_sagas(sagas)
    settings = settings_of(context, OrchestratorSettings)(db_schema=schema)
    reading = settings_of(context, ConsumerSettings)(db_schema=schema, concurrency=settings.concurrency)
    if metrics_port is not None:
        serve_metrics(metrics_port)
    run(_orchestrate(found, url, kafka, settings, reading))


async def _orchestrate(
    sagas: "list[Saga]", url: str, kafka: str | None, settings: "OrchestratorSettings", reading: "ConsumerSettings"
) -> None:
    import structlog

    from surefoot.database.connection import shown_url
    from surefoot.orchestrator.runtime import OrchestratorRuntime

    log = structlog.get_logger("surefoot.orchestrator")
    await check_version(url, settings.db_schema)
    collect_rarely()
    async with event_log(kafka, url, settings.db_schema) as its_log:
        service = OrchestratorRuntime(sagas, url, its_log, settings, reading)
        await _check_topics(service.consumer, its_log)
        names = [f"{name} v{version}" for name, version in service.registry.definitions]
        where = kafka or "the Postgres log of this database"
        log.info("orchestrator starts", name=service.name, sagas=names, database=shown_url(url), log=where)
        await serve(service)
    log.info("orchestrator stopped; others go on with its sagas", name=service.name)


async def _check_topics(consumer: "Consumer", event_log: "EventLog") -> None:
    wanted = [name for topic in consumer.topics for name in (topic.name, topic.dead_letters.name)]
    missing = sorted(set(wanted) - set(await event_log.describe(wanted)))
    if missing:
        raise ConfigurationError(
            f"The log has no topic {', '.join(missing)}, which the sagas need. Run: surefoot topics create"
        )
