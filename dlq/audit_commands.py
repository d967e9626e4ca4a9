"""`surefoot audit …`: whether the record of what people did is whole."""

import typer

app = typer.Typer(no_args_is_help=True, help="Check and export the record of what people did.")
