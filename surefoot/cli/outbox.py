"""`surefoot outbox list|show|retry|release`: rows the relay gave up on, and what to do about them."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, TypeVar
from uuid import UUID

import typer
from rich.console import Console

from surefoot.cli.command import decision, operate
from surefoot.cli.options import Database, Schema
from surefoot.cli.running import run
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError
from surefoot.relay.operations import BEHIND_LIMIT, STATUSES, Operations, OutboxRow

T = TypeVar("T")
app = typer.Typer(no_args_is_help=True, help="Events in the outbox: what FAILED and why; retry it, or release its key.")
# Soft-wrapped and without markup: ids can be copied whole, and a key with brackets in it is shown as it is.
console = Console(highlight=False, soft_wrap=True, markup=False)
Reason = Annotated[str, typer.Option("--reason", help="Why; kept with the row.")]
RequiredReason = Annotated[str, typer.Option("--reason", help="Why; kept with the row. Needed.", show_default=False)]
By = Annotated[str, typer.Option("--by", help="Who decides; kept with the row.", show_default="you")]
EventId = Annotated[str, typer.Argument(help="The event's id, as `surefoot outbox list` shows it.", show_default=False)]


@app.command("list")
def list_(
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
    status: Annotated[str, typer.Option(help=f"One of {', '.join(STATUSES)}.")] = "FAILED",
    topic: Annotated[str | None, typer.Option(help="Only this topic.")] = None,
    key: Annotated[str | None, typer.Option(help="Only this key.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Most rows to show, oldest first.")] = 50,
) -> None:
    """List rows by status, the FAILED ones unless told otherwise."""
    wanted = status.upper()
    if wanted not in STATUSES:
        raise ConfigurationError(f"{status!r} is not a status. Choose one of {', '.join(STATUSES)}.")
    rows = run(_with(database, schema, lambda verbs: verbs.find(status=wanted, topic=topic, key=key, limit=limit)))
    if not rows:
        console.print(f"No {wanted} rows.")
        return
    console.print(f"{wanted}, oldest first:\n")
    for row in rows:
        _print_line(row)
    if len(rows) == limit:
        console.print(f"There may be more: these are the first {limit} (see --limit).")


@app.command()
def show(event_id: EventId, database: Database = None, schema: Schema = DEFAULT_SCHEMA) -> None:
    """Show one row: what happened to it, what waits behind it, its headers and payload."""
    wanted = _uuid(event_id)

    async def work(verbs: Operations) -> None:
        found = await verbs.get(wanted)
        if found is None:
            raise _no_such_row(wanted)
        row, headers, payload = found
        waiting = await verbs.waiting_behind(row)
        _print_row(row, waiting)
        console.print("headers", style="bold")
        console.print(headers)
        console.print("payload", style="bold")
        console.print(payload or "(not JSON)")

    run(_with(database, schema, work))


@app.command()
def retry(
    event_id: Annotated[str | None, typer.Argument(help="The event's id; leave it out with --all.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every FAILED row.")] = False,
    topic: Annotated[str | None, typer.Option(help="With --all: only this topic.")] = None,
    reason: Reason = "the cause is mended",
    by: By = "",
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """Put FAILED rows back at the head of their keys, to be published again."""
    if every == (event_id is not None):
        raise ConfigurationError("Say which: either an event id, or --all (perhaps with --topic).")
    wanted = None if event_id is None else _uuid(event_id)
    decided = _decided("retried", by, reason)
    count = run(_with(database, schema, lambda verbs: _retry(verbs, wanted, topic, decided)))
    console.print(f"{count} row{'s' if count != 1 else ''} will be tried again.")


@app.command()
def release(
    event_id: EventId,
    reason: RequiredReason = "",
    by: By = "",
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """Let the rest of a FAILED row's key go on without it. The row is kept but will never be published."""
    wanted = _uuid(event_id)
    decided = _decided("released", by, reason)

    async def work(verbs: Operations) -> None:
        if not await verbs.release(wanted, decision=decided):
            raise await _not_failed(verbs, wanted)

    run(_with(database, schema, work))
    console.print("Released. The events behind it on its key are on their way; this one stays, with your reason.")


async def _retry(verbs: Operations, wanted: UUID | None, topic: str | None, decided: str) -> int:
    count = await verbs.retry(wanted, topic=topic, decision=decided)
    if count == 0 and wanted is not None:
        raise await _not_failed(verbs, wanted)
    return count


async def _with(database: str | None, schema: str, work: Callable[[Operations], Awaitable[T]]) -> T:
    return await operate(Operations, work, database=database, schema=schema, name="surefoot-outbox")


async def _not_failed(verbs: Operations, event_id: UUID) -> ConfigurationError:
    found = await verbs.get(event_id)
    if found is None:
        return _no_such_row(event_id)
    return ConfigurationError(
        f"The event {event_id} is {found[0].status}, not FAILED: there is nothing to decide. It was left as it is."
    )


def _no_such_row(event_id: UUID) -> ConfigurationError:
    return ConfigurationError(
        f"There is no event {event_id} in this outbox. `surefoot outbox list` shows those that FAILED."
    )


def _decided(what: str, by: str, reason: str) -> str:
    if not reason.strip():
        raise ConfigurationError("Say why, with --reason: it is kept with the row, for whoever asks later.")
    return decision(what, by=by, reason=reason)


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise ConfigurationError(
            f"{text!r} is not an event id: those are UUIDs, as `surefoot outbox list` shows them."
        ) from None


def _print_row(row: OutboxRow, waiting: int) -> None:
    behind = f"{BEHIND_LIMIT} or more" if waiting >= BEHIND_LIMIT else str(waiting)
    console.print(f"{row.event_type} {row.event_id}: {row.status} after {row.attempts} attempts", style="bold")
    if row.last_error:
        console.print(row.last_error)
    console.print(f"topic {row.topic}, key {row.key}; {behind} events wait behind it on this key")
    console.print(f"created {_shown(row.created_at)}, published {_shown(row.published_at)}")
    if row.decision:
        console.print(row.decision)


def _print_line(row: OutboxRow) -> None:
    console.print(
        f"{row.event_id}  {row.event_type}  topic {row.topic}  key {row.key}  attempts {row.attempts}  "
        f"created {_shown(row.created_at)}"
    )
    if row.last_error:
        console.print(f"  {row.last_error}", style="dim")


def _shown(time: datetime | None) -> str:
    return "never" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
