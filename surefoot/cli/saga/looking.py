"""`surefoot saga list|show|serve`: look at sagas, from a terminal or over HTTP."""

import re
import socket
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from surefoot.cli.command import (
    AsJson,
    Database,
    Limit,
    LogFormatOption,
    Open,
    Schema,
    as_id,
    choice,
    operate,
    required_database,
    run,
)
from surefoot.cli.loading import load_sagas
from surefoot.cli.process import OTHER_ADDRESS, Host, Port, announce, check_version
from surefoot.cli.process import serve as serve_until_stopped
from surefoot.cli.saga.deciding import Sagas
from surefoot.cli.show import console, print_json, say_if_cut
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError
from surefoot.http.listening import listening, refuse_others, url_of
from surefoot.telemetry.logging import set_up_logging

if TYPE_CHECKING:
    from surefoot.database.connection import Connection
    from surefoot.orchestrator.looking import Looking
    from surefoot.orchestrator.registry import Registry
    from surefoot.orchestrator.views import SagaLine, SagaView
    from surefoot.saga.instance import Status

NAME = "surefoot-saga"
STATUSES: "tuple[Status, ...]" = (
    "RUNNING",
    "COMPENSATING",
    "PAUSED",
    "COMPLETED",
    "COMPENSATED",
    "FAILED",
    "STUCK",
)
"""All that there are, written down again: where they are declared takes long to load."""
HISTORY_SHOWN = 500
SEVERAL = 50
READ_BY_ALL = (
    "the read API has no access control of its own yet: whoever reaches it reads every saga. Put a proxy that knows "
    "who may in front of 127.0.0.1; or say --open."
)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d{1,6})\s?([smhd])")
app = typer.Typer()


@app.command("list")
def list_(
    status: Annotated[
        str | None, typer.Option(help=f"Only this status, one of {', '.join(STATUSES)}.", show_default=False)
    ] = None,
    saga_type: Annotated[str | None, typer.Option("--type", help="Only of this name.", show_default=False)] = None,
    step: Annotated[str | None, typer.Option(help="Only those that wait for this step.", show_default=False)] = None,
    entity: Annotated[
        str | None,
        typer.Option(help="Only those about this, such as an order's id; ended ones too.", show_default=False),
    ] = None,
    slow: Annotated[
        str | None,
        typer.Option(
            help="Only those that should move and have not for so long: 90s, 10m, 2h, 1d.",
            show_default=False,
            metavar="DURATION",
        ),
    ] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """List sagas under way: those stuck first, then those that have not changed for longest.

    With --status COMPLETED, COMPENSATED or FAILED: ended ones, newest first.
    """
    from surefoot.cli.saga.shown import print_line
    from surefoot.orchestrator.looking import Looking, Wanted

    wanted = Wanted(
        None if status is None else choice(status, STATUSES, "is not a status. Choose"),
        saga_type,
        step,
        entity,
        None if slow is None else _duration(slow),
        under_way=status is None and entity is None,
    )

    async def work(connection: "Connection") -> "list[SagaLine]":
        return await Looking(connection, schema).pressing(wanted, limit)

    sagas = operate(work, database, name=NAME)
    if as_json:
        print_json([saga.model_dump(mode="json") for saga in sagas])
        return
    for saga in sagas:
        print_line(saga)
    if not sagas:
        narrowed = any((status, saga_type, step, entity, slow))
        console.print("There is no saga that fits." if narrowed else "No saga is under way.")
    say_if_cut(len(sagas), limit)


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="SAGA_ID|ENTITY_ID",
            help="The saga's id, as `surefoot saga list` shows it; or what it is about, such as an order's id.",
            show_default=False,
        ),
    ],
    sagas: Sagas = None,
    as_json: AsJson = False,
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """Show one saga: where it stands and what you can do, its steps, its history, and what is parked for it."""
    from surefoot.cli.saga.shown import print_saga, where_it_stands
    from surefoot.orchestrator.looking import Looking
    from surefoot.orchestrator.possible import needs_result, possible

    async def work(connection: "Connection") -> None:
        looking = Looking(connection, schema)
        registry = _registry(sagas)
        async with connection.transaction():
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            saga = await _found(looking, name)
            history = await looking.latest(saga.saga_id, HISTORY_SHOWN)
            parked = await looking.parked(saga, registry)
            instance = await looking.standing(saga.saga_id)
        of = (saga.saga_type, saga.definition_version)
        definition = None if registry is None else registry.definitions.get(of)
        can = None if definition is None else possible(definition, instance)
        if not as_json:
            print_saga(saga, can, definition is not None and needs_result(definition, instance), history, parked)
            if len(history) == HISTORY_SHOWN:
                console.print(f"The history has more lines: these are the last {HISTORY_SHOWN}.")
            return
        made = {
            "sentence": where_it_stands(saga, history),
            "can": None if can is None else list(can),
            "saga": saga.model_dump(mode="json"),
            "history": [line.model_dump(mode="json") for line in history],
            "parked": [one.model_dump(mode="json") for one in parked],
        }
        print_json(made)

    operate(work, database, name=NAME)


async def _found(looking: "Looking", name: str) -> "SagaView":
    """By its id, or as the only one about an entity."""
    from surefoot.orchestrator.looking import Wanted, ids_of

    saga_id = as_id(name)
    found = None if saga_id is None else await looking.get(saga_id)
    if found is not None:
        return found
    sagas: list[SagaLine] = await looking.page(Wanted(entity=name), None, SEVERAL)
    if not sagas:
        raise ConfigurationError(
            f"There is no saga {name!r}, and none about it. `surefoot saga list` shows those under way; those that "
            "ended long ago are removed."
        )
    if len(sagas) > 1:
        raise ConfigurationError(f"{len(sagas)} sagas are about {name}: {ids_of(sagas)}. Say the id of the one meant.")
    only = await looking.get(sagas[0].saga_id)
    assert only is not None  # one transaction, one picture
    return only


def _registry(names: list[str] | None) -> "Registry | None":
    """None if there is none here. Looking goes without; but a mistake in --sagas is said."""
    from surefoot.orchestrator.registry import Registry

    try:
        return Registry(load_sagas(names))
    except ConfigurationError:
        if names:
            raise
        return None


def _duration(text: str) -> timedelta:
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError(f"{text!r} is no duration: write a number and s, m, h or d, such as 90s, 10m or 2h.")
    return timedelta(seconds=int(found[1]) * _UNITS[found[2]])


def serve(
    host: Host = "127.0.0.1",
    port: Port = 8080,
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
    with listening(host, port, refusal="Sagas cannot be served", remedy=OTHER_ADDRESS) as listener:
        run(_serve(url, schema, listener))
    typer.echo("The read API has stopped.")


async def _serve(url: str, schema: str, listener: socket.socket) -> None:
    from surefoot.http.server import HttpService  # FastAPI takes its time to load; the other commands go without
    from surefoot.orchestrator.http import api

    await check_version(url, schema)
    announce(f"Sagas are at {url_of(listener)}/sagas (Ctrl-C stops it)")
    service = HttpService(api(url, schema), listener)
    await serve_until_stopped(service)
    if not service.has_started:
        raise ConfigurationError("The read API could not be started: the log above says why.")
