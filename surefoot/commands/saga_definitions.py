"""`surefoot saga verify|diagram`: what can be said of a saga without running it.

Exit codes of verify: 0 proved, 1 violated, 2 nothing was proved (no such saga, a definition that is refused, too many
states), 130 interrupted.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from surefoot.commands.loading import load
from surefoot.errors import ConfigurationError
from surefoot.saga import Definition, Saga
from surefoot.saga.diagram import diagram as draw
from surefoot.saga.verify import MEANING, Limits, Proved, Violated
from surefoot.saga.verify import verify as explore

app = typer.Typer(no_args_is_help=True, help="Prove sagas, and draw them.")
console = Console(highlight=False, soft_wrap=True)
progress = Console(stderr=True, highlight=False)
EXIT_VIOLATED = 1
EXIT_INTERRUPTED = 130
DEFAULT = Limits()

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
    ] = DEFAULT.attempts,
    actions: Annotated[int, typer.Option(min=0, max=5, help="How often an operator acts.")] = DEFAULT.actions,
    states: Annotated[int, typer.Option(min=1, help="Give up when there are more.")] = DEFAULT.states,
) -> None:
    """Walk every way that sagas can go, whatever is late, repeated, refused or dead, and prove that each ends well.

    Or print the shortest way that does not, as messages to be read top to bottom. What is proved, and within which
    limits: docs/verifying-sagas.md.
    """
    limits = Limits(attempts=attempts, undo_attempts=attempts, actions=actions, states=states)
    verdicts = [_verify(definition, limits) for definition in _definitions(sagas)]
    if not all(isinstance(verdict, Proved) for verdict in verdicts):
        raise typer.Exit(EXIT_VIOLATED)


@app.command()
def diagram(sagas: Sagas) -> None:
    """Draw sagas as Mermaid flowcharts: full arrows lead on, dashed ones back."""
    for definition in _definitions(sagas):
        typer.echo(f"%% {_title(definition)}\n{draw(definition)}", nl=False)


def _verify(definition: Definition, limits: Limits) -> Proved | Violated:
    seen = 0
    title = escape(_title(definition))
    with progress.status(f"{title} …") as status:

        def watch(looked_at: int, known: int) -> None:
            nonlocal seen
            seen = looked_at
            status.update(f"{title}: {looked_at:,} states of {known:,} known so far")

        try:
            verdict = explore(definition, limits=limits, clock=time.perf_counter, watch=watch)
        except KeyboardInterrupt:
            console.print(f"{title}: interrupted after {seen:,} states. Nothing is proved.")
            raise typer.Exit(EXIT_INTERRUPTED) from None
    if isinstance(verdict, Proved):
        _show_proof(title, verdict)
    else:
        _show_violation(title, verdict)
    return verdict


def _show_proof(title: str, verdict: Proved) -> None:
    ends = " · ".join(f"{status} {count:,}" for status, count in verdict.ends.items() if count)
    console.print(
        f"[green]✓[/] {title} is proved: {verdict.states:,} states, {verdict.transitions:,} transitions, "
        f"{verdict.seconds:.1f} s  [dim]{ends}[/]"
    )


def _show_violation(title: str, verdict: Violated) -> None:
    console.print(
        f"[red]✗[/] {title} is wrong ({verdict.property}), found among {verdict.states:,} states in "
        f"{verdict.seconds:.1f} s. The shortest way there:"
    )
    width = max(len(line.what) for line in verdict.path)
    for number, line in enumerate(verdict.path, start=1):
        beside = f"  [dim]{escape(line.standing)}[/]" if line.standing else ""
        what = line.what.ljust(width) if beside else line.what
        console.print(f"  [dim]{number:>3}[/]  {escape(what)}{beside}")
    console.print(f"  [red]{escape(verdict.sentence)}[/]")
    console.print(f"  [dim]{verdict.property}: {escape(MEANING[verdict.property])}[/]")


def _definitions(references: Sequence[str]) -> list[Definition]:
    found = [definition for reference in references for definition in _in(load(reference), reference)]
    return list({id(definition): definition for definition in found}.values())


def _in(found: object, reference: str) -> Iterator[Definition]:
    if isinstance(found, Saga):
        yield found.definition
    elif isinstance(found, Definition):
        yield found
    elif isinstance(found, list | tuple) and found:
        for one in found:
            yield from _in(one, reference)
    else:
        raise ConfigurationError(
            f"{reference} is a {type(found).__name__} and no Saga: name the object that steps are added to, or a list "
            "of such."
        )


def _title(definition: Definition) -> str:
    return f"{definition.name} version {definition.version}"
