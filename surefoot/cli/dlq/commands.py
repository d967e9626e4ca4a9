"""`surefoot dlq …`: the dead-letter queue from a terminal, and the service itself.

Exit codes: 0 done; 1 a job that was followed did not end well; 2 it could not be done, with a sentence that says why;
130 interrupted.
"""

import typer

from surefoot.cli.dlq import (
    discard as discard_commands,
)
from surefoot.cli.dlq import (
    jobs as job_commands,
)
from surefoot.cli.dlq import letters as looking_commands
from surefoot.cli.dlq import (
    replay as replay_commands,
)
from surefoot.cli.dlq import (
    tokens as token_commands,
)
from surefoot.cli.dlq.report import report
from surefoot.cli.dlq.service import serve

app = typer.Typer(
    no_args_is_help=True,
    help="""Understand, replay and close dead letters; run their admin service.

    Begin with `surefoot dlq groups --status OPEN`: what is broken. Then look at one (`list --group …`, `show ID`), mend
    the cause, and try them again: `replay --group … --dry-run`, then with `--canary 5 --follow`. All but `serve`,
    `token` and `report` speak to the service at SUREFOOT_DLQ_URL, as whoever SUREFOOT_DLQ_TOKEN says.""",
)
app.command()(serve)
for _part in (looking_commands, replay_commands, job_commands, discard_commands):
    app.registered_commands += _part.app.registered_commands
app.add_typer(token_commands.app, name="token")
app.command()(report)
