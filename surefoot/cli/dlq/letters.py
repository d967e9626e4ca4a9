"""`surefoot dlq groups|list|show|reveal|export`: what is broken, and what is known of it.

Each shows a plain sentence first, what can be done next, and the detail under it.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.command import AsJson, Limit
from surefoot.cli.dlq.client import (
    DEFAULT_URL,
    REASON,
    Token,
    Url,
    Why,
    as_view,
    checked_reason,
    connected,
    filtered,
    path_to,
)
from surefoot.cli.show import (
    Column,
    clean,
    console,
    one_line,
    print_json,
    print_table,
    say_if_cut,
    short_time,
    shown_time,
)
from surefoot.errors import ConfigurationError

if TYPE_CHECKING:
    from surefoot.dlq.letters.views import EventLine, EventView, Group, History, Revealed, Waiting

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
    from surefoot.dlq.letters.views import Group

    with connected(url, token) as client:
        found = list(client.rows("/groups", "groups", wanted, limit))
    if as_json:
        print_json(found)
    elif found:
        _print_groups([as_view(Group, one) for one in found])
        say_if_cut(len(found), limit)
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
    from surefoot.dlq.letters.views import EventLine

    with connected(url, token) as client:
        found = list(client.rows("/events", "events", wanted, limit))
    if as_json:
        print_json(found)
    elif found:
        _print_letters([as_view(EventLine, one) for one in found])
        say_if_cut(len(found), limit)
    else:
        console.print("There is no dead letter that fits." if wanted else "There is no dead letter.")


@app.command()
def show(letter_id: Id, as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None) -> None:
    """Show one dead letter: why it is dead, attempts and stack, its masked payload, its flow, and what waits for it.

    It says which commands can be given now. `surefoot dlq show 0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b11`
    """
    from surefoot.dlq.letters.views import EventView

    with connected(url, token) as client:
        found = client.get(path_to("events", letter_id))
    if as_json:
        print_json(found)
    else:
        _print_letter(as_view(EventView, found))


@app.command()
def reveal(
    letter_id: Id, reason: Why = "", as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None
) -> None:
    """Show a dead letter's payload unmasked. For ADMIN; who looked, and why, is in the audit log.

    `surefoot dlq reveal ID --reason "the buyer asks where the parcel went"`
    """
    from surefoot.dlq.letters.views import Revealed

    body = {"reason": checked_reason(reason)}
    with connected(url, token) as client:
        found = client.post(path_to("events", letter_id, "reveal"), body)
    if as_json:
        print_json(found)
    else:
        _print_revealed(as_view(Revealed, found))


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


def _print_groups(groups: "Sequence[Group]") -> None:
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


def _group_row(group: "Group") -> list[str]:
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


def _print_letters(letters: "Sequence[EventLine]") -> None:
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


def _letter_row(letter: "EventLine") -> list[str]:
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


def _print_letter(letter: "EventView") -> None:
    console.print(one_line(_where_it_stands(letter)), style="bold")
    console.print(f"{one_line(letter.error_type)}: {one_line(letter.error)}")
    _print_verbs(letter)
    console.print(f"\nletter {letter.id}, group {one_line(letter.fingerprint)}")
    console.print(f"event {one_line(letter.event_id)} of {one_line(letter.source)}, key {one_line(letter.key)}")
    console.print(f"place {one_line(letter.topic)}/{letter.partition}:{letter.log_offset}")
    console.print(
        f"dead ({one_line(letter.reason)}) after {letter.attempts} attempts and {letter.replays} replays; came here "
        f"{letter.deaths} time(s)"
    )
    console.print(
        f"recorded {shown_time(letter.recorded_at)}, first died {shown_time(letter.first_failed_at)}, last "
        f"{shown_time(letter.failed_at)}"
    )
    if letter.resolution:
        console.print(one_line(letter.resolution))
    _print_belonging(letter)
    _print_waiting(letter.waiting)
    _print_history(letter.history)
    if letter.failures:
        console.print("\nfailed attempts, latest last", style="bold")
    for failure in letter.failures:
        console.print(f"{one_line(failure.at)}  {one_line(failure.error)}")
    if letter.stack:
        console.print("\nstack", style="bold")
        console.print(clean(letter.stack))
    _print_record(letter.headers, letter.payload, letter.headers_left_out)


def _where_it_stands(letter: "EventView") -> str:
    what = f"{letter.event_type or 'A record that is no event'}, {letter.status}"
    if not letter.consumer:
        return f"{what}: a dead letter that cannot be read."
    gave_up = f"{letter.consumer} gave up on it {shown_time(letter.failed_at)}"
    if letter.status != "OPEN":
        return f"{what}: {gave_up}."
    held = "later events of its key wait for it" if letter.held else "its key goes on without it"
    return f"{what}: {gave_up}; {held}."


def _print_verbs(letter: "EventView") -> None:
    if letter.status == "REPLAYING" or (letter.status == "DISCARD_REQUESTED" and letter.job_id is not None):
        console.print(f"A job has it in hand: surefoot dlq job {letter.job_id} --follow")
    elif letter.status == "DISCARD_REQUESTED":
        console.print("Somebody wants to discard it: surefoot dlq approvals --status WAITING")
    elif letter.status == "OPEN":
        console.print("You can:")
        verbs = {"replay": "try it again as it is", "edit": "put a mended one in its place"} if letter.consumer else {}
        for verb, meaning in {**verbs, "discard": "never try it (a second person approves)"}.items():
            mended = " --payload @mended.json" if verb == "edit" else ""
            console.print(f"  surefoot dlq {verb} {letter.id}{mended} {REASON}")
            console.print(f"      {meaning}", style="dim")


def _print_belonging(letter: "EventView") -> None:
    if letter.correlation_id:
        console.print(f"flow {one_line(letter.correlation_id)}")
    if letter.saga is not None:
        saga = letter.saga
        step = f" at {saga.current_step}" if saga.current_step else ""
        console.print(f"saga {saga.saga_id}: {saga.saga_type} about {one_line(saga.entity_id)}, {saga.status}{step}")
    elif letter.saga_id:
        console.print(f"saga {one_line(letter.saga_id)}")
    if letter.flow:
        console.print("\nother dead letters of its flow", style="bold")
    for other in letter.flow:
        console.print(one_line(f"{other.id} {other.status}: {other.event_type or '(no event)'} of {other.consumer}"))


def _print_waiting(waiting: "Waiting | None") -> None:
    if waiting is None:
        console.print("\nWhat waits behind it is not known here: replay it with --dry-run, and its consumer says.")
        return
    count = f"{waiting.count} or more" if waiting.is_more else str(waiting.count)
    when = "now" if waiting.known_from == "consumer" else f"as its consumer said {shown_time(waiting.at)}"
    console.print(f"\nwaiting behind it, {when}: {count}", style="bold")
    for line in waiting.first:
        since = shown_time(line.parked_at)
        console.print(one_line(f"{line.event_id} {line.event_type or '(no event)'}, since {since}"))


def _print_history(history: "History") -> None:
    if history.jobs or history.approvals:
        console.print("\ndecided about it, latest first", style="bold")
    for job in history.jobs:
        answer = f": {job.answer}. {one_line(job.sentence or '')}" if job.answer else ""
        console.print(
            f"{shown_time(job.created_at)}  {job.kind} by {one_line(job.created_by)} ({one_line(job.reason)}), "
            f"{job.state}{answer}"
        )
    for approval in history.approvals:
        decided = (
            f", by {one_line(approval.decided_by)}: {one_line(approval.decision or '')}" if approval.decided_by else ""
        )
        console.print(
            f"{shown_time(approval.requested_at)}  discard asked for by {one_line(approval.requested_by)} "
            f"({one_line(approval.reason)}), {approval.status}{decided}"
        )


def _print_record(headers: Sequence[tuple[str, str | None]], payload: Any, left_out: int) -> None:
    console.print("\nheaders", style="bold")
    for name, value in headers:
        console.print(f"{one_line(name)}: {'(null)' if value is None else one_line(value)}")
    if left_out:
        console.print(f"… and {left_out} more that did not fit into the letter")
    console.print("\npayload", style="bold")
    console.print(clean(json.dumps(payload, indent=2, ensure_ascii=False)))


def _print_revealed(letter: "Revealed") -> None:
    console.print(one_line(f"{letter.event_type or 'No event'} {letter.event_id}, unmasked"), style="bold")
    _print_record(letter.headers, letter.payload, 0)
    if letter.payload_form == "other":
        console.print("\nvalue in Base64", style="bold")
        console.print(clean(letter.value_base64 or "(none)"))
