"""`surefoot tail`: read a topic as it is written, one line per event. Joins no group and commits nothing.

Data that their declaration marks as personal are masked, unless --reveal says otherwise.
"""

from datetime import timedelta
from typing import Annotated

import typer
from rich.console import Console

from surefoot.cli.event_log import event_log
from surefoot.cli.loading import load_known_catalogue
from surefoot.cli.options import Catalogues, Database, Kafka, Schema
from surefoot.cli.running import run
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError

console = Console(highlight=False, soft_wrap=True)
PATIENCE = timedelta(milliseconds=500)


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
    from surefoot.cli.record_line import line_of

    declared = None if reveal else load_known_catalogue(catalogue or [])

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
                            console.print(line_of(record, declared), markup=False)
                    if not follow and not records:
                        return
            finally:
                await reader.close()

    run(work())
