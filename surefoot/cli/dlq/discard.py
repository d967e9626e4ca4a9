"""`surefoot dlq discard|approvals|approve|refuse`: deciding that dead events are never tried, by two people."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.dlq.json_shown import print_json
from surefoot.cli.dlq.options import (
    DEFAULT_URL,
    AsJson,
    Follow,
    Ids,
    Limit,
    Token,
    Url,
    Why,
    checked_reason,
    connected,
    filtered,
    meant,
)
from surefoot.errors import ConfigurationError

if TYPE_CHECKING:
    from surefoot.dlq.jobs.views import ApprovalStatus

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
    _print(found, as_json)


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
    from surefoot.cli.dlq.client import as_view, path_to
    from surefoot.cli.dlq.jobs_shown import print_approvals, print_asked
    from surefoot.cli.show import console
    from surefoot.dlq.jobs.views import ApprovalView, AskedLetter

    wanted = None if status is None else _status(status)
    with connected(url, token) as client:
        if request_id is not None:
            _print(client.get(path_to("approvals", request_id)), as_json)
            if not as_json:
                rows = client.rows(path_to("approvals", request_id, "letters"), "letters", {}, limit)
                print_asked([as_view(AskedLetter, one) for one in rows])
            return
        rows = client.rows("/approvals", "approvals", {}, MOST_LOOKED_AT if wanted else limit)
        found = [row for row in rows if wanted in (None, row.get("status"))][:limit]
    if as_json:
        print_json(found)
    elif found:
        print_approvals([as_view(ApprovalView, one) for one in found])
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
    from surefoot.cli.dlq.client import path_to
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
            _print(answer, as_json)
        if is_followed:
            followed(client, str(job_id), as_json=as_json)


@app.command()
def refuse(
    request_id: RequestId, reason: Why = "", as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None
) -> None:
    """Refuse a discard that was asked for: its letters are open again. For SUPER_ADMIN.

    `surefoot dlq refuse REQUEST_ID --reason "order 7 is real"`
    """
    from surefoot.cli.dlq.client import path_to

    body = {"reason": checked_reason(reason)}
    with connected(url, token) as client:
        found = client.post(path_to("approvals", request_id, "refuse"), body)
    _print(found, as_json)


def _print(answer: dict[str, Any], as_json: bool) -> None:
    from surefoot.cli.dlq.client import as_view
    from surefoot.cli.dlq.jobs_shown import print_approval
    from surefoot.dlq.jobs.views import ApprovalView

    if as_json:
        print_json(answer)
    else:
        print_approval(as_view(ApprovalView, answer))


def _status(text: str) -> str:
    if text.upper() not in STATUSES:
        raise ConfigurationError(f"{text!r} is not a status of a request: take one of {', '.join(STATUSES)}.")
    return text.upper()
