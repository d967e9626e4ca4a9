"""`surefoot services`: run the reference services, open their front doors, check their books."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from services.payment.api.command import payments
from services.provider.command import provider
from surefoot.cli.event_log import event_log
from surefoot.cli.options import Database, Kafka, LogFormatOption, Open, required_database
from surefoot.cli.processes import MetricsPort, check_version, collect_rarely, serve_metrics
from surefoot.cli.running import run, serve
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError
from surefoot.http.listening import listening, refuse_others
from surefoot.telemetry.logging import set_up_logging

if TYPE_CHECKING:
    from services.settings import Service

console = Console(highlight=False, soft_wrap=True)
SHOWN = 50
"""So many contradictions are told one by one."""
OPEN_DOORS = (
    "the front doors have no access control: whoever reaches them buys at any price. Put what guards your own services "
    "in front of 127.0.0.1; or say --open."
)
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
CLOSED = "The front doors cannot be opened"
app = typer.Typer(no_args_is_help=True, help="The reference services: a shop that the platform's sagas drive.")


@app.command("run")
def run_services(
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
    set_up_logging(log_format)
    url = required_database(database)
    chosen = [service_of(name) for name in names or NAMES]
    if metrics_port is not None:
        serve_metrics(metrics_port)
    run(_run(chosen, url, kafka))


async def _run(services: "list[Service]", url: str, kafka: str | None) -> None:
    import structlog

    from consumers.runtime import ServicesRuntime
    from services.settings import ServiceSettings
    from services.tables import create_tables
    from surefoot.consumer_runtime.settings import ConsumerSettings

    log = structlog.get_logger("surefoot.services")
    settings = ServiceSettings(database=url)
    for service in services:
        await check_version(settings.database_of(service), DEFAULT_SCHEMA)
        await create_tables(settings.database_of(service), service)
    collect_rarely()
    async with event_log(kafka, url, DEFAULT_SCHEMA) as its_log:
        runtime = ServicesRuntime(services, settings, its_log, ConsumerSettings())
        log.info("services start", services=list(services))
        await serve(runtime)
    log.info("services stopped", services=list(services))


@app.command()
def doors(
    database: Database = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to serve at.")] = 8000,
    host: Annotated[str, typer.Option(help="The address to serve at. There is no access control.")] = "127.0.0.1",
    open_: Open = False,
) -> None:
    """Open the HTTP front doors of checkout, order and returns, at one address, until Ctrl-C."""
    import uvicorn

    from services.doors import front_doors
    from services.settings import ServiceSettings

    settings = ServiceSettings(database=required_database(database))
    if not open_:
        refuse_others(host, OPEN_DOORS)
    server = uvicorn.Server(uvicorn.Config(front_doors(settings), log_level="warning"))
    listener = listening(host, port, refusal=CLOSED, remedy="Choose another --port or --host.")
    with listener, suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
    if not server.started:
        raise ConfigurationError("The front doors could not be opened: the log above says why.")


app.command("provider")(provider)
app.command("payments")(payments)


@app.command()
def check(database: Database = None) -> None:
    """Prove from the services' books, once nothing is under way, that money and stock are conserved, and that the books
    of one service fit those of the others.

    Exit codes: 0 all adds up, 1 it does not, 2 the books cannot be read.
    """
    from services.checks import contradictions
    from services.settings import ServiceSettings

    found = run(contradictions(ServiceSettings(database=required_database(database))))
    for sentence in found[:SHOWN]:
        console.print(f"[red]✗[/] {escape(sentence)}")
    if len(found) > SHOWN:
        console.print(f"… and {len(found) - SHOWN} more.")
    if found:
        raise typer.Exit(1)
    console.print("[green]✓[/] Money and stock add up, to the cent and piece, and the services' books agree.")


@app.command()
def tables(database: Database = None) -> None:
    """Make the tables of every service, where they are not there yet."""
    from services.settings import SERVICES, ServiceSettings
    from services.tables import create_tables

    settings = ServiceSettings(database=required_database(database))

    async def make() -> None:
        for service in SERVICES:
            await create_tables(settings.database_of(service), service)

    run(make())
    console.print(f"[green]✓[/] The tables of {len(SERVICES)} services are there.")


def service_of(name: str) -> "Service":
    for service in NAMES:
        if service == name:
            return service
    raise ConfigurationError(f"{name!r} is no service that runs by itself: choose from {', '.join(NAMES)}.")
