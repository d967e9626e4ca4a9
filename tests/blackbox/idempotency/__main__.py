"""`python -m tests.blackbox.idempotency http://localhost:8000`: play every case against a server of yours.

Exit codes: 0 all passed, 1 some failed, 2 the server cannot be reached.
"""

import asyncio
from typing import Annotated

import httpx
import typer
from rich.console import Console
from rich.table import Table

from tests.blackbox.idempotency.cases import CASES
from tests.blackbox.idempotency.running import Outcome, play_all
from tests.blackbox.idempotency.target import Target

EXIT_FAILED = 1
EXIT_AWAY = 2
DEFAULTS = Target("")


def main(
    base_url: Annotated[str, typer.Argument(help="Where the server is: http://localhost:8000")],
    only: Annotated[str, typer.Option(help="Play the cases with this text in their names.")] = "",
    longest_wait: Annotated[
        float, typer.Option(min=0, help="How many seconds it lets a request wait for another one with its key.")
    ] = DEFAULTS.longest_wait_s,
    patience: Annotated[
        float, typer.Option(min=1, help="How many seconds to wait for what must come.")
    ] = DEFAULTS.patience_s,
    mismatch_status: Annotated[
        int, typer.Option(help="What it answers a key with that was used for another request.")
    ] = DEFAULTS.mismatch_status,
    replay_header: Annotated[str, typer.Option(help="The header that marks a replay.")] = DEFAULTS.replay_header,
    largest_body: Annotated[
        int, typer.Option(min=100, help="The largest body it takes, in bytes.")
    ] = DEFAULTS.largest_body,
) -> None:
    """Play the cases against a server with the routes of tests/blackbox/idempotency/README.md, and say which it
    fails."""
    target = Target(
        base_url.rstrip("/"),
        replay_header=replay_header,
        mismatch_status=mismatch_status,
        longest_wait_s=longest_wait,
        largest_body=largest_body,
        patience_s=patience,
    )
    console = Console()
    _reach(target)
    cases = [case for case in CASES.values() if only.replace(" ", "_") in case.name]
    with console.status(f"Playing {len(cases)} cases …"):
        outcomes = asyncio.run(play_all(cases, target))
    console.print(_table(outcomes))
    failed = sum(outcome.failure is not None for outcome in outcomes)
    console.print(f"{len(outcomes) - failed} of {len(outcomes)} cases passed.")
    raise typer.Exit(EXIT_FAILED if failed or not outcomes else 0)


def _reach(target: Target) -> None:
    try:
        httpx.get(target.base_url, timeout=5, trust_env=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        typer.echo(f"There is no server at {target.base_url}: {error}. Start it, or correct the address.", err=True)
        raise typer.Exit(EXIT_AWAY) from error


def _table(outcomes: list[Outcome]) -> Table:
    table = Table("", "case", "what it did instead", box=None)
    for outcome in outcomes:
        sign = "[green]✓[/]" if outcome.failure is None else "[red]✗[/]"
        table.add_row(sign, outcome.case.sentence, (outcome.failure or "").replace("[", "\\["))
    return table


if __name__ == "__main__":
    typer.run(main)
