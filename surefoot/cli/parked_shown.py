"""Parked events as an operator reads them: a plain sentence first, the detail under it."""

import base64
import json
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console

from surefoot.consumer_runtime.parked_operations import BEHIND_LIMIT, BEHIND_SHOWN, ParkedEvent, ParkedKey
from surefoot.events.text import printable

# Soft-wrapped and without markup: ids can be copied whole, and a key with brackets in it is shown as it is.
console = Console(highlight=False, soft_wrap=True, markup=False)
_MAX_SHOWN = 20_000


def print_key(row: ParkedKey) -> None:
    behind = f"  {_count(row.waiting_behind)} behind it" if row.waiting_behind else ""
    console.print(
        f"{row.consumer}  {row.topic}  key {_clean(row.key)}  {in_words(row.state, row.holds, row.due_in_s)}{behind}"
    )
    console.print(f"  {row.event_id}  {row.event_type or '(no event)'}  attempts {row.attempts}", style="dim")
    if row.last_error:
        console.print(f"  {_clean(row.last_error)}", style="dim")


def in_words(state: str, holds: bool, due_in_s: float | None) -> str:
    rest = due_in_s or 0.0
    match state:
        case "DUE":
            return "tried again now" if rest < 1 else f"tried again in {_duration(rest)}"
        case "CALLING":
            return "waiting for an outside call" + ("" if rest < 1 else f", made again in {_duration(rest)}")
        case "DEAD":
            return "dead, holds its key" if holds else "dead, its key goes on (released)"
        case _:
            return "waiting for its turn"


def print_event(row: ParkedEvent, behind: Sequence[ParkedEvent], count: int) -> None:
    words = in_words(row.state, row.holds, row.due_in_s)
    console.print(f"{row.event_type or 'No event'} {row.event_id} of {row.consumer}: {words}", style="bold")
    if row.last_error:
        console.print(_clean(row.last_error))
    why = f" ({row.reason})" if row.reason and row.state == "DEAD" else ""
    console.print(f"state {row.state}{why}, attempts {row.attempts}, replays {row.replays}")
    console.print(f"place {row.place}, key {_clean(row.key)}, source {_clean(row.source)}")
    dead = f", dead {shown_time(row.dead_at)}" if row.state == "DEAD" else ""
    console.print(f"recorded {shown_time(row.recorded_at)}, parked {shown_time(row.parked_at)}{dead}")
    if row.fingerprint:
        console.print(f"fingerprint {row.fingerprint}")
    if row.decision:
        console.print(_clean(row.decision))
    _print_failures(row)
    if row.prepared is not None:
        console.print("prepared for the outside call", style="bold")
        console.print(_clean(row.prepared))
    console.print("headers", style="bold")
    for name, value in json.loads(row.headers):
        console.print(f"{_clean(name)}: {'(null)' if value is None else _text(base64.b64decode(value))}")
    console.print("value", style="bold")
    console.print(_value(row.value))
    _print_behind(behind, count)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 120 * 60 else f"{seconds / 3600:.0f} h"


def _print_failures(row: ParkedEvent) -> None:
    failures = json.loads(row.failures)
    if failures:
        console.print("failed attempts, latest last", style="bold")
    for at, error in failures:
        console.print(f"{at}  {_clean(error)}")


def _print_behind(behind: Sequence[ParkedEvent], count: int) -> None:
    if not count:
        return
    console.print(f"waiting behind it: {_count(count)}", style="bold")
    for row in behind:
        console.print(f"{row.event_id}  {row.event_type or '(no event)'}  {row.place}")
    if count > BEHIND_SHOWN:
        console.print("…")


def _count(count: int) -> str:
    return f"{BEHIND_LIMIT} or more" if count >= BEHIND_LIMIT else str(count)


def _value(value: bytes | None) -> str:
    if value is None:
        return "(none)"
    try:
        shown = json.dumps(json.loads(value), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        shown = f"(not JSON; {len(value)} bytes in Base64)\n{base64.b64encode(value).decode()}"
    cut = "" if len(shown) <= _MAX_SHOWN else f"\n… cut: {len(value)} bytes in all"
    return _clean(shown) + cut


def _text(value: bytes) -> str:
    try:
        return _clean(value.decode("utf-8"))
    except UnicodeDecodeError:
        return f"(Base64) {base64.b64encode(value).decode()}"


def _clean(text: str) -> str:
    """Without what would steer the reader's terminal."""
    return printable(text, _MAX_SHOWN)


def shown_time(time: datetime | None) -> str:
    return "never" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
