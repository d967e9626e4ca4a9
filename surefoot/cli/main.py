"""The one command, `surefoot`. Its own subcommands are in `surefoot.commands`; the rooms bring theirs as entry points.

Every command module is loaded to print the help. So at import it loads only typer, rich and what its signatures need;
each function imports what it runs. tests/integration/test_startup.py checks that.

Every error that Surefoot raises on purpose is printed as one sentence, without a traceback. Exit codes: 0 well, 1 a
check found something, 2 it could not be done, 130 interrupted.
"""

import os
import sys
from importlib.metadata import EntryPoint, entry_points
from typing import cast

import typer

from surefoot.errors import SurefootError

GROUP = "surefoot.commands"
OWN = [
    EntryPoint("migrate", "surefoot.cli.migrate:migrate", GROUP),
    EntryPoint("doctor", "surefoot.cli.doctor.command:doctor", GROUP),
    EntryPoint("tail", "surefoot.cli.tail:tail", GROUP),
    EntryPoint("topics", "surefoot.cli.topics:app", GROUP),
    EntryPoint("schemas", "surefoot.cli.schemas:app", GROUP),
    EntryPoint("idempotency", "surefoot.cli.idempotency:app", GROUP),
]
EXIT_FAILED = 2
EXIT_INTERRUPTED = 130


def build(wanted: str | None = None) -> typer.Typer:
    """The command with all its subcommands, or with the one that is wanted: it takes less long to load."""
    app = typer.Typer(
        name="surefoot",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        help="""Events that are published if, and only if, your transaction commits, in the order of the commits.

        A first walk: `surefoot demo`. Then `surefoot migrate` on your own database, `surefoot relay` to publish, and
        `surefoot doctor` when something seems wrong.""",
    )
    app.callback()(lambda: None)  # so that it has subcommands even where only one is loaded
    every = [*OWN, *sorted(entry_points(group=GROUP), key=lambda found: found.name)]
    for found in [found for found in every if found.name == wanted] or every:
        command = found.load()
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=found.name)
        else:
            app.command(found.name)(command)
    return app


def main() -> None:
    try:
        build(sys.argv[1] if len(sys.argv) > 1 else None)()
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


def _say(sentence: str) -> None:
    from rich.console import Console

    Console(stderr=True, highlight=False, soft_wrap=True).print(sentence, markup=False, style="red")


def _settings_sentence(error: ValueError) -> str | None:
    """pydantic's report on settings from the environment, by the names they have there; None if it is about others."""
    from pydantic import ValidationError
    from pydantic_settings import BaseSettings

    if not isinstance(error, ValidationError):
        return None
    settings = next((found for found in BaseSettings.__subclasses__() if found.__name__ == error.title), None)
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
