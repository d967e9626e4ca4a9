"""`surefoot doctor`: is everything there that should be, and what to do if not."""

import typer
from rich.console import Console
from rich.markup import escape

from surefoot.cli.loading import load_known_catalogue
from surefoot.cli.options import Catalogues, Database, Kafka, Schema, required_database
from surefoot.cli.running import run
from surefoot.database.schema import DEFAULT_SCHEMA, checked_schema

MARKS = {"ok": "[green]✓[/]", "warning": "[yellow]![/]", "error": "[red]✗[/]"}


def doctor(
    database: Database = None, kafka: Kafka = None, schema: Schema = DEFAULT_SCHEMA, catalogue: Catalogues = None
) -> None:
    """Check the set-up: database, tables, broker, topics, clocks, leases. Exit code 1 if something is wrong."""
    from surefoot.cli.doctor.facts import examine

    url = required_database(database)
    findings = run(examine(url, kafka, checked_schema(schema), load_known_catalogue(catalogue or [])))
    console = Console(highlight=False, soft_wrap=True)
    for finding in findings:
        console.print(f"{MARKS[finding.level]} {escape(finding.sentence)}")
        if finding.advice:
            console.print(f"  [dim]→ {escape(finding.advice)}[/]")
    if any(finding.level == "error" for finding in findings):
        raise typer.Exit(1)
