"""`surefoot saga pause|resume|retry|skip|compensate`: a person's decision about one saga, with who and why."""

from collections.abc import Callable
from inspect import cleandoc
from typing import TYPE_CHECKING, Annotated

import typer

from surefoot.cli.command import Database, Schema, decider, operate, required_id, required_reason
from surefoot.cli.loading import load_sagas
from surefoot.cli.show import aside, console
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError

if TYPE_CHECKING:
    from surefoot.database.connection import Connection
    from surefoot.orchestrator.operators import Outcome
    from surefoot.orchestrator.possible import Given
    from surefoot.saga.stimulus import Verb

EXIT_NOT_NOW = 1
LONGEST_REASON = 2_000

app = typer.Typer()
SagaId = Annotated[
    str,
    typer.Argument(metavar="SAGA_ID", help="The saga's id, as `surefoot saga list` shows it.", show_default=False),
]
Reason = Annotated[
    str, typer.Option("--reason", help="Why; kept in the saga's history. Needed.", show_default=False, metavar="WHY")
]
By = Annotated[str, typer.Option("--by", help="Who decides; kept in the saga's history.", show_default="you")]
AnyStep = Annotated[
    str | None,
    typer.Option("--step", help="Only if the saga still waits for this step, as it did when you looked."),
]
AtVersion = Annotated[
    int | None,
    typer.Option("--version", help="Only if nothing was decided since this version, as `show` says it.", min=1),
]
Sagas = Annotated[
    list[str] | None,
    typer.Option(
        "--sagas",
        help="Where the definition is, as package.module:name; may be given more than once. Without it: those that "
        "SUREFOOT_SAGAS names, with commas between; else those of the project file.",
        show_default=False,
    ),
]
ThisStep = Annotated[
    str,
    typer.Option(
        "--step",
        help="The step that is taken as done, or undone. It has to be the one awaited. Needed.",
        show_default=False,
    ),
]
Result = Annotated[
    str | None,
    typer.Option(
        "--result",
        help="What the step's reply would have brought along: the data of that event, as JSON. Needed where later "
        "steps use it.",
        show_default=False,
        metavar="JSON",
    ),
]
ResultType = Annotated[
    str | None,
    typer.Option("--type", help="The event's type, where the step is done on several.", show_default=False),
]

MEANINGS: "dict[Verb, str]" = {
    "pause": "Have a saga do nothing until it is resumed. Its clock stops; replies that come are kept, in order.",
    "resume": "Let a paused saga go on. What came meanwhile acts first; if it moved nothing, the clock starts anew.",
    "retry": """Send the command of the step that a saga waits for once more, now.

    A saga that is STUCK gets as many attempts as the step had at first; one that is stuck because something did not
    come in time waits once more. A service that has carried the command out before answers as it did then.
    """,
    "compensate": "Undo all that a saga has done, in reverse, beginning with the step it waits for. Refused past the "
    "pivot.",
}
"""The verbs that are given alike, and what each is for."""


def _command(verb: "Verb") -> Callable[..., None]:
    def decide(
        saga_id: SagaId,
        reason: Reason = "",
        by: By = "",
        step: AnyStep = None,
        version: AtVersion = None,
        sagas: Sagas = None,
        database: Database = None,
        schema: Schema = DEFAULT_SCHEMA,
    ) -> None:
        _do(verb, saga_id, reason, by, step, version, sagas, database, schema)

    return decide


for _verb, _meaning in MEANINGS.items():
    app.command(_verb, help=cleandoc(_meaning))(_command(_verb))


@app.command()
def skip(
    saga_id: SagaId,
    step: ThisStep = "",
    reason: Reason = "",
    result: Result = None,
    type_: ResultType = None,
    by: By = "",
    version: AtVersion = None,
    sagas: Sagas = None,
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """Take the step that a saga waits for as done (or, where it is being undone, as undone), and go on.

    For what somebody did by hand. Nothing is sent to the service: that it is really so is your word, kept in the
    history with your reason.
    """
    from surefoot.orchestrator.possible import Given

    if not step:
        raise ConfigurationError(
            "Say which step is taken as done, with --step: between your look and your word the saga may have gone on "
            "to another. `surefoot saga show` says for which it waits."
        )
    if type_ is not None and result is None:
        raise ConfigurationError("--type says what --result is: give both, or neither.")
    given = None if result is None else Given(result, type_)
    _do("skip", saga_id, reason, by, step, version, sagas, database, schema, given)


def _do(
    verb: "Verb",
    saga_id: str,
    reason: str,
    by: str,
    step: str | None,
    version: int | None,
    sagas: list[str] | None,
    database: str | None,
    schema: str,
    given: "Given | None" = None,
) -> None:
    from surefoot.cli.saga.shown import outcome_told
    from surefoot.orchestrator import operators
    from surefoot.orchestrator.registry import Registry
    from surefoot.orchestrator.store import Store
    from surefoot.saga import NotNow
    from surefoot.saga.stimulus import Operated

    who = _checked(decider(by), "--by")
    why = _checked(required_reason(reason, "in the saga's history"), "--reason")
    operated = Operated(verb, who, why, step)
    wanted = str(required_id(saga_id, "a saga's id", f"surefoot saga list --entity {saga_id}"))
    registry = Registry(load_sagas(sagas))

    async def work(connection: "Connection") -> "Outcome":
        store = Store(registry, schema)
        return await operators.operate(connection, store, wanted, operated, given=given, version=version)

    try:
        outcome = operate(work, database, name=f"surefoot-saga-{verb}")
    except NotNow as error:
        aside.print(str(error), style="yellow")
        raise typer.Exit(EXIT_NOT_NOW) from None
    console.print(outcome_told(outcome))


def _checked(text: str, option: str) -> str:
    from surefoot.events.text import has_forbidden

    if len(text) > LONGEST_REASON:
        raise ConfigurationError(f"{option} has {len(text)} characters: say it in {LONGEST_REASON} or fewer.")
    if has_forbidden(text):
        raise ConfigurationError(
            f"{option} has characters in it that cannot be kept: write it as one line of plain text."
        )
    return text
