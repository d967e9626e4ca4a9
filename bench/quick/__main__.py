"""`python -m bench.quick [--base REF] [--json]`: is the working tree slower than another commit?

Exit codes: 0 no path is slower, 1 one is, 2 it could not be measured, 130 interrupted.
"""

import asyncio
import json
import os
import platform
import signal
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.quick.comparison import Measured, Say, compare
from bench.quick.ground import prepare_server, server
from bench.quick.paths import paths
from bench.quick.trees import REPOSITORY, Base, check_out, choose_base, commit_of_head, is_changed, tree
from bench.quick.verdict import ALLOWED, judge

RESULT = Path(__file__).resolve().parent.parent / "results" / "quick.json"
CORES = os.cpu_count() or 1
EXIT_SLOWER, EXIT_UNKNOWN, EXIT_INTERRUPTED = 1, 2, 130
SHOWN_STATEMENTS = 3
console = Console(stderr=True, highlight=False, soft_wrap=True)


def main(
    base: Annotated[str, typer.Option(help="The commit to compare with.", show_default=False)] = "",
    rounds: Annotated[int, typer.Option(min=6, help="Rounds. With fewer than six there is no confidence.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Is the working tree slower than another commit? Compare processor time and statements per unit of work."""
    began = time.monotonic()
    try:
        chosen = choose_base(base or None)
        console.print(f"Comparing the working tree with {chosen.commit[:12]} ({chosen.why}).", markup=False)
        if (load := os.getloadavg()[0]) > CORES:
            console.print(
                f"The machine is busy (load {load:.0f}, {CORES} cores): ranges get wide, and it takes longer."
            )
        columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("starting Postgres")
            found = uvloop.run(_measure(chosen, rounds, lambda now: progress.update(task, description=now)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("Interrupted: nothing was measured.")
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:  # a traceback would end with exit code 1, which says "slower"
        first: BaseException = error
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        console.print(f"Not measured. {str(first) or type(first).__name__}", markup=False)
        sys.exit(EXIT_UNKNOWN)
    result = _result(chosen, found, time.monotonic() - began)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        _show(found)
        console.print(f"Written to {RESULT.relative_to(REPOSITORY)} after {result['seconds']} s.")
    sys.exit(EXIT_SLOWER if result["slower"] else 0)


async def _measure(base: Base, rounds: int, say: Say) -> dict[str, Measured]:
    measuring = asyncio.current_task()
    assert measuring is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, measuring.cancel)
    with server() as (postgres, folder):
        await prepare_server(postgres)
        check_out(base.commit, folder / "base")
        both = (tree("base", folder / "base", folder), tree("tree", REPOSITORY, folder))
        return await compare(postgres, both, paths(), folder, rounds, say)


def _result(base: Base, found: Mapping[str, Measured], seconds: float) -> dict[str, Any]:
    verdicts = {name: judge(measured.rounds) for name, measured in found.items()}
    return {
        "base": {"commit": base.commit, "chosen": base.why},
        "tree": {"commit": commit_of_head(), "uncommitted_changes": is_changed()},
        "slower": [name for name, verdict in verdicts.items() if verdict.is_slower],
        "allowed": ALLOWED,
        "paths": {
            name: {
                **asdict(verdicts[name]),
                "visible_from": verdicts[name].visible_from,
                "calls": {**measured.calls, "ratio": measured.ratio_of_calls},
                "rounds": [asdict(one) for one in measured.rounds],
            }
            for name, measured in found.items()
        },
        "seconds": round(seconds),
        "about": {
            "python": platform.python_version(),
            "cores": CORES,
            "load": round(os.getloadavg()[0], 1),
        },
    }


def _show(found: Mapping[str, Measured]) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("path", "µs", "ratio", "range", "notices", "statements", "calls", "verdict"):
        table.add_column(heading, no_wrap=True)
    verdicts = {name: judge(measured.rounds) for name, measured in found.items()}
    for name, verdict in verdicts.items():
        processor = verdict.processor
        table.add_row(
            name,
            f"{statistics.median(one.tree.processor_us for one in found[name].rounds):.1f}",
            f"{processor.median:.3f}",
            f"{processor.low:.3f} … {processor.high:.3f}",
            f"{verdict.visible_from:.0%}",
            f"{verdict.statements.median:.3f}",
            f"{found[name].ratio_of_calls:.3f}",
            "[red]slower[/]" if verdict.is_slower else "[green]no slower[/]",
        )
    Console(highlight=False).print(table)
    for name, verdict in verdicts.items():
        if verdict.is_slower:
            console.print(f"The {name} path is slower: {' and '.join(verdict.reasons)}.")
            _explain(found[name])


def _explain(measured: Measured) -> None:
    """Name the statements that there are more of."""
    more = measured.statements["tree"].copy()
    more.subtract(measured.statements["base"])
    for statement, count in more.most_common(SHOWN_STATEMENTS):
        if count * 100 > measured.statements["base"].total():
            console.print(f"  {count / measured.units:.3f} more per unit: [dim]{escape(statement)}[/]")


if __name__ == "__main__":
    typer.run(main)
