"""`surefoot migrate`: make or update Surefoot's tables."""

from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from surefoot.cli.options import Database, Schema, required_database
from surefoot.cli.running import run
from surefoot.database.schema import DEFAULT_SCHEMA, DEFAULT_SHARDS

console = Console(highlight=False, soft_wrap=True)


def migrate(
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
    shards: Annotated[
        int, typer.Option(help="Outbox shards, the most relays that can share the work. Counts the first time only.")
    ] = DEFAULT_SHARDS,
) -> None:
    """Make or update Surefoot's tables, in a schema of their own. Safe to run again, also from several places."""
    from surefoot.database.connection import shown_url
    from surefoot.database.migrate import migrate as migrate_tables

    url = required_database(database)
    version = run(migrate_tables(url, schema=schema, shards=shards))
    console.print(f"The schema [bold]{schema}[/] at {escape(shown_url(url))} is at version {version}.")
