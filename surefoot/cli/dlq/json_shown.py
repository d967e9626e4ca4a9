"""What a command prints for programs. Ours is what is read: no colours, no wrapping, times in ISO 8601."""

import json
from typing import Any

import typer


def print_json(what: Any) -> None:
    typer.echo(json.dumps(what, indent=2, default=str))
