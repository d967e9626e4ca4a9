"""`surefoot saga verify|diagram`: what can be said of a saga without running it.

Exit codes of verify: 0 proved, 1 violated, 2 nothing was proved (no such saga, a definition that is refused, too many
states), 130 interrupted.
"""

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from surefoot.cli.loading import load_definitions
from surefoot.cli.show import aside, styled

if TYPE_CHECKING:
    from surefoot.saga import Definition
    from surefoot.saga.verify import Limits, Proved, Violated

app = typer.Typer(no_args_is_help=True, help="Prove sagas, and draw them.")
EXIT_VIOLATED = 1
EXIT_INTERRUPTED = 130
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
    from surefoot.saga.verify import Limits, Proved

    limits = Limits(attempts=attempts, undo_attempts=attempts, actions=actions, states=states)
    verdicts = [_prove(definition, limits) for definition in load_definitions(sagas)]
    if not all(isinstance(verdict, Proved) for verdict in verdicts):
        raise typer.Exit(EXIT_VIOLATED)


@app.command()
def diagram(sagas: Sagas) -> None:
    """Draw sagas as Mermaid flowcharts: full arrows lead on, dashed ones back."""
    from surefoot.saga.diagram import diagram as draw

    for definition in load_definitions(sagas):
        typer.echo(f"%% {_title_of(definition)}\n{draw(definition)}", nl=False)


def _prove(definition: "Definition", limits: "Limits") -> "Proved | Violated":
    from surefoot.saga import verify as verifier

    seen = 0
    title = escape(_title_of(definition))
    with aside.status(f"{title} …") as status:

        def watch(looked_at: int, known: int) -> None:
            nonlocal seen
            seen = looked_at
            status.update(f"{title}: {looked_at:,} states of {known:,} known so far")

        try:
            verdict = verifier.verify(definition, limits=limits, clock=time.perf_counter, watch=watch)
        except KeyboardInterrupt:
            styled.print(f"{title}: interrupted after {seen:,} states. Nothing is proved.")
            raise typer.Exit(EXIT_INTERRUPTED) from None
    if isinstance(verdict, verifier.Proved):
        _show_proof(title, verdict)
    else:
        _show_violation(title, verdict)
    return verdict


def _show_proof(title: str, verdict: "Proved") -> None:
    ends = " · ".join(f"{status} {count:,}" for status, count in verdict.ends.items() if count)
    styled.print(
        f"[green]✓[/] {title} is proved: {verdict.states:,} states, {verdict.transitions:,} transitions, "
        f"{verdict.seconds:.1f} s  [dim]{ends}[/]"
    )


def _show_violation(title: str, verdict: "Violated") -> None:
    from surefoot.saga.verify import MEANING

    styled.print(
        f"[red]✗[/] {title} is wrong ({verdict.property}), found among {verdict.states:,} states in "
        f"{verdict.seconds:.1f} s. The shortest way there:"
    )
    width = max(len(line.what) for line in verdict.path)
    for number, line in enumerate(verdict.path, start=1):
        beside = f"  [dim]{escape(line.standing)}[/]" if line.standing else ""
        what = line.what.ljust(width) if beside else line.what
        styled.print(f"  [dim]{number:>3}[/]  {escape(what)}{beside}")
    styled.print(f"  [red]{escape(verdict.sentence)}[/]")
    styled.print(f"  [dim]{verdict.property}: {escape(MEANING[verdict.property])}[/]")


def _title_of(definition: "Definition") -> str:
    return f"{definition.name} version {definition.version}"
