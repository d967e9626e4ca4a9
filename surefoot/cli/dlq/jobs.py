"""`surefoot dlq replay|edit|jobs|job|pause|resume|cancel|abandon`: try dead events again, watch it, and stop it."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.command import AsJson, Limit
from surefoot.cli.dlq.client import (
    DEFAULT_URL,
    Client,
    Follow,
    Ids,
    Token,
    Url,
    Why,
    as_view,
    checked_reason,
    connected,
    filtered,
    meant,
    path_to,
)
from surefoot.cli.dlq.letters import Id
from surefoot.cli.show import console, print_json
from surefoot.errors import ConfigurationError

if TYPE_CHECKING:
    from surefoot.dlq.jobs.views import ItemView

MOST_LOOKED_AT = 10_000
MOST_NOT_WELL = 20

app = typer.Typer()
JobId = Annotated[
    str, typer.Argument(metavar="JOB_ID", help="The job's id, as `surefoot dlq jobs` shows it.", show_default=False)
]


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


@app.command()
def jobs(limit: Limit = 20, as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None) -> None:
    """List jobs, newest first: replays, dry runs, discards."""
    from surefoot.cli.dlq.following import print_jobs
    from surefoot.dlq.jobs.views import JobLine

    with connected(url, token) as client:
        found = list(client.rows("/jobs", "jobs", {}, limit))
    if as_json:
        print_json(found)
    elif found:
        print_jobs([as_view(JobLine, one) for one in found])
    else:
        console.print("There has been no job yet.")


@app.command()
def job(
    job_id: JobId, follow: Follow = False, as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None
) -> None:
    """Show how far a job is, and which of its letters did not go well. With --follow: watch it to its end."""
    from surefoot.cli.dlq.following import followed, look_at, print_job

    with connected(url, token) as client:
        if follow:
            followed(client, job_id, as_json=as_json)
            return
        found = look_at(client, job_id)
        not_well = [] if as_json or not found.failed else _not_well(client, job_id)
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        print_job(found, not_well)


def _not_well(client: Client, job_id: str) -> "list[ItemView]":
    """The first of them."""
    from surefoot.dlq.jobs.views import ItemView

    found: list[ItemView] = []
    for row in client.rows(path_to("jobs", job_id, "items"), "items", {}, MOST_LOOKED_AT):
        item = as_view(ItemView, row)
        if item.counts_as == "failed":
            found.append(item)
            if len(found) == MOST_NOT_WELL:
                break
    return found


@app.command()
def pause(job_id: JobId, reason: Why = "", url: Url = DEFAULT_URL, token: Token = None) -> None:
    """Send nothing more of a job until it is resumed. What was sent is still answered.

    `surefoot dlq pause JOB_ID --reason "the warehouse is slow"`
    """
    _change("pause", job_id, reason, url, token)


@app.command()
def resume(job_id: JobId, reason: Why = "", url: Url = DEFAULT_URL, token: Token = None) -> None:
    """Let a paused job go on. If it had paused by itself, what had failed so far no longer counts against it.

    `surefoot dlq resume JOB_ID --reason "those three are known"`
    """
    _change("resume", job_id, reason, url, token)


@app.command()
def cancel(job_id: JobId, reason: Why = "", url: Url = DEFAULT_URL, token: Token = None) -> None:
    """Send nothing more of a job, for good. What was not sent is open again at once.

    `surefoot dlq cancel JOB_ID --reason "the fix is not complete"`. What was sent already may still take effect: it
    stays locked until its consumer has answered.
    """
    _change("cancel", job_id, reason, url, token)


@app.command()
def abandon(job_id: JobId, reason: Why = "", url: Url = DEFAULT_URL, token: Token = None) -> None:
    """Wait no more for the answers of a cancelled job: its consumer is gone. Needs ADMIN.

    `surefoot dlq abandon JOB_ID --reason "labels was taken out of service"`. What was sent is open again. If the
    consumer ever reads it, it does it once; replay or discard it then, and you are told that it was done.
    """
    _change("abandon", job_id, reason, url, token)


def _change(verb: str, job_id: str, reason: str, url: str, token: str | None) -> None:
    from surefoot.cli.dlq.following import standing
    from surefoot.dlq.jobs.views import JobView

    body = {"reason": checked_reason(reason)}
    with connected(url, token) as client:
        found = as_view(JobView, client.post(path_to("jobs", job_id, verb), body))
    console.print(f"{standing(found)}: {found.answered + found.cancelled:,} of {found.total:,}.")
