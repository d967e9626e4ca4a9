"""`surefoot topics create|check`: the topics of the catalogue, in the log."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.markup import escape

from surefoot.cli.event_log import event_log
from surefoot.cli.loading import load_catalogue
from surefoot.cli.options import Catalogues, Database, Kafka, Schema
from surefoot.cli.running import run
from surefoot.database.schema import DEFAULT_SCHEMA

if TYPE_CHECKING:
    from surefoot.events import Catalogue
    from surefoot.log.port import EventLog, TopicSpec

app = typer.Typer(no_args_is_help=True, help="Create the topics that the catalogue declares, and check them.")
console = Console(highlight=False, soft_wrap=True)


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
        console.print(f"{word}  {spec.name}  [dim]{spec.partitions} partitions, kept {spec.retention.days} days[/]")
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
        console.print(f"[red]✗[/] {escape(problem)}")
    if problems:
        raise typer.Exit(1)
    console.print(f"[green]✓[/] All {count} topics are as the catalogue declares them.")
