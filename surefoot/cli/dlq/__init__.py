"""`surefoot dlq …`: the dead-letter queue from a terminal, and the service itself.

Exit codes: 0 done; 1 a job that was followed did not end well; 2 it could not be done, with a sentence that says why;
130 interrupted.
"""

import typer

from surefoot.cli.dlq import discard, jobs, letters, service

app = typer.Typer(
    no_args_is_help=True,
    help="""Understand, replay and close dead letters; run their admin service.

    Begin with `surefoot dlq groups --status OPEN`: what is broken. Then look at one (`list --group …`, `show ID`), mend
    the cause, and try them again: `replay --group … --dry-run`, then with `--canary 5 --follow`. All but `serve`,
    `token` and `report` speak to the service at SUREFOOT_DLQ_URL, as whoever SUREFOOT_DLQ_TOKEN says.""",
)
app.command()(service.serve)
for _part in (letters, jobs, discard):
    app.registered_commands += _part.app.registered_commands
app.add_typer(service.tokens, name="token")
app.command()(service.report)
