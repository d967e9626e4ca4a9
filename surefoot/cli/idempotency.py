"""`surefoot idempotency show|list|stuck|verify`: what became of requests that were made under a key.

It reads, and changes nothing. Exit codes: 0 well, 1 the history is not whole, 2 it could not be done.
"""

import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.command import AsJson, Database, Limit, Schema, head_of, operate, required_database, run
from surefoot.cli.show import (
    MOST_SHOWN,
    aside,
    clean,
    console,
    duration,
    print_json,
    say_if_cut,
    shown_time,
)
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError

if TYPE_CHECKING:
    from surefoot.database.connection import Connection
    from surefoot.idempotency.store import Verified
    from surefoot.idempotency.upkeep.looking import KeyDetails, KeyLine, PendingCall, Shown, StoredAnswer
    from surefoot.idempotency.values import State

app = typer.Typer(
    no_args_is_help=True,
    help="Requests under an Idempotency-Key: what became of one, which are stuck, and whether the history is whole.",
)
NAME = "surefoot idempotency"
STATES: "tuple[State, ...]" = ("IN_FLIGHT", "COMPLETED", "FAILED_RETRY", "FAILED_TERMINAL", "EXPIRED")
"""All that there are, written down again: where they are declared takes long to load."""
_HASH = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)


@app.command()
def show(
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY",
            help="The Idempotency-Key, with --tenant; or its hash, as the list shows it.",
            show_default=False,
        ),
    ],
    tenant: Annotated[str | None, typer.Option(help="Whose key it is.", show_default=False)] = None,
    answer: Annotated[bool, typer.Option("--answer", help="Print the stored answer too, with its body.")] = False,
    as_json: AsJson = False,
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """Show one key: how far its request has got, what was minted, its calls of the provider, and what has happened."""
    from surefoot.idempotency.upkeep.looking import Looking

    wanted = _hash(key, tenant)

    async def work(connection: "Connection") -> "Shown | None":
        return await Looking(connection, schema).show(wanted, answer=answer)

    found = operate(work, database, name=NAME)
    if found is None:
        whose = "" if tenant is None else f" of {tenant!r}"
        raise ConfigurationError(
            f"Nothing is known of this key{whose}: it was never used here, or it is long forgotten. "
            "`surefoot idempotency list` shows those there are."
        )
    if as_json:
        print_json(_json_of(found))
    else:
        _print_shown(found, asked_for_answer=answer)


