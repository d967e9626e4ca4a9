"""A job in words, and watching one until it ends or waits for a person.

Watching changes nothing: if you stop it, the job goes on.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from surefoot.cli.dlq.client import REASON, Client, ServiceAway, ServiceRefused, as_view, path_to
from surefoot.cli.show import Column, aside, console, one_line, print_json, print_table, short_time, shown_time
from surefoot.dlq.jobs.views import ItemView, JobLine, JobMade, JobView, LeftOut

EXIT_NOT_WELL = 1
EXIT_INTERRUPTED = 130
LOOK_S = 0.4
AWAY_S = 120.0
"""A service that is started anew comes back; one that does not for so long is said to be away."""
LINES = 10
"""So often, about, a job tells where it stands, in a pipe."""
WORDS = {"replay": "replay", "discard": "discard", "supersede": "edited replay", "inspect": "dry run"}
_VERBS = {"RUNNING": ("pause", "cancel"), "PAUSED": ("resume", "cancel"), "CANCELLING": ("abandon",)}


class Shows(Protocol):
    def update(self, job: JobView) -> None: ...


def told_or_followed(client: Client, answer: dict[str, Any], *, follow: bool, as_json: bool) -> None:
    """What became of the request for a job: that it was made, or, if it is followed, how it ended."""
    if follow:
        made = as_view(JobMade, answer)
        if not as_json:
            _print_made(made)
        followed(client, str(made.job_id), as_json=as_json)
    elif as_json:
        print_json(answer)
    else:
        made = as_view(JobMade, answer)
        _print_made(made)
        console.print(f"Watch it: surefoot dlq job {made.job_id} --follow")


def followed(client: Client, job_id: str, *, as_json: bool) -> None:
    """Watch it to its end, and say how it ended. Exit code 1 if somebody has to look at it."""
    try:
        with _shown(aside if as_json else console) as bar:
            job = _last(client, job_id, bar)
    except KeyboardInterrupt:
        aside.print(
            f"You no longer watch; the job goes on. Look: surefoot dlq job {job_id}. "
            f'Stop it: surefoot dlq cancel {job_id} --reason "…"',
            style="yellow",
        )
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if as_json:
        print_json(job.model_dump(mode="json"))
    else:
        _print_end(job)
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


def _print_made(made: JobMade) -> None:
    what = WORDS[made.kind]
    console.print(f"Job {made.job_id} is under way: {what} of {letters_in_words(made.total)}.")
    print_left_out(made.left_out)


def print_jobs(jobs: Sequence[JobLine]) -> None:
    columns = [
        Column("job"),
        Column("what"),
        Column("status"),
        Column("letters", is_number=True),
        Column("by", wraps=True),
        Column("begun"),
        Column("why", wraps=True),
        Column("note", wraps=True),
    ]
    print_table(columns, [_job_row(job) for job in jobs])


def _job_row(job: JobLine) -> list[str]:
    return [
        str(job.id),
        WORDS[job.kind],
        job.status,
        f"{job.total:,}",
        job.created_by,
        short_time(job.created_at),
        job.reason,
        job.note or "",
    ]


def print_job(job: JobView, not_well: Sequence[ItemView]) -> None:
    console.print(f"{WORDS[job.kind].capitalize()} of {letters_in_words(job.total)}: {job.status}.", style="bold")
    if job.note:
        console.print(one_line(job.note))
    _print_verbs(job)
    ended = "" if job.ended_at is None else f", ended {shown_time(job.ended_at)}"
    console.print(f"\njob {job.id}, by {one_line(job.created_by)}: {one_line(job.reason)}")
    console.print(f"begun {shown_time(job.created_at)}{ended}")
    console.print(
        f"{job.ok:,} went well, {job.failed:,} did not, {job.sent:,} sent and not answered yet, {job.pending:,} not "
        f"sent yet, {job.cancelled:,} cancelled"
    )
    _print_answers(job)
    if not_well:
        console.print("\nthose that did not go well", style="bold")
        columns = [Column("letter"), Column("consumer"), Column("answer"), Column("what it said", wraps=True)]
        print_table(columns, [_item_row(item) for item in not_well])


def _item_row(item: ItemView) -> list[str]:
    return [str(item.dlq_id), item.consumer or "(gone)", item.answer or "", item.sentence or ""]


def _print_end(job: JobView) -> None:
    """How it ended; or why it stands still."""
    console.print(f"{WORDS[job.kind].capitalize()} of {letters_in_words(job.total)}: {job.status}.", style="bold")
    if job.note:
        console.print(one_line(job.note))
    _print_answers(job)
    if job.status == "PAUSED":
        _print_verbs(job)
    if job.failed:
        console.print(f"Which did not go well, and why: surefoot dlq job {job.id}")


def _print_answers(job: JobView) -> None:
    for answer, many in sorted(job.answers.items(), key=lambda one: -one[1]):
        console.print(f"  {answer}: {many:,}")
    if job.waiting_behind:
        console.print(f"{job.waiting_behind:,} later events wait behind them.")
    if job.past_retention:
        console.print(
            f"{job.past_retention:,} are past dedup retention: their consumer may have forgotten that they had effect."
        )


def _print_verbs(job: JobView) -> None:
    can = _VERBS.get(job.status, ())
    if can:
        console.print("You can:")
    for verb in can:
        console.print(f"  surefoot dlq {verb} {job.id} {REASON}")


def print_left_out(left_out: Sequence[LeftOut]) -> None:
    if left_out:
        said = ", ".join(f"{one.many:,} {one.why.replace('_', ' ')}" for one in left_out)
        console.print(f"Left out: {said}.")


def standing(job: JobView) -> str:
    """Where it stands, in a few words."""
    canary = " (canary)" if job.answered < job.canary and job.status == "RUNNING" else ""
    failed = f", {job.failed:,} not well" if job.failed else ""
    return f"{WORDS[job.kind]}{canary} {job.status}{failed}"


def letters_in_words(count: int) -> str:
    return "1 dead letter" if count == 1 else f"{count:,} dead letters"
