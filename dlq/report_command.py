"""`surefoot dlq report`: the week of each consumer, as Markdown. Straight from the database."""

import typer


def report() -> None:
    raise typer.Exit(2)
