"""Dead letters as an operator reads them: a plain sentence first, what can be done next, the detail under it."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from surefoot.cli.show import Column, clean, console, print_table
from surefoot.dlq.letters.views import EventLine, EventView, Group, History, Revealed, Waiting
from surefoot.events.text import printable

_MOST_SHOWN = 20_000
_REASON = '--reason "…"'


def print_groups(groups: Sequence[Group]) -> None:
    columns = [
        Column("group"),
        Column("open", is_number=True),
        Column("all", is_number=True),
        Column("consumer"),
        Column("event"),
        Column("first"),
        Column("last"),
        Column("what is wrong", wraps=True),
    ]
    print_table(columns, [_group_row(group) for group in groups])


def print_letters(letters: Sequence[EventLine]) -> None:
    columns = [
        Column("id"),
        Column("status"),
        Column("consumer"),
        Column("event"),
        Column("key", wraps=True),
        Column("died"),
        Column("what is wrong", wraps=True),
    ]
    print_table(columns, [_letter_row(letter) for letter in letters])


def print_letter(letter: EventView) -> None:
    console.print(clean(_where_it_stands(letter)), style="bold")
    console.print(f"{clean(letter.error_type)}: {clean(letter.error)}")
    _print_verbs(letter)
    console.print(f"\nletter {letter.id}, group {clean(letter.fingerprint)}")
    console.print(f"event {clean(letter.event_id)} of {clean(letter.source)}, key {clean(letter.key)}")
    console.print(f"place {clean(letter.topic)}/{letter.partition}:{letter.log_offset}")
    console.print(
        f"dead ({clean(letter.reason)}) after {letter.attempts} attempts and {letter.replays} replays; came here "
        f"{letter.deaths} time(s)"
    )
    console.print(
        f"recorded {shown_time(letter.recorded_at)}, first died {shown_time(letter.first_failed_at)}, last "
        f"{shown_time(letter.failed_at)}"
    )
    if letter.resolution:
        console.print(clean(letter.resolution))
    _print_belonging(letter)
    _print_waiting(letter.waiting)
    _print_history(letter.history)
    if letter.failures:
        console.print("\nfailed attempts, latest last", style="bold")
    for failure in letter.failures:
        console.print(f"{clean(failure.at)}  {clean(failure.error)}")
    if letter.stack:
        console.print("\nstack", style="bold")
        console.print(printable(letter.stack, _MOST_SHOWN))
    _print_record(letter.headers, letter.payload, letter.headers_left_out)


def print_revealed(letter: Revealed) -> None:
    console.print(clean(f"{letter.event_type or 'No event'} {letter.event_id}, unmasked"), style="bold")
    _print_record(letter.headers, letter.payload, 0)
    if letter.payload_form == "other":
        console.print("\nvalue in Base64", style="bold")
        console.print(printable(letter.value_base64 or "(none)", _MOST_SHOWN))


def shown_time(time: datetime | None) -> str:
    return "never" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def short_time(time: datetime) -> str:
    return f"{time.astimezone(UTC):%m-%d %H:%MZ}"


def _group_row(group: Group) -> list[str]:
    return [
        group.fingerprint,
        f"{group.counts.open:,}",
        f"{group.total:,}",
        group.consumer or "(unreadable)",
        group.event_type or "(no event)",
        short_time(group.first_at),
        short_time(group.last_at),
        f"{_short(group.error_type)}: {group.sentence}",
    ]


def _letter_row(letter: EventLine) -> list[str]:
    return [
        str(letter.id),
        letter.status,
        letter.consumer or "(unreadable)",
        letter.event_type or "(no event)",
        letter.key,
        short_time(letter.failed_at),
        f"{_short(letter.error_type)}: {letter.error}",
    ]


def _short(error_type: str) -> str:
    return error_type.rpartition(".")[2]


def _where_it_stands(letter: EventView) -> str:
    what = f"{letter.event_type or 'A record that is no event'}, {letter.status}"
    if not letter.consumer:
        return f"{what}: a dead letter that cannot be read."
    gave_up = f"{letter.consumer} gave up on it {shown_time(letter.failed_at)}"
    if letter.status != "OPEN":
        return f"{what}: {gave_up}."
    held = "later events of its key wait for it" if letter.held else "its key goes on without it"
    return f"{what}: {gave_up}; {held}."


def _print_verbs(letter: EventView) -> None:
    if letter.status == "REPLAYING" or (letter.status == "DISCARD_REQUESTED" and letter.job_id is not None):
        console.print(f"A job has it in hand: surefoot dlq job {letter.job_id} --follow")
    elif letter.status == "DISCARD_REQUESTED":
        console.print("Somebody wants to discard it: surefoot dlq approvals --status WAITING")
    elif letter.status == "OPEN":
        console.print("You can:")
        verbs = {"replay": "try it again as it is", "edit": "put a mended one in its place"} if letter.consumer else {}
        for verb, meaning in {**verbs, "discard": "never try it (a second person approves)"}.items():
            mended = " --payload @mended.json" if verb == "edit" else ""
            console.print(f"  surefoot dlq {verb} {letter.id}{mended} {_REASON}")
            console.print(f"      {meaning}", style="dim")


def _print_belonging(letter: EventView) -> None:
    if letter.correlation_id:
        console.print(f"flow {clean(letter.correlation_id)}")
    if letter.saga is not None:
        saga = letter.saga
        step = f" at {saga.current_step}" if saga.current_step else ""
        console.print(f"saga {saga.saga_id}: {saga.saga_type} about {clean(saga.entity_id)}, {saga.status}{step}")
    elif letter.saga_id:
        console.print(f"saga {clean(letter.saga_id)}")
    if letter.flow:
        console.print("\nother dead letters of its flow", style="bold")
    for other in letter.flow:
        console.print(clean(f"{other.id} {other.status}: {other.event_type or '(no event)'} of {other.consumer}"))


def _print_waiting(waiting: Waiting | None) -> None:
    if waiting is None:
        console.print("\nWhat waits behind it is not known here: replay it with --dry-run, and its consumer says.")
        return
    count = f"{waiting.count} or more" if waiting.is_more else str(waiting.count)
    when = "now" if waiting.known_from == "consumer" else f"as its consumer said {shown_time(waiting.at)}"
    console.print(f"\nwaiting behind it, {when}: {count}", style="bold")
    for line in waiting.first:
        since = shown_time(line.parked_at)
        console.print(clean(f"{line.event_id} {line.event_type or '(no event)'}, since {since}"))


def _print_history(history: History) -> None:
    if history.jobs or history.approvals:
        console.print("\ndecided about it, latest first", style="bold")
    for job in history.jobs:
        answer = f": {job.answer}. {clean(job.sentence or '')}" if job.answer else ""
        console.print(
            f"{shown_time(job.created_at)}  {job.kind} by {clean(job.created_by)} ({clean(job.reason)}), {job.state}"
            f"{answer}"
        )
    for approval in history.approvals:
        decided = f", by {clean(approval.decided_by)}: {clean(approval.decision or '')}" if approval.decided_by else ""
        console.print(
            f"{shown_time(approval.requested_at)}  discard asked for by {clean(approval.requested_by)} "
            f"({clean(approval.reason)}), {approval.status}{decided}"
        )


def _print_record(headers: Sequence[tuple[str, str | None]], payload: Any, left_out: int) -> None:
    console.print("\nheaders", style="bold")
    for name, value in headers:
        console.print(f"{clean(name)}: {'(null)' if value is None else clean(value)}")
    if left_out:
        console.print(f"… and {left_out} more that did not fit into the letter")
    console.print("\npayload", style="bold")
    console.print(printable(json.dumps(payload, indent=2, ensure_ascii=False), _MOST_SHOWN))
