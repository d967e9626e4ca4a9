"""`surefoot saga …`: look at sagas, decide about them, prove and draw definitions, serve the read API.

Exit codes: 0 done; 1 nothing was changed, with the reason why not now; 2 it could not be tried; 130 interrupted.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar
from uuid import UUID

import typer

from surefoot.cli.command import operate
from surefoot.cli.options import Database, Schema
from surefoot.cli.running import run
from surefoot.cli.saga.deciding import Sagas
from surefoot.cli.saga.deciding import app as deciding
from surefoot.cli.saga.definitions import diagram, verify
from surefoot.cli.saga.serve import serve
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError

if TYPE_CHECKING:
    from surefoot.orchestrator.looking import Looking
    from surefoot.orchestrator.registry import Registry
    from surefoot.orchestrator.views import SagaLine, SagaView
    from surefoot.saga.instance import Status

T = TypeVar("T")
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

app = typer.Typer(
    no_args_is_help=True,
    help="""Sagas: which are stuck or slow and why; pause, resume, retry, skip or undo one; prove and draw definitions.

    Begin with `surefoot saga list --status STUCK`, then `surefoot saga show` with an id of it: it says in a sentence
    where the saga stands, and which commands can be given now.""",
)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


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
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Most lines to show.")] = 50,
    as_json: AsJson = False,
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """List sagas under way: those stuck first, then those that have not changed for longest.

    With --status COMPLETED, COMPENSATED or FAILED: ended ones, newest first.
    """
    from surefoot.cli.parked_shown import console
    from surefoot.cli.saga.sentences import parse_duration
    from surefoot.cli.saga.shown import print_json, print_line
    from surefoot.orchestrator.looking import Wanted

    wanted = Wanted(
        _status(status),
        saga_type,
        step,
        entity,
        None if slow is None else parse_duration(slow),
        under_way=status is None and entity is None,
    )

    async def work(looking: "Looking") -> None:
        sagas = await looking.pressing(wanted, limit)
        if as_json:
            print_json([saga.model_dump(mode="json") for saga in sagas])
            return
        for saga in sagas:
            print_line(saga)
        if not sagas:
            narrowed = any((status, saga_type, step, entity, slow))
            console.print("There is no saga that fits." if narrowed else "No saga is under way.")
        elif len(sagas) == limit:
            console.print(f"There may be more: these are the first {limit} (see --limit).")

    run(_with(database, schema, work))


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

    from surefoot.cli.parked_shown import console
    from surefoot.cli.saga.sentences import where_it_stands
    from surefoot.cli.saga.shown import print_json, print_saga
    from surefoot.orchestrator.possible import needs_result, possible

    async def work(looking: "Looking") -> None:
        registry = _registry(sagas)
        async with looking.connection.transaction():
            await looking.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
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

    run(_with(database, schema, work))


# The verbs, which decide; and what others bring: the read API, proofs and pictures of definitions.
app.registered_commands += deciding.registered_commands
app.command()(serve)
app.command()(verify)
app.command()(diagram)


async def _found(looking: "Looking", name: str) -> "SagaView":
    """By its id, or as the only one about an entity."""
    from surefoot.orchestrator.looking import Wanted, ids_of

    saga_id = _uuid(name)
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
    from surefoot.cli.saga.loading import load_sagas
    from surefoot.orchestrator.registry import Registry

    try:
        return Registry(load_sagas(names))
    except ConfigurationError:
        if names:
            raise
        return None


def _status(text: str | None) -> "Status | None":
    if text is None:
        return None
    for status in STATUSES:
        if text.upper() == status:
            return status
    raise ConfigurationError(f"{text!r} is not a status. Choose one of {', '.join(STATUSES)}.")


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


async def _with(database: str | None, schema: str, work: "Callable[[Looking], Awaitable[T]]") -> T:
    from surefoot.orchestrator.looking import Looking

    return await operate(Looking, work, database=database, schema=schema, name="surefoot-saga")
