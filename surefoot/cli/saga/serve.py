"""`surefoot saga serve`: the read API over HTTP, until stopped."""

import socket
import sys
from typing import Annotated

import typer

from surefoot.cli import running
from surefoot.cli.options import Database, LogFormatOption, Open, Schema, required_database
from surefoot.cli.process import check_version
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError
from surefoot.http.listening import listening, refuse_others, url_of
from surefoot.telemetry.logging import set_up_logging

READ_BY_ALL = (
    "the read API has no access control of its own yet: whoever reaches it reads every saga. Put a proxy that knows "
    "who may in front of 127.0.0.1; or say --open."
)


def serve(
    host: Annotated[str, typer.Option(help="The address to serve at.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to serve at; 0 takes a free one. It is printed.")
    ] = 8080,
    open_: Open = False,
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
    log_format: LogFormatOption = "text",
) -> None:
    """Serve sagas over HTTP until Ctrl-C: where each stands, its history, how many wait for what. It only reads.

    GET /sagas, /sagas/{id}, /sagas/{id}/history, /sagas/summary, /healthz; all of it is described at /docs.
    """
    set_up_logging(log_format)
    url = required_database(database)
    if not open_:
        refuse_others(host, READ_BY_ALL)
    remedy = "Choose another --port or --host; 0 takes a free port."
    with listening(host, port, refusal="Sagas cannot be served", remedy=remedy) as listener:
        running.run(_serve(url, schema, listener))
    typer.echo("The read API has stopped.")


async def _serve(url: str, schema: str, listener: socket.socket) -> None:
    from surefoot.orchestrator.http_server import (
        ReadApi,  # FastAPI takes its time to load; the other commands go without
    )

    await check_version(url, schema)
    typer.echo(f"Sagas are at {url_of(listener)}/sagas (Ctrl-C stops it)")
    sys.stdout.flush()
    service = ReadApi(url, schema, listener)
    await running.serve(service)
    if not service.has_started:
        raise ConfigurationError("The read API could not be started: the log above says why.")
