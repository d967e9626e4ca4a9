"""`surefoot schemas export|check`: the JSON Schemas of the catalogue, and whether a change breaks anybody.

The exported files are the memory: what readers out there may rely on. So they are kept under version control, `check`
runs before every merge, and `export` does not overwrite them with a breaking change unless told to.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.command import Catalogues
from surefoot.cli.loading import load_catalogue
from surefoot.errors import ConfigurationError

if TYPE_CHECKING:
    from surefoot.events.json_schema import Change

app = typer.Typer(
    no_args_is_help=True, help="Export the contracts as JSON Schemas, and check them for breaking changes."
)

Directory = Annotated[Path, typer.Option(help="Where the exported files are.")]
DEFAULT_DIRECTORY = Path("schemas/json")


@app.command()
def export(
    catalogue: Catalogues = None,
    directory: Directory = DEFAULT_DIRECTORY,
    accept_breaking: Annotated[
        bool, typer.Option("--accept-breaking", help="Overwrite contracts even where that breaks readers.")
    ] = False,
) -> None:
    """Write one JSON Schema per event type and version."""
    from surefoot.events import json_schema

    declared = json_schema.export(load_catalogue(catalogue or []))
    exported = _read(directory)
    breaking = _breaking(exported, declared)
    if breaking and not accept_breaking:
        _list(breaking)
        typer.echo(
            "Nothing was written, because readers of these contracts would break. Declare a new version beside the old "
            "one; or, if nobody reads them yet, say --accept-breaking."
        )
        raise typer.Exit(1)
    directory.mkdir(parents=True, exist_ok=True)
    for name, document in declared.items():
        (directory / name).write_text(json_schema.render(document), encoding="utf-8", newline="\n")
    for name in exported.keys() - declared.keys():
        (directory / name).unlink()
    typer.echo(f"✓ {len(declared)} contracts are exported to {directory}.")


@app.command()
def check(catalogue: Catalogues = None, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Compare the declared contracts with the exported. Exit code 1 if a change breaks readers or is not exported."""
    from surefoot.events import json_schema

    declared = json_schema.export(load_catalogue(catalogue or []))
    breaking = _breaking(_read(directory), declared)
    if breaking:
        _list(breaking)
        typer.echo("These changes break readers of the contracts. Declare a new version beside the old one instead.")
        raise typer.Exit(1)
    stale = [name for name, document in declared.items() if not _is_current(directory / name, document)]
    if stale:
        for name in stale:
            typer.echo(f"✗ {name}")
        typer.echo(f"{len(stale)} contracts are not exported yet: run surefoot schemas export")
        raise typer.Exit(1)
    typer.echo(f"✓ All {len(declared)} contracts are as exported to {directory}.")


def _read(directory: Path) -> dict[str, dict[str, Any]]:
    """The exported documents. Other JSON files in the directory are none of our business."""
    documents = {}
    for path in sorted(directory.glob("*.v*.json")):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"The exported contract {path} cannot be read ({error}): take it from version control again."
            ) from None
        if isinstance(document, dict) and "x-surefoot" in document:
            documents[path.name] = document
    return documents


def _breaking(old: dict[str, dict[str, Any]], new: dict[str, dict[str, Any]]) -> "list[Change]":
    from surefoot.events.json_schema import compare_sets

    return [change for change in compare_sets(old, new) if change.breaking]


def _list(changes: "list[Change]") -> None:
    for change in changes:
        typer.echo(f"✗ {change.path}: {change.sentence}")


def _is_current(path: Path, document: dict[str, Any]) -> bool:
    from surefoot.events import json_schema

    # Bytes, so that an editor's line endings count as a difference too.
    return path.is_file() and path.read_bytes() == json_schema.render(document).encode("utf-8")
