"""`surefoot services`: run the reference services, open their front doors, check their books."""

from contextlib import suppress
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from consumers.command import run_services
from services.payment.api.command import payments
from services.provider.command import provider
from surefoot.cli.command import Database, Open, required_database, run
from surefoot.errors import ConfigurationError
from surefoot.http.listening import listening, refuse_others

console = Console(highlight=False, soft_wrap=True)
SHOWN = 50
"""So many contradictions are told one by one."""
OPEN_DOORS = (
    "the front doors have no access control: whoever reaches them buys at any price. Put what guards your own services "
    "in front of 127.0.0.1; or say --open."
)
CLOSED = "The front doors cannot be opened"
app = typer.Typer(no_args_is_help=True, help="The reference services: a shop that the platform's sagas drive.")
app.command("run")(run_services)


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
    from surefoot.http.server import KEEP_ALIVE_S

    settings = ServiceSettings(database=required_database(database))
    if not open_:
        refuse_others(host, OPEN_DOORS)
    server = uvicorn.Server(uvicorn.Config(front_doors(settings), log_level="warning", timeout_keep_alive=KEEP_ALIVE_S))
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
