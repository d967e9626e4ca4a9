"""Idempotency keys as an operator reads them, a plain sentence first and the detail under it; and as JSON."""

import base64
import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import typer
from rich.console import Console

from surefoot.events.text import printable
from surefoot.idempotency.store import Verified
from surefoot.idempotency.upkeep.looking import HISTORY_SHOWN, KeyDetails, KeyLine, PendingCall, Shown, StoredAnswer

# Soft-wrapped and without markup: hashes can be copied whole, and a tenant with brackets in it is shown as it is.
console = Console(highlight=False, soft_wrap=True, markup=False)
aside = Console(stderr=True, highlight=False, soft_wrap=True)
_MAX_SHOWN = 20_000


def print_line(line: KeyLine) -> None:
    console.print(f"{_clean(line.route)}  {_clean(line.tenant)}  {in_words(line)}")
    resource = f"  {_clean(line.resource)}" if line.resource else ""
    reached = f"  reached {_clean(line.recovery_point)}" if line.recovery_point else ""
    console.print(
        f"  {line.key_hash}  {shown_time(line.created_at)}  attempts {line.attempts}{resource}{reached}", style="dim"
    )
    if line.error:
        console.print(f"  {_clean(line.error)}", style="dim")


def in_words(line: KeyLine) -> str:
    match line.state:
        case "IN_FLIGHT":
            left = line.lease_in_s or 0.0
            lease = f"its lease ends in {_duration(left)}" if left > 0 else f"its lease ended {_duration(-left)} ago"
            return f"in flight, {lease}" + _unknown(line)
        case "FAILED_RETRY":
            if line.due_in_s is None:
                return "failed, not tried again by itself" + _unknown(line)
            due = "now" if line.due_in_s < 1 else f"in {_duration(line.due_in_s)}"
            return f"failed, tried again {due}" + _unknown(line)
        case "COMPLETED":
            return f"answered {line.status}"
        case "FAILED_TERMINAL":
            return f"answered {line.status}, a failure that stays"
        case _:
            return "expired: the answer is kept no longer"


def _unknown(line: KeyLine) -> str:
    return "; its outcome is unknown" if line.outcome_unknown else ""


def print_shown(shown: Shown, *, asked_for_answer: bool) -> None:
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
        console.print(f"{shown_time(entry.at)}  fence {entry.fence}  {_clean(entry.what + details)}")
    if asked_for_answer:
        _print_answer(shown.answer)


def _print_row(line: KeyLine, details: KeyDetails) -> None:
    console.print(f"{_clean(line.route)} of {_clean(line.tenant)}: {in_words(line)}", style="bold")
    if line.error:
        console.print(_clean(line.error))
    console.print(f"key hash {line.key_hash}")
    console.print(f"state {line.state}, effect {line.effect}, attempts {line.attempts}, fence {details.fence}")
    console.print(f"first asked {shown_time(line.created_at)}, answered {shown_time(details.answered_at)}")
    console.print(
        f"replayed until {shown_time(details.replay_until)}, refused until {shown_time(details.gone_until)}, then new"
    )
    console.print(f"last claimed by {_clean(line.owner)}")
    console.print(f"fingerprint {details.fingerprint} (version {details.fingerprint_version})")
    if line.resource:
        console.print(f"resource {_clean(line.resource)}")
    if details.minted:
        console.print("minted", style="bold")
    for name, value in details.minted.items():
        console.print(_clean(f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"))


def _print_phases(shown: Shown, call: PendingCall | None) -> None:
    if shown.phases:
        console.print("phases", style="bold")
    for phase in shown.phases:
        console.print(f"{shown_time(phase.at)}  {_clean(phase.name)}")
    if call is not None:
        console.print("calls of the provider", style="bold")
        closed = "open" if call.closed_at is None else f"closed {shown_time(call.closed_at)}"
        console.print(f"under {_clean(call.provider_key)}: {call.calls}, since {shown_time(call.created_at)}, {closed}")


def _print_answer(answer: StoredAnswer | None) -> None:
    console.print("answer", style="bold")
    if answer is None:
        console.print("(none is stored)")
        return
    console.print(str(answer.status))
    for name, value in answer.headers:
        console.print(_clean(f"{name}: {value}"))
    text = _body(answer.body)
    console.print(_clean(text) + ("" if len(text) <= _MAX_SHOWN else f"\n… cut: {len(answer.body)} bytes in all"))


def print_verified(verified: Verified, *, has_head: bool) -> None:
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
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return f"(not text; {len(body)} bytes in Base64)\n{base64.b64encode(body).decode()}"


def as_json(what: Any) -> None:
    typer.echo(json.dumps(what, indent=2, default=_plain))


def json_of(shown: Shown) -> dict[str, Any]:
    row = {} if shown.line is None or shown.details is None else {**asdict(shown.line), **asdict(shown.details)}
    answer = shown.answer
    return {
        "key": row or None,
        "phases": [asdict(phase) for phase in shown.phases],
        "pending_call": None if shown.pending_call is None else asdict(shown.pending_call),
        "history": [asdict(entry) for entry in shown.history],
        "answer": None
        if answer is None
        else {"status": answer.status, "headers": answer.headers, "body": base64.b64encode(answer.body).decode()},
    }


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 120 * 60 else f"{seconds / 3600:.0f} h"


def shown_time(time: datetime | None) -> str:
    return "never" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def _clean(text: str) -> str:
    """Without what would steer the reader's terminal."""
    return printable(text, _MAX_SHOWN)
