"""`surefoot saga …`: look at sagas, decide about them, prove and draw definitions, serve the read API.

Exit codes: 0 done; 1 nothing was changed, with the reason why not now; 2 it could not be tried; 130 interrupted.
"""

import typer

from surefoot.cli.saga import deciding, definitions, looking

app = typer.Typer(
    no_args_is_help=True,
    help="""Sagas: which are stuck or slow and why; pause, resume, retry, skip or undo one; prove and draw definitions.

    Begin with `surefoot saga list --status STUCK`, then `surefoot saga show` with an id of it: it says in a sentence
    where the saga stands, and which commands can be given now.""",
)
app.registered_commands += looking.app.registered_commands + deciding.app.registered_commands
app.command()(looking.serve)
app.registered_commands += definitions.app.registered_commands
