"""`surefoot dlq discard|approvals|approve|refuse`: deciding that dead events are never tried, by two people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.command import AsJson, Limit, choice
from surefoot.cli.dlq.client import (
    DEFAULT_URL,
    REASON,
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
from surefoot.cli.show import Column, console, one_line, print_json, print_table, short_time, shown_time
from surefoot.errors import ConfigurationError

if TYPE_CHECKING:
    from surefoot.dlq.jobs.views import ApprovalStatus, ApprovalView, AskedLetter

MOST_LOOKED_AT = 10_000
STATUSES: "tuple[ApprovalStatus, ...]" = ("WAITING", "APPROVED", "REFUSED", "EXPIRED")
"""All that there are, written down again: where they are declared takes long to load."""

app = typer.Typer()
RequestId = Annotated[
    str,
    typer.Argument(
        metavar="REQUEST_ID", help="The request's id, as `surefoot dlq approvals` shows it.", show_default=False
    ),
]


@app.command()
@filtered
def discard(
    wanted: dict[str, str],
    ids: Ids = None,
    reason: Why = "",
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Ask that dead events are never tried again. Somebody else, a SUPER_ADMIN, has to approve it.

    `surefoot dlq discard ID ID --reason "test orders, nobody waits for them"`. Their keys go on without them. There is
    no way back once it is carried out.
    """
    body = {**meant(ids, wanted), "reason": checked_reason(reason)}
    with connected(url, token) as client:
        found = client.post("/discard", body)
    _print_answer(found, as_json)


@app.command()
def approvals(
    request_id: Annotated[
        str | None, typer.Argument(metavar="[REQUEST_ID]", help="Only this one, in full.", show_default=False)
    ] = None,
    status: Annotated[
        str | None, typer.Option(help=f"Only of this status: {', '.join(STATUSES)}.", show_default=False)
    ] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """List the discards that were asked for, newest first. `surefoot dlq approvals --status WAITING`"""
    from surefoot.dlq.jobs.views import ApprovalView, AskedLetter

    wanted = None if status is None else choice(status, STATUSES, "is not a status of a request: take")
    with connected(url, token) as client:
        if request_id is not None:
            _print_answer(client.get(path_to("approvals", request_id)), as_json)
            if not as_json:
                rows = client.rows(path_to("approvals", request_id, "letters"), "letters", {}, limit)
                _print_asked([as_view(AskedLetter, one) for one in rows])
            return
        rows = client.rows("/approvals", "approvals", {}, MOST_LOOKED_AT if wanted else limit)
        found = [row for row in rows if wanted in (None, row.get("status"))][:limit]
    if as_json:
        print_json(found)
    elif found:
        _print_approvals([as_view(ApprovalView, one) for one in found])
    else:
        console.print("Nothing waits for approval." if wanted == "WAITING" else "Nobody has asked for a discard.")


@app.command()
def approve(
    request_id: RequestId,
    set_hash: Annotated[
        str,
        typer.Option(
            help="The hash of the set that you have looked at, as `surefoot dlq approvals REQUEST_ID` shows it.",
            show_default=False,
            metavar="HASH",
        ),
    ] = "",
    reason: Why = "",
    follow: Follow = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Approve a discard that somebody else asked for. For SUPER_ADMIN.

    `surefoot dlq approve REQUEST_ID --set-hash HASH --reason "looked at all three"`. It is refused if the set is no
    longer the one you looked at.
    """
    from surefoot.cli.dlq.following import followed

    if not set_hash.strip():
        raise ConfigurationError(
            "Say which set you have looked at, with --set-hash: `surefoot dlq approvals "
            f"{request_id}` shows it, and what would be discarded."
        )
    body = {"set_hash": set_hash.strip(), "reason": checked_reason(reason)}
    with connected(url, token) as client:
        answer = client.post(path_to("approvals", request_id, "approve"), body)
        job_id = answer.get("job_id")
        is_followed = follow and job_id is not None
        if not (is_followed and as_json):
            _print_answer(answer, as_json)
        if is_followed:
            followed(client, str(job_id), as_json=as_json)


@app.command()
def refuse(
    request_id: RequestId, reason: Why = "", as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None
) -> None:
    """Refuse a discard that was asked for: its letters are open again. For SUPER_ADMIN.

    `surefoot dlq refuse REQUEST_ID --reason "order 7 is real"`
    """

    body = {"reason": checked_reason(reason)}
    with connected(url, token) as client:
        found = client.post(path_to("approvals", request_id, "refuse"), body)
    _print_answer(found, as_json)


def _print_answer(answer: dict[str, Any], as_json: bool) -> None:
    from surefoot.dlq.jobs.views import ApprovalView

    if as_json:
        print_json(answer)
    else:
        _print_approval(as_view(ApprovalView, answer))


def _print_approvals(approvals: "Sequence[ApprovalView]") -> None:
    columns = [
        Column("request"),
        Column("status"),
        Column("letters", is_number=True),
        Column("asked for by", wraps=True),
        Column("until"),
        Column("why", wraps=True),
    ]
    print_table(columns, [_approval_row(approval) for approval in approvals])


def _approval_row(approval: "ApprovalView") -> list[str]:
    return [
        str(approval.id),
        approval.status,
        f"{approval.total:,}",
        approval.requested_by,
        short_time(approval.expires_at),
        approval.reason,
    ]


def _print_approval(approval: "ApprovalView") -> None:
    from surefoot.cli.dlq.following import letters_in_words, print_left_out

    console.print(
        f"{one_line(approval.requested_by)} asks to discard {letters_in_words(approval.total)}: {approval.status}.",
        style="bold",
    )
    console.print(one_line(approval.reason))
    print_left_out(approval.left_out)
    if approval.status == "WAITING":
        console.print(f"Until {shown_time(approval.expires_at)} somebody else, a SUPER_ADMIN, can:")
        console.print(f"  surefoot dlq approve {approval.id} --set-hash {approval.set_hash} {REASON}")
        console.print(f"  surefoot dlq refuse {approval.id} {REASON}")
    elif approval.decided_by is not None:
        console.print(
            f"Decided by {one_line(approval.decided_by)}, {shown_time(approval.decided_at)}: "
            f"{one_line(approval.decision or '')}"
        )
    if approval.job_id is not None:
        console.print(f"It is carried out by the job {approval.job_id}: surefoot dlq job {approval.job_id}")


def _print_asked(letters: "Sequence[AskedLetter]") -> None:
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


def _asked_row(letter: "AskedLetter") -> list[str]:
    return [
        str(letter.dlq_id),
        letter.consumer or "(none)",
        letter.event_type or "(no event)",
        letter.key,
        f"{letter.deaths:,}",
        letter.error,
    ]
