"""`surefoot topics create|check` and `surefoot tail`: the topics of the catalogue in the log, and what is in one.

`tail` joins no group and commits nothing. It masks data that their declaration marks as personal, unless --reveal
says otherwise.
"""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from surefoot.cli.command import Catalogues, Database, Kafka, Schema, run
from surefoot.cli.loading import load_catalogue, load_known_catalogue
from surefoot.cli.process import event_log
from surefoot.cli.show import console, styled
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError

if TYPE_CHECKING:
    from surefoot.events import Catalogue, Envelope
    from surefoot.log.port import EventLog, StoredRecord, TopicSpec

app = typer.Typer(no_args_is_help=True, help="Create the topics that the catalogue declares, and check them.")
PATIENCE = timedelta(milliseconds=500)


def declared(catalogue: "Catalogue") -> "list[TopicSpec]":
    """The catalogue's topics, and those on which the platform itself answers: every consumer may need them."""
    from surefoot.consumer.contracts import platform
    from surefoot.log.port import TopicSpec

    topics = {topic.name: topic for topic in (*catalogue.topics(), *platform.topics())}
    return [
        TopicSpec(topic.name, topic.partitions, topic.retention, topic.max_record_bytes) for topic in topics.values()
    ]


@app.command()
def create(
    catalogue: Catalogues = None, kafka: Kafka = None, database: Database = None, schema: Schema = DEFAULT_SCHEMA
) -> None:
    """Create the topics that are missing, each with its dead-letter topic. Those that exist are left as they are."""
    wanted = declared(load_catalogue(catalogue or []))

    async def work() -> tuple[set[str], list[str]]:
        async with event_log(kafka, database, schema) as log:
            before = set(await log.describe([spec.name for spec in wanted]))
            await log.create([spec for spec in wanted if spec.name not in before])
            return before, await _problems(log, wanted)

    before, problems = run(work())
    for spec in wanted:
        word = "exists " if spec.name in before else "created"
        styled.print(f"{word}  {spec.name}  [dim]{spec.partitions} partitions, kept {spec.retention.days} days[/]")
    _finish(problems, len(wanted))


@app.command()
def check(
    catalogue: Catalogues = None, kafka: Kafka = None, database: Database = None, schema: Schema = DEFAULT_SCHEMA
) -> None:
    """Compare the topics in the log with the catalogue. Exit code 1 if something does not fit."""
    wanted = declared(load_catalogue(catalogue or []))

    async def work() -> list[str]:
        async with event_log(kafka, database, schema) as log:
            return await _problems(log, wanted)

    _finish(run(work()), len(wanted))


async def _problems(log: "EventLog", wanted: "Sequence[TopicSpec]") -> list[str]:
    from surefoot.log.topics import compare

    found = await log.describe([spec.name for spec in wanted])
    return [problem for spec in wanted for problem in compare(spec, found.get(spec.name))]


def _finish(problems: Sequence[str], count: int) -> None:
    for problem in problems:
        styled.print(f"[red]✗[/] {escape(problem)}")
    if problems:
        raise typer.Exit(1)
    styled.print(f"[green]✓[/] All {count} topics are as the catalogue declares them.")


def tail(
    topic: Annotated[str, typer.Argument(help="The topic to read, such as order.events.", show_default=False)],
    kafka: Kafka = None,
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Begin with the oldest record that is kept.")
    ] = False,
    follow: Annotated[bool, typer.Option(help="Go on until Ctrl-C, or stop at the end.")] = True,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Show data that are marked as personal too, and not as •••.")
    ] = False,
    catalogue: Catalogues = None,
) -> None:
    """Print a topic's events as they are published: offset, type, key and data, one line each."""
    types = None if reveal else load_known_catalogue(catalogue or [])

    async def work() -> None:
        async with event_log(kafka, database, schema) as log:
            if topic not in await log.describe([topic]):
                raise ConfigurationError(
                    f"The log has no topic {topic!r}. `surefoot topics create` makes those of the catalogue."
                )
            ends = await log.end_offsets(topic)
            reader = await log.read(topic, dict.fromkeys(ends, 0) if from_start else ends)
            try:
                while True:
                    records = await reader.poll(timeout=PATIENCE)
                    for batch in records.values():
                        for record in batch:
                            console.print(line_of(record, types))
                    if not follow and not records:
                        return
            finally:
                await reader.close()

    run(work())


def line_of(record: "StoredRecord", catalogue: "Catalogue | None") -> str:
    """One record for the eye, masked by the catalogue's declarations; without one, as it is. What is not a CloudEvent
    is shown all the same, with the reason."""
    from surefoot.events import BadRecord, decode

    where = f"{record.partition}/{record.offset}"
    try:
        envelope = decode(record.headers, record.value, record.key)
    except BadRecord as bad:
        return f"{where}  not an event ({bad.reason})  {record.value!r}"
    key = (record.key or b"").decode(errors="replace")
    return f"{where}  {envelope.type}  {key}  {_shown(record, envelope, catalogue)}"


def _shown(record: "StoredRecord", envelope: "Envelope", catalogue: "Catalogue | None") -> str:
    data = envelope.data
    try:
        if catalogue is None or data is None:
            return json.dumps(json.loads(data or b"null"), ensure_ascii=False)
        return json.dumps(_masked(record, envelope, data, catalogue), ensure_ascii=False)
    except (ValueError, RecursionError):
        return repr(data)


def _masked(record: "StoredRecord", envelope: "Envelope", data: bytes, catalogue: "Catalogue") -> Any:
    """A dead letter's data are those of the event that it is about."""
    from surefoot.consumer.dead_letter import DEAD_LETTER_TYPE
    from surefoot.events.binding import version_of
    from surefoot.events.masking import MASK, NotJson, declares_personal, masked

    if envelope.type == DEAD_LETTER_TYPE:
        about = dict(record.headers).get("surefoot-event-type") or b""
        kind, version = about.decode(errors="replace"), None
    else:
        kind, version = envelope.type, version_of(envelope)
    if not declares_personal(kind, catalogue):
        return json.loads(data)
    try:
        return masked(data, kind, version, catalogue)
    except NotJson:
        return MASK
