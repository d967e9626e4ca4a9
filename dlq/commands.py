"""`surefoot dlq …`: the dead-letter queue from a terminal, and the service itself."""

import typer

app = typer.Typer(no_args_is_help=True, help="Understand, replay and close dead letters; run their admin service.")
