"""`surefoot dlq groups|list|show|reveal|export`: what is broken, and what is known of it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.dlq.json_shown import print_json
from surefoot.cli.dlq.options import DEFAULT_URL, AsJson, Limit, Token, Url, Why, checked_reason, connected, filtered
from surefoot.errors import ConfigurationError

app = typer.Typer()
Id = Annotated[
    str,
    typer.Argument(metavar="ID", help="The dead letter's id, as `surefoot dlq list` shows it.", show_default=False),
]


@app.command()
@filtered
def groups(
    wanted: dict[str, str],
    limit: Limit = 50,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """What is broken: dead letters with one cause together, with how many of them are open.

    Begin here. `surefoot dlq groups --status OPEN`, then `surefoot dlq list --group FINGERPRINT`.
    """
    from surefoot.cli.dlq.client import as_view
    from surefoot.cli.dlq.letters_shown import print_groups
    from surefoot.cli.show import console
    from surefoot.dlq.letters.views import Group

    with connected(url, token) as client:
        found = list(client.rows("/groups", "groups", wanted, limit))
    if as_json:
        print_json(found)
    elif found:
        print_groups([as_view(Group, one) for one in found])
        _say_if_cut(len(found), limit)
    else:
        console.print("Nothing that fits is dead." if wanted else "Nothing is dead.")


@app.command("list")
@filtered
def list_(
    wanted: dict[str, str],
    limit: Limit = 50,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """List dead letters, newest first: `surefoot dlq list --consumer warehouse --status OPEN --failed-after 2h`."""
    from surefoot.cli.dlq.client import as_view
    from surefoot.cli.dlq.letters_shown import print_letters
    from surefoot.cli.show import console
    from surefoot.dlq.letters.views import EventLine

    with connected(url, token) as client:
        found = list(client.rows("/events", "events", wanted, limit))
    if as_json:
        print_json(found)
    elif found:
        print_letters([as_view(EventLine, one) for one in found])
        _say_if_cut(len(found), limit)
    else:
        console.print("There is no dead letter that fits." if wanted else "There is no dead letter.")


@app.command()
def show(letter_id: Id, as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None) -> None:
    """Show one dead letter: why it is dead, attempts and stack, its masked payload, its flow, and what waits for it.

    It says which commands can be given now. `surefoot dlq show 0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b11`
    """
    from surefoot.cli.dlq.client import as_view, path_to
    from surefoot.cli.dlq.letters_shown import print_letter
    from surefoot.dlq.letters.views import EventView

    with connected(url, token) as client:
        found = client.get(path_to("events", letter_id))
    if as_json:
        print_json(found)
    else:
        print_letter(as_view(EventView, found))


@app.command()
def reveal(
    letter_id: Id, reason: Why = "", as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None
) -> None:
    """Show a dead letter's payload unmasked. For ADMIN; who looked, and why, is in the audit log.

    `surefoot dlq reveal ID --reason "the buyer asks where the parcel went"`
    """
    from surefoot.cli.dlq.client import as_view, path_to
    from surefoot.cli.dlq.letters_shown import print_revealed
    from surefoot.dlq.letters.views import Revealed

    body = {"reason": checked_reason(reason)}
    with connected(url, token) as client:
        found = client.post(path_to("events", letter_id, "reveal"), body)
    if as_json:
        print_json(found)
    else:
        print_revealed(as_view(Revealed, found))


@app.command()
@filtered
def export(
    wanted: dict[str, str],
    format_: Annotated[str, typer.Option("--format", help="csv or jsonl.")] = "csv",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write. Without it: what is printed.")
    ] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Export dead letters with masked payloads. For ADMIN; it is in the audit log.

    `surefoot dlq export --consumer warehouse --format jsonl --output letters.jsonl`
    """
    from surefoot.cli.show import console

    if format_ not in ("csv", "jsonl"):
        raise ConfigurationError(f"--format {format_!r} is not known: take csv or jsonl.")
    with connected(url, token) as client:
        parts = client.download("/export", {**wanted, "format": format_})
        if output is None:
            for part in parts:
                sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
        else:
            console.print(f"{_written(parts, output)} bytes are in {output}.")


def _written(parts: Iterator[bytes], path: Path) -> int:
    first = next(parts, b"")  # a refusal comes before the file is opened
    try:
        with path.open("wb") as file:
            written = file.write(first)
            for part in parts:
                written += file.write(part)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error}. Choose another --output.") from error
    return written


def _say_if_cut(shown: int, limit: int) -> None:
    from surefoot.cli.show import console

    if shown == limit:
        console.print(f"There may be more: these are the first {limit} (see --limit).")
