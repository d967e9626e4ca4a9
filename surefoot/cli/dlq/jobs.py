"""`surefoot dlq jobs|job|pause|resume|cancel|abandon`: what is under way, and stopping it."""

from collections.abc import Callable
from inspect import cleandoc
from typing import TYPE_CHECKING, Annotated

import typer

from surefoot.cli.dlq.json_shown import print_json
from surefoot.cli.dlq.options import DEFAULT_URL, AsJson, Follow, Limit, Token, Url, Why, checked_reason, connected

if TYPE_CHECKING:
    from surefoot.cli.dlq.client import Client
    from surefoot.dlq.jobs.views import ItemView

MOST_LOOKED_AT = 10_000
MOST_NOT_WELL = 20

app = typer.Typer()
JobId = Annotated[
    str, typer.Argument(metavar="JOB_ID", help="The job's id, as `surefoot dlq jobs` shows it.", show_default=False)
]
MEANINGS = {
    "pause": """Send nothing more of a job until it is resumed. What was sent is still answered.

    `surefoot dlq pause JOB_ID --reason "the warehouse is slow"`""",
    "resume": """Let a paused job go on. If it had paused by itself, what had failed so far no longer counts against it.

    `surefoot dlq resume JOB_ID --reason "those three are known"`""",
    "cancel": """Send nothing more of a job, for good. What was not sent is open again at once.

    `surefoot dlq cancel JOB_ID --reason "the fix is not complete"`. What was sent already may still take effect: it
    stays locked until its consumer has answered.""",
    "abandon": """Wait no more for the answers of a cancelled job: its consumer is gone. Needs ADMIN.

    `surefoot dlq abandon JOB_ID --reason "labels was taken out of service"`. What was sent is open again. If the
    consumer ever reads it, it does it once; replay or discard it then, and you are told that it was done.""",
}


@app.command()
def jobs(limit: Limit = 20, as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None) -> None:
    """List jobs, newest first: replays, dry runs, discards."""
    from surefoot.cli.dlq.client import as_view
    from surefoot.cli.dlq.jobs_shown import print_jobs
    from surefoot.cli.show import console
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
    from surefoot.cli.dlq.following import followed, look_at
    from surefoot.cli.dlq.jobs_shown import print_job

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


def _command(verb: str) -> Callable[..., None]:
    def change(job_id: JobId, reason: Why = "", url: Url = DEFAULT_URL, token: Token = None) -> None:
        from surefoot.cli.dlq.client import as_view, path_to
        from surefoot.cli.dlq.jobs_shown import standing
        from surefoot.cli.show import console
        from surefoot.dlq.jobs.views import JobView

        body = {"reason": checked_reason(reason)}
        with connected(url, token) as client:
            found = as_view(JobView, client.post(path_to("jobs", job_id, verb), body))
        console.print(f"{standing(found)}: {found.answered + found.cancelled:,} of {found.total:,}.")

    return change


for _verb, _meaning in MEANINGS.items():
    app.command(_verb, help=cleandoc(_meaning))(_command(_verb))


def _not_well(client: "Client", job_id: str) -> "list[ItemView]":
    """The first of them."""
    from surefoot.cli.dlq.client import as_view, path_to
    from surefoot.dlq.jobs.views import ItemView

    found: list[ItemView] = []
    for row in client.rows(path_to("jobs", job_id, "items"), "items", {}, MOST_LOOKED_AT):
        item = as_view(ItemView, row)
        if item.counts_as == "failed":
            found.append(item)
            if len(found) == MOST_NOT_WELL:
                break
    return found
