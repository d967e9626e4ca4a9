"""`surefoot dlq report`: what died and what became of it, by consumer, as Markdown. Straight from the database."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefoot.cli.command import operate
from surefoot.cli.options import Database, Schema
from surefoot.cli.running import run
from surefoot.database.schema import DEFAULT_SCHEMA, checked_schema
from surefoot.errors import ConfigurationError

if TYPE_CHECKING:
    from surefoot.database.connection import Connection


def report(
    days: Annotated[int, typer.Option(min=1, max=366, help="So many days back from now.")] = 7,
    last_week: Annotated[
        bool, typer.Option("--last-week", help="The last whole week instead, from Monday to Monday in UTC.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write. Without it: what is printed.")
    ] = None,
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """Write what died, what became of it, and what is still open, for each consumer, as Markdown.

    `surefoot dlq report --last-week --output report.md`. The service writes one each week by itself, if
    SUREFOOT_DLQ_REPORT_DIRECTORY says where.
    """
    from surefoot.cli.show import console
    from surefoot.dlq.upkeep import report as reporting

    now = datetime.now(UTC)
    since, until = reporting.last_week(now) if last_week else (now - timedelta(days=days), now)

    async def work(made: "tuple[Connection, str]") -> str:
        connection, schema = made
        return await reporting.report(connection, schema, since=since, until=until)

    checked = checked_schema(schema)
    text = run(operate(lambda *made: made, work, database=database, schema=checked, name="surefoot-dlq-report"))
    if output is None:
        typer.echo(text, nl=not text.endswith("\n"))
        return
    try:
        reporting.write_report(output, text)
    except OSError as error:
        raise ConfigurationError(f"{output} cannot be written: {error}. Choose another --output.") from error
    console.print(f"The report is in {output}.")
