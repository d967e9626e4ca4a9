"""A deployment: a folder of your own that runs one command with settings of its own.

    # outbox_publisher/__main__.py, run by `python -m outbox_publisher`
    from outbox_publisher.settings import ShopRelaySettings
    from surefoot.cli.deployment import run_deployment
    from surefoot.cli.workers import relay

    run_deployment(relay, ShopRelaySettings)

`ShopRelaySettings` is a subclass of `RelaySettings` with other defaults. A `SUREFOOT_…` variable goes before them. The
options are those of the command, `surefoot relay`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import typer
from typer.main import get_command

if TYPE_CHECKING:
    from pydantic_settings import BaseSettings

Model = TypeVar("Model", bound="BaseSettings")


def run_deployment(command: Callable[..., None], *settings: "type[BaseSettings]") -> None:
    """Run a command as a program, by the command line of this process.

    `command` is the function behind a subcommand of `surefoot`. `settings` are the deployment's own subclasses of the
    models that the command reads its settings by.
    """
    from surefoot.cli.main import defaults_for, errors_as_sentences
    from surefoot.cli.project import find_project

    with errors_as_sentences():
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
        app.command()(command)
        program = get_command(app)
        program(obj=settings, default_map=defaults_for(program, find_project().option_defaults))


def settings_of(context: typer.Context, model: type[Model]) -> type[Model]:
    """The subclass of `model` that the deployment has handed over; `model` itself for a subcommand of `surefoot`."""
    return next((one for one in context.obj or () if issubclass(one, model)), model)
