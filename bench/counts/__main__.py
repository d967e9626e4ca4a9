"""`python -m bench.counts [--of REF] [--json] [--files]`: the shape of a tree, and the files that walks go through.

Exit codes: 0 counted, 2 it could not be counted, 130 interrupted.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from rich.console import Console
from rich.table import Table

from bench.counts.tree import Tree as SourceTree
from bench.counts.walks import Found, walk_all
from bench.quick.ground import prepare_server, server
from bench.quick.trees import REPOSITORY, CannotMeasure, check_out, choose_base, commit_of_head, is_changed, tree

EXIT_UNKNOWN, EXIT_INTERRUPTED = 2, 130
console = Console(stderr=True, highlight=False, soft_wrap=True)


def main(
    of: Annotated[str, typer.Option(help="The commit to count; the working tree without it.", show_default=False)] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    files: Annotated[bool, typer.Option(help="Name the files of each walk, too.")] = False,
) -> None:
    """Count files, lines and names, and the files in which functions run while something happens in the platform."""
    try:
        with tempfile.TemporaryDirectory(prefix="surefoot-counts-") as folder:
            root = REPOSITORY
            what = commit_of_head()[:12] + (", with uncommitted changes" if is_changed() else "")
            if of:
                chosen = choose_base(of)
                root, what = Path(folder), chosen.commit[:12]
                check_out(chosen.commit, root)
            shape = asdict(SourceTree(root).shape())
            with console.status("starting Postgres") as status:
                walks = uvloop.run(_walk(root, status.update))
    except CannotMeasure as error:
        console.print(str(error), style="red", markup=False)
        sys.exit(EXIT_UNKNOWN)
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("Interrupted.")
        sys.exit(EXIT_INTERRUPTED)
    if as_json:
        print(json.dumps({"commit": what, **shape, "walks": {name: sorted(found) for name, found in walks.items()}}))
    else:
        _show(what, shape, walks, files)


async def _walk(root: Path, say: Callable[[str], None]) -> Found:
    with server() as (postgres, folder):
        await prepare_server(postgres)
        return await walk_all(postgres, tree("tree", root, folder), folder, say)


def _show(what: str, shape: dict[str, int], walks: Found, files: bool) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right")
    table.add_column()
    for name, count in shape.items():
        table.add_row(f"{count:,}", name.replace("_", " "))
    for name, found in walks.items():
        table.add_row(f"{len(found):,}", f"files: {name}")
    shown = Console(highlight=False)
    shown.print(f"Counts of {what}", markup=False)
    shown.print(table)
    for name, found in walks.items() if files else ():
        shown.print(f"\n{name}", *sorted(found), sep="\n  ", markup=False)


if __name__ == "__main__":
    typer.run(main)
