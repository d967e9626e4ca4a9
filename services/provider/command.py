"""`python -m services.provider`: run the simulated provider until Ctrl-C."""

import socket
import sys
from typing import Annotated

import typer

from services.provider.behaviour import LATE_MS, Shares
from surefoot.cli.command import required_database, run
from surefoot.errors import ConfigurationError, SurefootError

EXIT_FAILED = 2
EXIT_INTERRUPTED = 130
DEFAULT_PORT = 6070


def provider(
    database: Annotated[
        str | None,
        typer.Option(
            envvar=["SUREFOOT_PROVIDER_DATABASE", "SUREFOOT_DATABASE"],
            help="URL of the PostgreSQL that keeps its books: postgresql://user:password@host:5432/name. They are in "
            "the schema `provider`, which is made if it is not there.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to serve at.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to serve at; 0 takes a free one. It is printed.")
    ] = DEFAULT_PORT,
    decline: Annotated[float, typer.Option(min=0, max=1, help="Share of orders that are declined, for good.")] = 0.0,
    timeout_after_charge: Annotated[
        float, typer.Option(min=0, max=1, help="Share of orders that are charged, and the first call not answered.")
    ] = 0.0,
    late: Annotated[float, typer.Option(min=0, max=1, help="Share of orders whose first call is answered late.")] = 0.0,
    late_ms: Annotated[int, typer.Option(min=0, max=600_000, help="How late that is, in milliseconds.")] = LATE_MS,
    error: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share of orders whose first call is answered 500, half of them charged."),
    ] = 0.0,
) -> None:
    """Run a payment provider that only pretends, until Ctrl-C.

    It charges once for each Idempotency-Key (POST /charges), voids by that key (POST /charges/void), refunds once for
    each refund_request_id (POST /refunds), and shows its books (GET /charges/{key}, GET /ledger; all of it at /docs).
    What it answered is committed: kill it and start it again, and nothing is lost.

    Shares of all orders can be given trouble, always the same orders, and only on the first call, so that whoever
    tries again gets through. One order or key is given trouble by POST /behaviour.

    Exit codes: 0 stopped, 2 it could not be started.
    """
    from services.provider.app import serve_provider

    shares = Shares(decline, timeout_after_charge, late, error, late_ms)
    shares.rules()  # refused before anything is opened
    url = required_database(database)
    with _bound(host, port) as listener:
        run(serve_provider(url, shares, listener))
    typer.echo("The provider has stopped.")


def _bound(host: str, port: int) -> socket.socket:
    """The port is ours, and nobody can connect yet: who tries is refused, and not kept waiting until we are ready."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise ConfigurationError(
            f"The provider cannot be served at {host}:{port}: {error}. Choose another --port or --host; 0 takes a "
            "free port."
        ) from error
    return bound


def main() -> None:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(provider)
    try:
        app()
    except SurefootError as error:
        typer.echo(str(error), err=True)
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        typer.echo("Interrupted.", err=True)
        sys.exit(EXIT_INTERRUPTED)
