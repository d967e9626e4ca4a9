"""Watching a job until it ends or waits for a person. Watching changes nothing: whoever stops it, the job goes on."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from surefoot.cli.dlq.client import Client, ServiceAway, ServiceRefused, as_view, path_to
from surefoot.cli.dlq.jobs_shown import print_end, print_made, standing
from surefoot.cli.dlq.json_shown import print_json
from surefoot.cli.show import console
from surefoot.dlq.jobs.views import JobMade, JobView

EXIT_NOT_WELL = 1
EXIT_INTERRUPTED = 130
LOOK_S = 0.4
AWAY_S = 120.0
"""A service that is started anew comes back; one that does not for so long is said to be away."""
LINES = 10
"""So often, about, a job tells where it stands, in a pipe."""


class Shows(Protocol):
    def update(self, job: JobView) -> None: ...


def told_or_followed(client: Client, answer: dict[str, Any], *, follow: bool, as_json: bool) -> None:
    """What became of the request for a job: that it was made, or, if it is followed, how it ended."""
    if follow:
        made = as_view(JobMade, answer)
        if not as_json:
            print_made(made)
        followed(client, str(made.job_id), as_json=as_json)
    elif as_json:
        print_json(answer)
    else:
        made = as_view(JobMade, answer)
        print_made(made)
        console.print(f"Watch it: surefoot dlq job {made.job_id} --follow")


def followed(client: Client, job_id: str, *, as_json: bool) -> None:
    """Watch it to its end, and say how it ended. Exit code 1 if somebody has to look at it."""
    try:
        with _shown(Console(stderr=True) if as_json else console) as bar:
            job = _last(client, job_id, bar)
    except KeyboardInterrupt:
        Console(stderr=True, highlight=False, soft_wrap=True, markup=False).print(
            f"You no longer watch; the job goes on. Look: surefoot dlq job {job_id}. "
            f'Stop it: surefoot dlq cancel {job_id} --reason "…"',
            style="yellow",
        )
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if as_json:
        print_json(job.model_dump(mode="json"))
    else:
        print_end(job)
    if job.status != "DONE" or job.failed:
        raise typer.Exit(EXIT_NOT_WELL)


def look_at(client: Client, job_id: str) -> JobView:
    return as_view(JobView, client.get(path_to("jobs", job_id)))


def _last(client: Client, job_id: str, bar: Shows) -> JobView:
    """As it stands when it has ended, or waits for a person."""
    away_since: float | None = None
    while True:
        try:
            job = look_at(client, job_id)
        except (ServiceAway, ServiceRefused) as error:
            if isinstance(error, ServiceRefused) and error.status not in (429, 502, 503, 504):
                raise
            away_since = away_since or time.monotonic()
            if time.monotonic() - away_since > AWAY_S:
                raise
        else:
            away_since = None
            bar.update(job)
            if job.status in ("DONE", "CANCELLED", "PAUSED"):
                return job
        time.sleep(LOOK_S)


@contextmanager
def _shown(where: Console) -> Iterator[Shows]:
    if not where.is_terminal:
        yield _Lines(where)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=where, transient=True) as progress:
        yield _Bar(progress)


class _Bar:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None

    def update(self, job: JobView) -> None:
        if self._task is None:
            self._task = self._progress.add_task(job.kind, total=job.total)
        self._progress.update(
            self._task, description=standing(job), completed=job.answered + job.cancelled, total=job.total
        )


class _Lines:
    """A line whenever a tenth more is answered, or the status has changed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told: tuple[str, int] | None = None

    def update(self, job: JobView) -> None:
        done = job.answered + job.cancelled
        now = (job.status, done * LINES // max(1, job.total))
        if now != self._told:
            self._told = now
            self._console.print(f"{standing(job)}: {done:,} of {job.total:,}")
