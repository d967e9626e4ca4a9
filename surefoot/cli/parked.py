"""`surefoot parked list|show|retry`: events that wait behind a failure of their key, or are dead, and what to do."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from surefoot.cli.command import decision, operate
from surefoot.cli.options import Database, Schema
from surefoot.cli.running import run
from surefoot.consumer_runtime.parked_operations import BEHIND_LIMIT, STATES, ParkedEvent, ParkedOperations
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError

app = typer.Typer(
    no_args_is_help=True,
    help="Events a consumer could not handle: which keys wait and why; have one tried now, or again.",
)
EventName = Annotated[
    str,
    typer.Argument(
        metavar="EVENT",
        help="The event's id, as `surefoot parked list` shows it, or its place: TOPIC/PARTITION:OFFSET.",
        show_default=False,
    ),
]
OneConsumer = Annotated[str | None, typer.Option("--consumer", help="Only this consumer.", show_default=False)]
OneTopic = Annotated[str | None, typer.Option("--topic", help="Only this topic.", show_default=False)]


@app.command("list")
def list_(
    consumer: OneConsumer = None,
    topic: OneTopic = None,
    state: Annotated[
        str | None, typer.Option(help=f"The first of each key in this state: {', '.join(STATES)}.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Most lines to show, longest waiting first.")] = 50,
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """List the keys that wait, with the event each of them waits for; and dead events whose keys went on."""
    wanted = None if state is None else state.upper()
    if wanted is not None and wanted not in STATES:
        raise ConfigurationError(f"{state!r} is not a state. Choose one of {', '.join(STATES)}.")

    async def work(verbs: ParkedOperations) -> None:
        from surefoot.cli.parked_shown import console, print_key

        rows = await verbs.keys(consumer=consumer, topic=topic, key=None, state=wanted, limit=limit)
        if not rows:
            narrowed = any((consumer, topic, state))
            console.print("Nothing that fits is parked." if narrowed else "Nothing is parked: no key waits.")
            return
        for row in rows:
            print_key(row)
        if len(rows) == limit:
            console.print(f"There may be more: these are the first {limit} (see --limit).")

    run(_with(database, schema, work))


@app.command()
def show(
    event: EventName, consumer: OneConsumer = None, database: Database = None, schema: Schema = DEFAULT_SCHEMA
) -> None:
    """Show one event: what happened to it and when, what waits behind it, its headers and its value."""

    async def work(verbs: ParkedOperations) -> None:
        from surefoot.cli.parked_shown import print_event

        for row in await _found(verbs, event, consumer):
            print_event(row, *await verbs.behind(row))

    run(_with(database, schema, work))


@app.command()
def retry(
    event: Annotated[
        str | None, typer.Argument(metavar="EVENT", help="The event's id or place; or leave it out and say --key.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="Instead: the event that this key waits for.")] = None,
    consumer: OneConsumer = None,
    topic: OneTopic = None,
    reason: Annotated[str, typer.Option(help="Why; kept in the inbox. Needed to try a dead event again.")] = "",
    by: Annotated[str, typer.Option(help="Who decides; kept with the reason.", show_default="you")] = "",
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """Have a waiting event tried now; with --reason, a dead one too. It keeps its place, and its key its order."""
    if (event is None) == (key is None):
        raise ConfigurationError("Say which: either an event (its id or its place), or --key.")

    async def work(verbs: ParkedOperations) -> None:
        from surefoot.cli.parked_shown import console

        names = [event] if event is not None else await _heads(verbs, str(key), consumer, topic)
        found = [row for name in names for row in await _found(verbs, name, consumer) if topic in (None, row.topic)]
        if len(found) != 1:
            raise _which(found, topic)
        console.print(await _retry(verbs, found[0], by, reason.strip()))

    run(_with(database, schema, work))


async def _retry(verbs: ParkedOperations, row: ParkedEvent, by: str, reason: str) -> str:
    """What was done, as a sentence."""
    if row.state == "WAITING":
        raise await _waits_behind(verbs, row)
    if row.state != "DEAD":
        if not await verbs.hasten(row):
            raise _moved_on(row)
        return f"It is tried within a second, if {row.consumer} is running; then its key goes on behind it."
    if not reason:
        raise ConfigurationError(
            f"The event {row.event_id} is dead for {row.consumer}: {row.last_error} If the cause is mended, say why it "
            'is tried again: --reason "…". (Where a dead-letter service is used, replay it there, so that its record '
            "is closed too: `surefoot dlq replay` comes with the next release.)"
        )
    if not await verbs.revive(row, decision=decision("retried", by=by, reason=reason)):
        raise _moved_on(row)
    return (
        f"It is no longer dead: {row.consumer} tries it within a few seconds, if it is running. Your reason is kept in "
        "the inbox."
    )


async def _found(verbs: ParkedOperations, name: str, consumer: str | None) -> list[ParkedEvent]:
    """The parked event of this name, once for each consumer that has it; a sentence if there is none."""
    from surefoot.cli.parked_shown import shown_time
    from surefoot.consumer_runtime.positions import parse_place

    place = parse_place(name)
    if place is not None:
        rows = await verbs.by_place(place[0].topic, place[0].partition, place[1], consumer)
        if not rows:
            raise ConfigurationError(
                f"Nothing is parked at {name}{_for(consumer)}: it was handled, or not read yet. `surefoot parked list` "
                "shows what waits."
            )
        return rows
    rows = await verbs.by_id(name, consumer)
    if rows:
        return rows
    settled = await verbs.settled(name, consumer)
    if not settled:
        raise ConfigurationError(
            f"No event {name} is parked{_for(consumer)}, and the inbox does not know it. `surefoot parked list` shows "
            "what waits."
        )
    told = "; ".join(
        f"{one.consumer} has it as {one.outcome} since {shown_time(one.processed_at)}"
        + (f" ({one.decision})" if one.decision else "")
        for one in settled
    )
    raise ConfigurationError(f"The event {name} is not parked: {told}.")


async def _heads(verbs: ParkedOperations, key: str, consumer: str | None, topic: str | None) -> list[str]:
    rows = await verbs.keys(consumer=consumer, topic=topic, key=key, state=None, limit=BEHIND_LIMIT)
    heads = [row.event_id for row in rows if row.holds]
    if not heads:
        raise ConfigurationError(f"Nothing waits on the key {key!r}{_for(consumer)}.")
    return list(dict.fromkeys(heads))


async def _waits_behind(verbs: ParkedOperations, row: ParkedEvent) -> ConfigurationError:
    heads = await verbs.keys(consumer=row.consumer, topic=row.topic, key=row.key, state=None, limit=BEHIND_LIMIT)
    head = next((one.event_id for one in heads if one.holds and one.partition == row.partition), None)
    return ConfigurationError(
        f"The event {row.event_id} only waits for its turn: first of its key is {head}. Retry that one; this one "
        "follows by itself."
    )


def _which(found: list[ParkedEvent], topic: str | None) -> ConfigurationError:
    if not found:
        return ConfigurationError(f"It is not parked in the topic {topic}: look at `surefoot parked list`.")
    places = ", ".join(f"{row.event_id} of {row.consumer} in {row.topic}" for row in found[:10])
    return ConfigurationError(f"{len(found)} parked events fit: {places}. Say --consumer, --topic or the event's id.")


def _moved_on(row: ParkedEvent) -> ConfigurationError:
    return ConfigurationError(
        f"The event {row.event_id} was {row.state} a moment ago and is not any more: nothing was changed. Look again "
        f"with `surefoot parked show {row.event_id}`."
    )


def _for(consumer: str | None) -> str:
    return "" if consumer is None else f" for {consumer}"


async def _with(database: str | None, schema: str, work: Callable[[ParkedOperations], Awaitable[None]]) -> None:
    await operate(ParkedOperations, work, database=database, schema=schema, name="surefoot-parked")
