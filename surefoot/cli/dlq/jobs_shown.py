"""Jobs and approvals as an operator reads them: a plain sentence first, the detail under it."""

from collections.abc import Sequence

from surefoot.cli.dlq.letters_shown import short_time, shown_time
from surefoot.cli.show import Column, clean, console, print_table
from surefoot.dlq.jobs.views import ApprovalView, AskedLetter, ItemView, JobLine, JobMade, JobView, LeftOut

WORDS = {"replay": "replay", "discard": "discard", "supersede": "edited replay", "inspect": "dry run"}
_REASON = '--reason "…"'
_VERBS = {"RUNNING": ("pause", "cancel"), "PAUSED": ("resume", "cancel"), "CANCELLING": ("abandon",)}


def print_made(made: JobMade) -> None:
    what = WORDS[made.kind]
    console.print(f"Job {made.job_id} is under way: {what} of {_letters(made.total)}.")
    _print_left_out(made.left_out)


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


def print_job(job: JobView, not_well: Sequence[ItemView]) -> None:
    console.print(f"{WORDS[job.kind].capitalize()} of {_letters(job.total)}: {job.status}.", style="bold")
    if job.note:
        console.print(clean(job.note))
    _print_verbs(job)
    ended = "" if job.ended_at is None else f", ended {shown_time(job.ended_at)}"
    console.print(f"\njob {job.id}, by {clean(job.created_by)}: {clean(job.reason)}")
    console.print(f"begun {shown_time(job.created_at)}{ended}")
    console.print(
        f"{job.ok:,} went well, {job.failed:,} did not, {job.sent:,} sent and not answered yet, {job.pending:,} not "
        f"sent yet, {job.cancelled:,} cancelled"
    )
    print_answers(job)
    if not_well:
        console.print("\nthose that did not go well", style="bold")
        columns = [Column("letter"), Column("consumer"), Column("answer"), Column("what it said", wraps=True)]
        print_table(columns, [_item_row(item) for item in not_well])


def print_end(job: JobView) -> None:
    """How it ended; or why it stands still."""
    console.print(f"{WORDS[job.kind].capitalize()} of {_letters(job.total)}: {job.status}.", style="bold")
    if job.note:
        console.print(clean(job.note))
    print_answers(job)
    if job.status == "PAUSED":
        _print_verbs(job)
    if job.failed:
        console.print(f"Which did not go well, and why: surefoot dlq job {job.id}")


def print_answers(job: JobView) -> None:
    for answer, many in sorted(job.answers.items(), key=lambda one: -one[1]):
        console.print(f"  {answer}: {many:,}")
    if job.waiting_behind:
        console.print(f"{job.waiting_behind:,} later events wait behind them.")
    if job.past_retention:
        console.print(
            f"{job.past_retention:,} are past dedup retention: their consumer may have forgotten that they had effect."
        )


def standing(job: JobView) -> str:
    """Where it stands, in a few words."""
    canary = " (canary)" if job.answered < job.canary and job.status == "RUNNING" else ""
    failed = f", {job.failed:,} not well" if job.failed else ""
    return f"{WORDS[job.kind]}{canary} {job.status}{failed}"


def print_approvals(approvals: Sequence[ApprovalView]) -> None:
    columns = [
        Column("request"),
        Column("status"),
        Column("letters", is_number=True),
        Column("asked for by", wraps=True),
        Column("until"),
        Column("why", wraps=True),
    ]
    print_table(columns, [_approval_row(approval) for approval in approvals])


def print_approval(approval: ApprovalView) -> None:
    console.print(
        f"{clean(approval.requested_by)} asks to discard {_letters(approval.total)}: {approval.status}.", style="bold"
    )
    console.print(clean(approval.reason))
    _print_left_out(approval.left_out)
    if approval.status == "WAITING":
        console.print(f"Until {shown_time(approval.expires_at)} somebody else, a SUPER_ADMIN, can:")
        console.print(f"  surefoot dlq approve {approval.id} --set-hash {approval.set_hash} {_REASON}")
        console.print(f"  surefoot dlq refuse {approval.id} {_REASON}")
    elif approval.decided_by is not None:
        console.print(
            f"Decided by {clean(approval.decided_by)}, {shown_time(approval.decided_at)}: "
            f"{clean(approval.decision or '')}"
        )
    if approval.job_id is not None:
        console.print(f"It is carried out by the job {approval.job_id}: surefoot dlq job {approval.job_id}")


def print_asked(letters: Sequence[AskedLetter]) -> None:
    """What somebody asks to discard. Of very many, the oldest."""
    columns = [
        Column("letter"),
        Column("consumer"),
        Column("event type"),
        Column("key", wraps=True),
        Column("deaths", is_number=True),
        Column("error", wraps=True),
    ]
    print_table(columns, [_asked_row(letter) for letter in letters])


def _print_verbs(job: JobView) -> None:
    can = _VERBS.get(job.status, ())
    if can:
        console.print("You can:")
    for verb in can:
        console.print(f"  surefoot dlq {verb} {job.id} {_REASON}")


def _print_left_out(left_out: Sequence[LeftOut]) -> None:
    if left_out:
        said = ", ".join(f"{one.many:,} {one.why.replace('_', ' ')}" for one in left_out)
        console.print(f"Left out: {said}.")


def _letters(count: int) -> str:
    return "1 dead letter" if count == 1 else f"{count:,} dead letters"


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


def _item_row(item: ItemView) -> list[str]:
    return [str(item.dlq_id), item.consumer or "(gone)", item.answer or "", item.sentence or ""]


def _asked_row(letter: AskedLetter) -> list[str]:
    return [
        str(letter.dlq_id),
        letter.consumer or "(none)",
        letter.event_type or "(no event)",
        letter.key,
        f"{letter.deaths:,}",
        letter.error,
    ]


def _approval_row(approval: ApprovalView) -> list[str]:
    return [
        str(approval.id),
        approval.status,
        f"{approval.total:,}",
        approval.requested_by,
        short_time(approval.expires_at),
        approval.reason,
    ]