@app.command("list")
def list_(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.", show_default=False)] = None,
    state: Annotated[
        str | None, typer.Option(help=f"Only those in this state: {', '.join(STATES)}.", show_default=False)
    ] = None,
    route: Annotated[
        str | None, typer.Option(help="Only of this route: 'POST /v1/charges'.", show_default=False)
    ] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """List keys, newest first: the route, the tenant, and how far each has got."""
    from surefoot.idempotency.upkeep.looking import Looking

    wanted = None if state is None else state.upper().replace("-", "_")
    if wanted is not None and wanted not in STATES:
        raise ConfigurationError(f"{state!r} is not a state. Choose one of {', '.join(STATES)}.")

    async def work(connection: "Connection") -> "list[KeyLine]":
        return await Looking(connection, schema).keys(tenant=tenant, state=wanted, route=route, limit=limit)

    narrowed = any(option is not None for option in (tenant, state, route))
    found = operate(work, database, name=NAME)
    _print_lines(found, limit, as_json, "No key fits." if narrowed else "There is no key yet.")


@app.command()
def stuck(
    limit: Limit = 50, as_json: AsJson = False, database: Database = None, schema: Schema = DEFAULT_SCHEMA
) -> None:
    """List requests that nobody has finished in time, and those whose outcome nobody knows; oldest first."""
    from surefoot.idempotency.upkeep.looking import Looking

    async def work(connection: "Connection") -> "list[KeyLine]":
        return await Looking(connection, schema).stuck(limit=limit)

    _print_lines(operate(work, database, name=NAME), limit, as_json, "Nothing is stuck.")


@app.command()
def verify(
    head: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER:SEAL",
            help="A head that this command printed earlier, and that was kept where the database's owner cannot write. "
            "Without it, seals cut off at the end, or made anew, cannot be missed.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """Look through the whole history: was a line changed, removed or added? Exit code 1 if one was.

    Lines past their retention (SUREFOOT_IDEMPOTENCY_KEEP_HISTORY) may be gone; their seals have to be there.
    """
    form = "`surefoot idempotency verify` printed it: the seal's number, a colon, and the seal"
    wanted = None if head is None else head_of(head, form)
    verified = run(_verified(required_database(database), schema, wanted))
    if as_json:
        print_json({**asdict(verified), "is_whole": verified.is_whole})
    else:
        _print_verified(verified, has_head=head is not None)
    if not verified.is_whole:
        raise typer.Exit(1)


async def _verified(url: str, schema: str, head: tuple[int, str] | None) -> "Verified":
    from surefoot.idempotency.settings import IdempotencySettings
    from surefoot.idempotency.store import Store

    store = Store(url, IdempotencySettings(), schema=schema, pool_size=1)
    try:
        with aside.status("Looking through the history…"):
            return await store.verify_history(head=head)
    finally:
        await store.close()


def _hash(key: str, tenant: str | None) -> bytes:
    from surefoot.http.idempotency_key import KeyProblem, read_key
    from surefoot.idempotency.http.fingerprint import key_hash

    if tenant is None:
        if _HASH.fullmatch(key):
            return bytes.fromhex(key)
        raise ConfigurationError(
            "Say whose key it is, with --tenant; or give its hash, 64 hexadecimal digits, as `surefoot idempotency "
            "list` shows it."
        )
    found = read_key([key.encode("utf-8", "surrogateescape")], strict=False)
    if isinstance(found, KeyProblem):
        raise ConfigurationError(f"{key!r} cannot be a key. {found.sentence}")
    assert found is not None, "there was a line"
    return key_hash(tenant, found)


def _print_lines(lines: "list[KeyLine]", limit: int, as_json: bool, none: str) -> None:
    if as_json:
        print_json([asdict(line) for line in lines])
        return
    for line in lines:
        _print_line(line)
    if not lines:
        console.print(none)
    say_if_cut(len(lines), limit)


def _print_line(line: "KeyLine") -> None:
    console.print(f"{clean(line.route)}  {clean(line.tenant)}  {_in_words(line)}")
    resource = f"  {clean(line.resource)}" if line.resource else ""
    reached = f"  reached {clean(line.recovery_point)}" if line.recovery_point else ""
    console.print(
        f"  {line.key_hash}  {shown_time(line.created_at)}  attempts {line.attempts}{resource}{reached}", style="dim"
    )
    if line.error:
        console.print(f"  {clean(line.error)}", style="dim")


def _in_words(line: "KeyLine") -> str:
    match line.state:
        case "IN_FLIGHT":
            left = line.lease_in_s or 0.0
            lease = f"its lease ends in {duration(left)}" if left > 0 else f"its lease ended {duration(-left)} ago"
            return f"in flight, {lease}" + _unknown(line)
        case "FAILED_RETRY":
            if line.due_in_s is None:
                return "failed, not tried again by itself" + _unknown(line)
            due = "now" if line.due_in_s < 1 else f"in {duration(line.due_in_s)}"
            return f"failed, tried again {due}" + _unknown(line)
        case "COMPLETED":
            return f"answered {line.status}"
        case "FAILED_TERMINAL":
            return f"answered {line.status}, a failure that stays"
        case _:
            return "expired: the answer is kept no longer"


def _unknown(line: "KeyLine") -> str:
    return "; its outcome is unknown" if line.outcome_unknown else ""


def _print_shown(shown: "Shown", *, asked_for_answer: bool) -> None:
    from surefoot.idempotency.upkeep.looking import HISTORY_SHOWN

    if shown.line is not None and shown.details is not None:
        _print_row(shown.line, shown.details)
        _print_phases(shown, shown.pending_call)
    else:
        console.print("The key is not there any more; this is what has happened to it.", style="bold")
    console.print("history", style="bold")
    if len(shown.history) == HISTORY_SHOWN:
        console.print(f"(the latest {HISTORY_SHOWN} lines)")
    for entry in shown.history:
        details = "" if not entry.details else "  " + json.dumps(entry.details, ensure_ascii=False)
        console.print(f"{shown_time(entry.at)}  fence {entry.fence}  {clean(entry.what + details)}")
    if asked_for_answer:
        _print_answer(shown.answer)


def _print_row(line: "KeyLine", details: "KeyDetails") -> None:
    console.print(f"{clean(line.route)} of {clean(line.tenant)}: {_in_words(line)}", style="bold")
    if line.error:
        console.print(clean(line.error))
    console.print(f"key hash {line.key_hash}")
    console.print(f"state {line.state}, effect {line.effect}, attempts {line.attempts}, fence {details.fence}")
    console.print(f"first asked {shown_time(line.created_at)}, answered {shown_time(details.answered_at)}")
    console.print(
        f"replayed until {shown_time(details.replay_until)}, refused until {shown_time(details.gone_until)}, then new"
    )
    console.print(f"last claimed by {clean(line.owner)}")
    console.print(f"fingerprint {details.fingerprint} (version {details.fingerprint_version})")
    if line.resource:
        console.print(f"resource {clean(line.resource)}")
    if details.minted:
        console.print("minted", style="bold")
    for name, value in details.minted.items():
        console.print(clean(f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"))


def _print_phases(shown: "Shown", call: "PendingCall | None") -> None:
    if shown.phases:
        console.print("phases", style="bold")
    for phase in shown.phases:
        console.print(f"{shown_time(phase.at)}  {clean(phase.name)}")
    if call is not None:
        console.print("calls of the provider", style="bold")
        closed = "open" if call.closed_at is None else f"closed {shown_time(call.closed_at)}"
        console.print(f"under {clean(call.provider_key)}: {call.calls}, since {shown_time(call.created_at)}, {closed}")


def _print_answer(answer: "StoredAnswer | None") -> None:
    console.print("answer", style="bold")
    if answer is None:
        console.print("(none is stored)")
        return
    console.print(str(answer.status))
    for name, value in answer.headers:
        console.print(clean(f"{name}: {value}"))
    text = _body(answer.body)
    console.print(clean(text) + ("" if len(text) <= MOST_SHOWN else f"\n… cut: {len(answer.body)} bytes in all"))


def _print_verified(verified: "Verified", *, has_head: bool) -> None:
    for finding in verified.findings:
        console.print(f"✗ {finding}", style="red")
    if verified.findings:
        return
    if verified.head is None:
        console.print("Nothing of the history is sealed yet: there is nothing to check.")
        return
    past = f"; those under the first {verified.pruned} are past their retention" if verified.pruned else ""
    console.print(f"✓ The history is whole: {verified.seals} seals over {verified.rows} lines{past}.", style="green")
    console.print(f"Its head: {verified.head[0]}:{verified.head[1]}")
    if not has_head:
        console.print("Whether it was sealed anew shows with a head that was written down earlier: --head.")


def _body(body: bytes) -> str:
    from base64 import b64encode

    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return f"(not text; {len(body)} bytes in Base64)\n{b64encode(body).decode()}"


def _json_of(shown: "Shown") -> dict[str, Any]:
    from base64 import b64encode

    row = {} if shown.line is None or shown.details is None else {**asdict(shown.line), **asdict(shown.details)}
    answer = shown.answer
    return {
        "key": row or None,
        "phases": [asdict(phase) for phase in shown.phases],
        "pending_call": None if shown.pending_call is None else asdict(shown.pending_call),
        "history": [asdict(entry) for entry in shown.history],
        "answer": None
        if answer is None
        else {"status": answer.status, "headers": answer.headers, "body": b64encode(answer.body).decode()},
    }
