"""What `surefoot saga verify|diagram` runs: find definitions, prove one, print the verdict."""

import time
from collections.abc import Iterator, Sequence

import typer
from rich.console import Console
from rich.markup import escape

from surefoot.cli.loading import load
from surefoot.errors import ConfigurationError
from surefoot.saga import Definition, Saga
from surefoot.saga.verify import MEANING, Limits, Proved, Violated
from surefoot.saga.verify import verify as explore

console = Console(highlight=False, soft_wrap=True)
progress = Console(stderr=True, highlight=False)
EXIT_INTERRUPTED = 130


def prove(definition: Definition, limits: Limits) -> Proved | Violated:
    seen = 0
    title = escape(title_of(definition))
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


def definitions(references: Sequence[str]) -> list[Definition]:
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


def title_of(definition: Definition) -> str:
    return f"{definition.name} version {definition.version}"
