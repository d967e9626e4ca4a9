"""`surefoot dlq serve`: the dead-letter service, until stopped. Intake, answers, jobs, housekeeping, the admin API."""

import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from surefoot.cli import running
from surefoot.cli.deployment import settings_of
from surefoot.cli.event_log import event_log
from surefoot.cli.loading import load_catalogue
from surefoot.cli.options import Catalogues, Database, Kafka, LogFormatOption, Schema, required_database
from surefoot.cli.processes import MetricsPort, check_version, collect_rarely, serve_metrics
from surefoot.cli.running import Service
from surefoot.database.schema import DEFAULT_SCHEMA, checked_schema
from surefoot.errors import ConfigurationError
from surefoot.http.listening import listening, url_of
from surefoot.telemetry.logging import set_up_logging

if TYPE_CHECKING:
    from surefoot.audit.settings import AccessSettings
    from surefoot.dlq.settings import DlqSettings
    from surefoot.events import Catalogue


def serve(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="The address to serve at.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to serve at; 0 takes a free one. It is printed.")
    ] = 8090,
    open_: Annotated[
        bool, typer.Option("--open", help="Let in whoever reaches it, without a token. Only at 127.0.0.1.")
    ] = False,
    kafka: Kafka = None,
    database: Database = None,
    catalogue: Catalogues = None,
    schema: Schema = DEFAULT_SCHEMA,
    metrics_port: MetricsPort = None,
    log_format: LogFormatOption = "text",
) -> None:
    """Collect dead letters and serve them to operators, until Ctrl-C: groups, replays, discards, and who did what.

    `surefoot dlq serve --database postgresql://… --kafka localhost:9092`. Start as many as you like; they share the
    work. People need a token: `surefoot dlq token create`, or an issuer of JWTs (SUREFOOT_DLQ_JWT_JWKS …). How it runs
    is set by the environment: SUREFOOT_DLQ_RETENTION, SUREFOOT_DLQ_RESEND_AFTER …
    """
    from surefoot.audit.settings import AccessSettings
    from surefoot.dlq.settings import DlqSettings

    set_up_logging(log_format)
    url = required_database(database)
    types = load_catalogue(catalogue or [])
    settings = settings_of(context, DlqSettings)(db_schema=checked_schema(schema))
    people = settings_of(context, AccessSettings)()
    if metrics_port is not None:
        serve_metrics(metrics_port)
    remedy = "Choose another --port or --host; 0 takes a free port."
    with listening(host, port, refusal="Dead letters cannot be served", remedy=remedy) as listener:
        running.run(_serve(url, kafka, Served(listener, host, open_), types, settings, people))
    typer.echo("The dead-letter service has stopped; others go on with its jobs.")


@dataclass(frozen=True, slots=True)
class Served:
    """Where it is served, and whether to whoever comes."""

    listener: socket.socket
    host: str
    is_open: bool


async def _serve(
    url: str,
    kafka: str | None,
    at: Served,
    catalogue: "Catalogue",
    settings: "DlqSettings",
    people: "AccessSettings",
) -> None:
    import structlog

    from surefoot.admin.app import api
    from surefoot.audit.access import check_access
    from surefoot.database.connection import shown_url
    from surefoot.dlq.runtime import DlqRuntime
    from surefoot.http.server import HttpService

    log = structlog.get_logger("surefoot.dlq")
    schema = settings.db_schema
    await check_version(url, schema)
    access = await check_access(url, schema, people, host=at.host, open_=at.is_open)
    collect_rarely()
    async with event_log(kafka, url, schema) as its_log:
        http = HttpService(api(url, schema, settings, access, catalogue), at.listener)
        runtime = DlqRuntime(url, its_log, settings)
        where = kafka or "the Postgres log of this database"
        log.info("dead-letter service starts", database=shown_url(url), log=where, open=at.is_open)
        typer.echo(f"Dead letters are at {url_of(at.listener)}/admin/dlq/groups (Ctrl-C stops it)")
        sys.stdout.flush()
        await running.serve(Together(http, runtime))
    if not http.has_started:
        raise ConfigurationError("The dead-letter service could not be started: the log above says why.")


class Together:
    """Services that run beside each other. If one ends or fails, all are stopped."""

    def __init__(self, *services: Service) -> None:
        self._services = services

    def stop(self) -> None:
        for service in self._services:
            service.stop()

    async def run(self) -> None:
        import asyncio

        tasks = [asyncio.create_task(service.run()) for service in self._services]
        for task in tasks:
            task.add_done_callback(lambda _: self.stop())
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for one in ended:
            if isinstance(one, BaseException):
                raise one
