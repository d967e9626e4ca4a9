"""`surefoot outbox list|show|retry|release`: rows the relay gave up on, and what to do about them."""

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from surefoot.cli.command import Database, Schema, choice, decision, operate, required_id, required_reason
from surefoot.cli.show import console, counted, say_if_cut, shown_time
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError
from surefoot.relay.operations import BEHIND_LIMIT, STATUSES, Operations, OutboxRow

if TYPE_CHECKING:
    from surefoot.database.connection import Connection

NAME = "surefoot-outbox"
app = typer.Typer(no_args_is_help=True, help="Events in the outbox: what FAILED and why; retry it, or release its key.")
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
    wanted = choice(status, STATUSES, "is not a status. Choose")

    async def work(connection: "Connection") -> list[OutboxRow]:
        return await Operations(connection, schema).find(status=wanted, topic=topic, key=key, limit=limit)

    rows = operate(work, database, name=NAME)
    if not rows:
        console.print(f"No {wanted} rows.")
        return
    console.print(f"{wanted}, oldest first:\n")
    for row in rows:
        _print_line(row)
    say_if_cut(len(rows), limit)


@app.command()
def show(event_id: EventId, database: Database = None, schema: Schema = DEFAULT_SCHEMA) -> None:
    """Show one row: what happened to it, what waits behind it, its headers and payload."""
    wanted = _id(event_id)

    async def work(connection: "Connection") -> None:
        verbs = Operations(connection, schema)
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

    operate(work, database, name=NAME)


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
    wanted = None if event_id is None else _id(event_id)
    decided = _decided("retried", by, reason)

    async def work(connection: "Connection") -> int:
        verbs = Operations(connection, schema)
        count = await verbs.retry(wanted, topic=topic, decision=decided)
        if count == 0 and wanted is not None:
            raise await _not_failed(verbs, wanted)
        return count

    count = operate(work, database, name=NAME)
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
    wanted = _id(event_id)
    decided = _decided("released", by, reason)

    async def work(connection: "Connection") -> None:
        verbs = Operations(connection, schema)
        if not await verbs.release(wanted, decision=decided):
            raise await _not_failed(verbs, wanted)

    operate(work, database, name=NAME)
    console.print("Released. The events behind it on its key are on their way; this one stays, with your reason.")


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
    return decision(what, by=by, reason=required_reason(reason, "with the row"))


def _id(text: str) -> UUID:
    return required_id(text, "an event id", "surefoot outbox list")


def _print_row(row: OutboxRow, waiting: int) -> None:
    behind = counted(waiting, BEHIND_LIMIT)
    console.print(f"{row.event_type} {row.event_id}: {row.status} after {row.attempts} attempts", style="bold")
    if row.last_error:
        console.print(row.last_error)
    console.print(f"topic {row.topic}, key {row.key}; {behind} events wait behind it on this key")
    console.print(f"created {shown_time(row.created_at)}, published {shown_time(row.published_at)}")
    if row.decision:
        console.print(row.decision)


def _print_line(row: OutboxRow) -> None:
    console.print(
        f"{row.event_id}  {row.event_type}  topic {row.topic}  key {row.key}  attempts {row.attempts}  "
        f"created {shown_time(row.created_at)}"
    )
    if row.last_error:
        console.print(f"  {row.last_error}", style="dim")
