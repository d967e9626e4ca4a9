"""`surefoot dlq replay|edit`: try dead events again, as they are or mended."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from surefoot.cli.dlq.letters import Id
from surefoot.cli.dlq.options import (
    DEFAULT_URL,
    AsJson,
    Follow,
    Ids,
    Token,
    Url,
    Why,
    checked_reason,
    connected,
    filtered,
    meant,
)
from surefoot.errors import ConfigurationError

app = typer.Typer()


@app.command()
@filtered
def replay(
    wanted: dict[str, str],
    ids: Ids = None,
    reason: Why = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing: ask the consumers how each of them stands.")
    ] = False,
    canary: Annotated[
        int, typer.Option(min=0, max=10_000, help="Try so many first, and go on only if all of them went well.")
    ] = 0,
    rate: Annotated[
        float | None, typer.Option(help="So many a second at most. Without it: as fast as they are answered.")
    ] = None,
    stop_on_error_rate: Annotated[
        float | None, typer.Option(help="Pause when more than this share has failed again: 0.1 is a tenth.")
    ] = None,
    follow: Follow = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Try dead events again: those with these ids, or all that the options name, as they are now.

    `surefoot dlq replay --group FINGERPRINT --dry-run --follow --reason "is it safe?"`, then
    `surefoot dlq replay --group FINGERPRINT --canary 5 --follow --reason "the price list is there now"`

    Exit codes: 0 well; 1 (with --follow) some failed again, or it was paused or cancelled; 2 it could not be done; 130
    you stopped watching, and the job goes on.
    """
    from surefoot.cli.dlq.following import told_or_followed

    body = {
        **meant(ids, wanted),
        "reason": checked_reason(reason),
        "dry_run": dry_run,
        "canary": canary,
        "rate": rate,
        "stop_on_error_rate": stop_on_error_rate,
    }
    with connected(url, token) as client:
        made = client.post("/replay", body)
        told_or_followed(client, made, follow=follow, as_json=as_json)


@app.command()
def edit(
    letter_id: Id,
    payload: Annotated[
        str,
        typer.Option(
            help="The event's new data: JSON, @file.json, or - to read it from the input.",
            show_default=False,
            metavar="JSON|@FILE|-",
        ),
    ] = "",
    reason: Why = "",
    follow: Follow = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Put a mended event in a dead one's place, for the consumer that gave up on it. For ADMIN.

    `surefoot dlq edit ID --payload @mended.json --follow --reason "the buyer says Switzerland"`. The mended event has
    an id of its own and names the old one as its cause; the old one is never tried again.
    """
    from surefoot.cli.dlq.client import path_to
    from surefoot.cli.dlq.following import told_or_followed

    body = {"payload": _payload(payload), "reason": checked_reason(reason)}
    with connected(url, token) as client:
        made = client.post(path_to("events", letter_id, "edit-replay"), body)
        told_or_followed(client, made, follow=follow, as_json=as_json)


def _payload(given: str) -> Any:
    if not given:
        raise ConfigurationError(
            "Say what the event is to be, with --payload: JSON, @file.json, or - to read it from the input. "
            '`surefoot dlq reveal ID --reason "…" --json` shows what it is now.'
        )
    text = sys.stdin.read() if given == "-" else _read(Path(given[1:])) if given.startswith("@") else given
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"--payload is no JSON: {error}.") from None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}.") from error
