"""`surefoot saga verify|diagram`: what can be said of a saga without running it.

Exit codes of verify: 0 proved, 1 violated, 2 nothing was proved (no such saga, a definition that is refused, too many
states), 130 interrupted.
"""

from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Prove sagas, and draw them.")
EXIT_VIOLATED = 1
# Those of surefoot.saga.verify.Limits, which takes long to load.
ATTEMPTS = 2
ACTIONS = 1
STATES = 3_000_000

Sagas = Annotated[
    list[str],
    typer.Argument(
        help="Sagas, as package.module:name; the name may be that of one or of a list of them.",
        show_default=False,
        metavar="SAGA",
    ),
]


@app.command()
def verify(
    sagas: Sagas,
    attempts: Annotated[
        int, typer.Option(min=1, max=10, help="Attempts of each do and undo, if the saga grants as many.")
    ] = ATTEMPTS,
    actions: Annotated[int, typer.Option(min=0, max=5, help="How often an operator acts.")] = ACTIONS,
    states: Annotated[int, typer.Option(min=1, help="Give up when there are more.")] = STATES,
) -> None:
    """Walk every way that sagas can go, whatever is late, repeated, refused or dead, and prove that each ends well.

    Or print the shortest way that does not, as messages to be read top to bottom. What is proved, and within which
    limits: docs/verifying-sagas.md.
    """
    from surefoot.cli.saga.proofs import definitions, prove
    from surefoot.saga.verify import Limits, Proved

    limits = Limits(attempts=attempts, undo_attempts=attempts, actions=actions, states=states)
    verdicts = [prove(definition, limits) for definition in definitions(sagas)]
    if not all(isinstance(verdict, Proved) for verdict in verdicts):
        raise typer.Exit(EXIT_VIOLATED)


@app.command()
def diagram(sagas: Sagas) -> None:
    """Draw sagas as Mermaid flowcharts: full arrows lead on, dashed ones back."""
    from surefoot.cli.saga.proofs import definitions, title_of
    from surefoot.saga.diagram import diagram as draw

    for definition in definitions(sagas):
        typer.echo(f"%% {title_of(definition)}\n{draw(definition)}", nl=False)
