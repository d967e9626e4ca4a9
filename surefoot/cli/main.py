"""The one command, `surefoot`: a subcommand is a module or a folder beside this one, or a command of the project's own.

Every command module is loaded to print the help. So at import it loads only typer, rich and what its signatures need;
each function imports what it runs. tests/integration/test_startup.py checks that.

Every error that Surefoot raises on purpose is printed as one sentence, without a traceback. Exit codes: 0 well, 1 a
check found something, 2 it could not be done, 130 interrupted.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, TypeVar, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from surefoot.cli.loading import load
from surefoot.cli.project import Project, find_project
from surefoot.errors import ConfigurationError, SurefootError
from surefoot.settings import RETIRED

OWN = {
    "migrate": "surefoot.cli.doctor:migrate",
    "doctor": "surefoot.cli.doctor:doctor",
    "tail": "surefoot.cli.topics:tail",
    "topics": "surefoot.cli.topics:app",
    "schemas": "surefoot.cli.schemas:app",
    "relay": "surefoot.cli.workers:relay",
    "outbox": "surefoot.cli.outbox:app",
    "consume": "surefoot.cli.workers:consume",
    "parked": "surefoot.cli.parked:app",
    "orchestrate": "surefoot.cli.workers:orchestrate",
    "saga": "surefoot.cli.saga:app",
    "dlq": "surefoot.cli.dlq:app",
    "audit": "surefoot.cli.audit:app",
    "idempotency": "surefoot.cli.idempotency:app",
}
"""The subcommands, in the order in which the help lists them."""
EXIT_FAILED = 2
EXIT_INTERRUPTED = 130
T = TypeVar("T")


def build(wanted: str | None = None, project: Project | None = None) -> typer.Typer:
    """The command with all its subcommands, or with the one that is wanted: it takes less long to load."""
    app = typer.Typer(
        name="surefoot",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        help="""Events that are published if, and only if, your transaction commits, in the order of the commits.

        Begin with `surefoot migrate` on your database, then `surefoot relay` to publish and `surefoot consume` to
        handle. `surefoot doctor` says what is wrong. A project file saves you from repeating options.""",
    )
    app.callback()(_root)  # also so that it has subcommands even where only one is loaded
    every = {**OWN, **_commands_of(project or find_project())}
    for name in [wanted] if wanted in every else every:
        command = _own(OWN[name]) if name in OWN else load(every[name])
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        elif callable(command):
            app.command(name)(command)
        else:
            raise ConfigurationError(
                f"{every[name]}, the command {name} of the project file, is neither a function nor a typer.Typer."
            )
    return app


def _show_version(wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import version
    from platform import python_version

    from surefoot.database.version import OLDEST_PROGRAM, newest_version

    tables = f"needs tables of version {newest_version()}, which take programs from {OLDEST_PROGRAM} on"
    typer.echo(f"surefoot {version('surefoot')} on Python {python_version()}; {tables}")
    raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """The command itself does nothing: its subcommands do."""


def _own(reference: str) -> object:
    """A command of this package: no project has to be read to find it."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def _commands_of(project: Project) -> Mapping[str, str]:
    for name in project.commands.keys() & OWN.keys():
        raise ConfigurationError(
            f"The project file in {project.root} has a command {name}, which is also a command of Surefoot. Rename it."
        )
    return project.commands


def defaults_for(command: Any, options: Mapping[str, str]) -> dict[str, Any]:
    """What the project file says of options, for each subcommand that has them. (`command` is of click, which typer
    brings under a name of its own.)"""
    if isinstance(command, TyperGroup):
        return {name: defaults_for(inner, options) for name, inner in command.commands.items()}
    return {one.name: options[one.name] for one in command.params if one.name in options}


def main() -> None:
    with errors_as_sentences():
        project = find_project()
        command = get_command(build(sys.argv[1] if len(sys.argv) > 1 else None, project))
        command(default_map=defaults_for(command, project.option_defaults))


@contextmanager
def errors_as_sentences() -> Iterator[None]:
    """Print what Surefoot raises on purpose as one sentence, and end the process with the exit code for it. Say first
    which variables have no effect any more."""
    try:
        for name in sorted(RETIRED.keys() & os.environ.keys()):
            _say(f"{name} is set, but is no setting any more: the value in force is {RETIRED[name]}.", style="yellow")
        yield
    except (SurefootError, ExceptionGroup) as error:
        ours = _ours(error)
        if ours is None:
            raise
        _say(str(ours))
        sys.exit(EXIT_FAILED)
    except ValueError as error:  # pydantic's ValidationError is one
        sentence = _settings_sentence(error)
        if sentence is None:
            raise
        _say(sentence)
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        _say("Interrupted.")
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The output is piped into `head`: not an error. Keep the interpreter from complaining when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _ours(error: Exception) -> SurefootError | None:
    """Our own error, also from within a group of tasks that ended together because of it."""
    if isinstance(error, ExceptionGroup):
        return next((found for part in error.exceptions if (found := _ours(part)) is not None), None)
    return error if isinstance(error, SurefootError) else None


def _say(sentence: str, style: str = "red") -> None:
    from rich.console import Console

    Console(stderr=True, highlight=False, soft_wrap=True).print(sentence, markup=False, style=style)


def _settings_sentence(error: ValueError) -> str | None:
    """pydantic's report on settings from the environment, by the names they have there; None if it is about others."""
    from pydantic import ValidationError
    from pydantic_settings import BaseSettings

    if not isinstance(error, ValidationError):
        return None
    settings = next((found for found in _subclasses(BaseSettings) if found.__name__ == error.title), None)
    if settings is None:
        return None
    prefix = settings.model_config.get("env_prefix", "")
    sentences = []
    for problem in error.errors():
        name = "_".join(str(part) for part in cast(tuple[object, ...], problem["loc"])).upper()
        said = problem["msg"].removeprefix("Value error, ")
        where = f"{prefix}{name}" if name else f"The settings {prefix}… together"
        how = " Times are written like PT10S or 00:00:10." if problem["type"].startswith("time_delta") else ""
        sentences.append(f"{where} cannot be used: {said}.{how}")
    return "\n".join(sentences)


def _subclasses(model: type[T]) -> Iterator[type[T]]:
    for found in model.__subclasses__():
        yield found
        yield from _subclasses(found)
