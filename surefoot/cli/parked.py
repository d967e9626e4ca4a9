"""`surefoot parked list|show|retry`: events that wait behind a failure of their key, or are dead, and what to do."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from surefoot.cli.command import Database, Schema, choice, decision, operate
from surefoot.cli.show import MOST_SHOWN, clean, console, counted, duration, say_if_cut, shown_time
from surefoot.consumer_runtime.parked_operations import (
    BEHIND_LIMIT,
    BEHIND_SHOWN,
    STATES,
    ParkedEvent,
    ParkedKey,
    ParkedOperations,
)
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError

if TYPE_CHECKING:
    from surefoot.database.connection import Connection

NAME = "surefoot-parked"
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
    wanted = None if state is None else choice(state, STATES, "is not a state. Choose")

    async def work(connection: "Connection") -> list[ParkedKey]:
        verbs = ParkedOperations(connection, schema)
        return await verbs.keys(consumer=consumer, topic=topic, key=None, state=wanted, limit=limit)

    rows = operate(work, database, name=NAME)
    if not rows:
        narrowed = any((consumer, topic, state))
        console.print("Nothing that fits is parked." if narrowed else "Nothing is parked: no key waits.")
    for row in rows:
        _print_key(row)
    say_if_cut(len(rows), limit)


@app.command()
def show(
    event: EventName, consumer: OneConsumer = None, database: Database = None, schema: Schema = DEFAULT_SCHEMA
) -> None:
    """Show one event: what happened to it and when, what waits behind it, its headers and its value."""

    async def work(connection: "Connection") -> None:
        verbs = ParkedOperations(connection, schema)
        for row in await _found(verbs, event, consumer):
            _print_event(row, *await verbs.behind(row))

    operate(work, database, name=NAME)


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

    async def work(connection: "Connection") -> None:
        verbs = ParkedOperations(connection, schema)
        names = [event] if event is not None else await _heads(verbs, str(key), consumer, topic)
        found = [row for name in names for row in await _found(verbs, name, consumer) if topic in (None, row.topic)]
        if len(found) != 1:
            raise _which(found, topic)
        console.print(await _retry(verbs, found[0], by, reason.strip()))

    operate(work, database, name=NAME)


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
    from surefoot.log.port import parse_place

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


def _print_key(row: ParkedKey) -> None:
    behind = f"  {counted(row.waiting_behind, BEHIND_LIMIT)} behind it" if row.waiting_behind else ""
    console.print(
        f"{row.consumer}  {row.topic}  key {clean(row.key)}  {in_words(row.state, row.holds, row.due_in_s)}{behind}"
    )
    console.print(f"  {row.event_id}  {row.event_type or '(no event)'}  attempts {row.attempts}", style="dim")
    if row.last_error:
        console.print(f"  {clean(row.last_error)}", style="dim")


def in_words(state: str, holds: bool, due_in_s: float | None) -> str:
    rest = due_in_s or 0.0
    match state:
        case "DUE":
            return "tried again now" if rest < 1 else f"tried again in {duration(rest)}"
        case "CALLING":
            return "waiting for an outside call" + ("" if rest < 1 else f", made again in {duration(rest)}")
        case "DEAD":
            return "dead, holds its key" if holds else "dead, its key goes on (released)"
        case _:
            return "waiting for its turn"


def _print_event(row: ParkedEvent, behind: Sequence[ParkedEvent], count: int) -> None:
    from base64 import b64decode

    words = in_words(row.state, row.holds, row.due_in_s)
    console.print(f"{row.event_type or 'No event'} {row.event_id} of {row.consumer}: {words}", style="bold")
    if row.last_error:
        console.print(clean(row.last_error))
    why = f" ({row.reason})" if row.reason and row.state == "DEAD" else ""
    console.print(f"state {row.state}{why}, attempts {row.attempts}, replays {row.replays}")
    console.print(f"place {row.place}, key {clean(row.key)}, source {clean(row.source)}")
    dead = f", dead {shown_time(row.dead_at)}" if row.state == "DEAD" else ""
    console.print(f"recorded {shown_time(row.recorded_at)}, parked {shown_time(row.parked_at)}{dead}")
    if row.fingerprint:
        console.print(f"fingerprint {row.fingerprint}")
    if row.decision:
        console.print(clean(row.decision))
    _print_failures(row)
    if row.prepared is not None:
        console.print("prepared for the outside call", style="bold")
        console.print(clean(row.prepared))
    console.print("headers", style="bold")
    for name, value in json.loads(row.headers):
        console.print(f"{clean(name)}: {'(null)' if value is None else _text(b64decode(value))}")
    console.print("value", style="bold")
    console.print(_value(row.value))
    _print_behind(behind, count)


def _print_failures(row: ParkedEvent) -> None:
    failures = json.loads(row.failures)
    if failures:
        console.print("failed attempts, latest last", style="bold")
    for at, error in failures:
        console.print(f"{at}  {clean(error)}")


def _print_behind(behind: Sequence[ParkedEvent], count: int) -> None:
    if not count:
        return
    console.print(f"waiting behind it: {counted(count, BEHIND_LIMIT)}", style="bold")
    for row in behind:
        console.print(f"{row.event_id}  {row.event_type or '(no event)'}  {row.place}")
    if count > BEHIND_SHOWN:
        console.print("…")


def _value(value: bytes | None) -> str:
    from base64 import b64encode

    if value is None:
        return "(none)"
    try:
        shown = json.dumps(json.loads(value), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        shown = f"(not JSON; {len(value)} bytes in Base64)\n{b64encode(value).decode()}"
    cut = "" if len(shown) <= MOST_SHOWN else f"\n… cut: {len(value)} bytes in all"
    return clean(shown) + cut


def _text(value: bytes) -> str:
    from base64 import b64encode

    try:
        return clean(value.decode("utf-8"))
    except UnicodeDecodeError:
        return f"(Base64) {b64encode(value).decode()}"
