"""What commands share: options that are spelled the same everywhere, and how what they say is read.

A command works on one connection to the database (`operate`), which is closed in any case. A database that is away,
refuses or has no tables is answered with a sentence, and so is each value that cannot be read.
"""

import getpass
import os
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import quote
from uuid import UUID

import typer

from surefoot.database.address import read_address
from surefoot.errors import ConfigurationError
from surefoot.telemetry.logging import LogFormat

if TYPE_CHECKING:
    from surefoot.database.connection import Connection

T = TypeVar("T")
Choice = TypeVar("Choice", bound=str)
_HEAD = re.compile(r"([1-9][0-9]{0,17}):([0-9a-fA-F]{64})", re.ASCII)

Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar="SUREFOOT_DATABASE",
        help="URL of the PostgreSQL (15 or newer) with the outbox: postgresql://user:password@host:5432/name",
        show_default=False,
    ),
]
Kafka = Annotated[
    str | None,
    typer.Option(
        "--kafka",
        envvar="SUREFOOT_KAFKA",
        help="Kafka brokers as host:9092[,host:9092]. Without it, the event log kept in the database itself is used. "
        "TLS and SASL are set by SUREFOOT_KAFKA_SECURITY_PROTOCOL, SUREFOOT_KAFKA_SASL_MECHANISM and so on.",
        show_default=False,
    ),
]
Schema = Annotated[
    str, typer.Option("--schema", envvar="SUREFOOT_SCHEMA", help="The Postgres schema of Surefoot's tables.")
]
Catalogues = Annotated[
    list[str] | None,
    typer.Option(
        "--catalogue",
        envvar="SUREFOOT_CATALOGUE",
        help="Where event types are declared, as package.module:name. May be given more than once. "
        "Without it: those of the project file.",
        show_default=False,
    ),
]
Open = Annotated[
    bool, typer.Option("--open", help="Serve at an address that other machines reach, to anybody who reaches it.")
]
LogFormatOption = Annotated[
    LogFormat, typer.Option("--log-format", envvar="SUREFOOT_LOG_FORMAT", help="Log lines for people, or JSON.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Most lines to show.")]


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from a command, on uvloop where there is one."""
    if sys.platform == "win32":
        import asyncio

        return asyncio.run(work)
    import uvloop

    result: T = uvloop.run(work)
    return result


def operate(work: "Callable[[Connection], Awaitable[T]]", database: str | None, *, name: str) -> T:
    """Do `work` on a connection to the database that the command line names. `name` shows up in pg_stat_activity."""
    return run(_operate(work, database, name))


async def _operate(work: "Callable[[Connection], Awaitable[T]]", database: str | None, name: str) -> T:
    from surefoot.database.connection import close_quietly, connect, explain, is_database_error

    url = required_database(database)
    connection = await connect(url, name=name)
    try:
        return await work(connection)
    except Exception as error:
        if is_database_error(error):
            raise explain(error, url) from error
        raise
    finally:
        await close_quietly(connection)


def required_database(url: str | None) -> str:
    """The database that the option, SUREFOOT_DATABASE or the project file names, else the one that PG* names."""
    url = url or _url_of_libpq()
    if not url:
        raise ConfigurationError(
            "No database was given. Say --database postgresql://user:password@host:5432/name, or set "
            "SUREFOOT_DATABASE. (`surefoot up` runs an embedded one and prints its URL.)"
        )
    read_address(url)  # what is wrong with it is said before anything begins
    return url


def _url_of_libpq() -> str | None:
    """What PGHOST, PGPORT, PGUSER and PGDATABASE name. The driver reads PGPASSWORD and the password file by itself."""
    host, name = os.environ.get("PGHOST", ""), os.environ.get("PGDATABASE", "")
    if not host and not name:
        return None
    user = os.environ.get("PGUSER", "")
    at = quote(user, safe="") + "@" if user else ""
    port = f":{os.environ['PGPORT']}" if os.environ.get("PGPORT") else ""
    if host.startswith("/"):
        return f"postgresql://{at}/{quote(name or user)}?host={quote(host, safe='')}"
    return f"postgresql://{at}{host or 'localhost'}{port}/{quote(name or user)}"


def as_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def required_id(text: str, what: str, shown_by: str, more: str = "") -> UUID:
    """The id that was given. `what` it should be and the command that it is `shown_by` are told if it is none."""
    found = as_id(text)
    if found is None:
        raise ConfigurationError(f"{text!r} is not {what}: those are UUIDs, as `{shown_by}` shows them.{more}")
    return found


def choice(text: str, among: Sequence[Choice], refusal: str) -> Choice:
    """The one of them that was given, in whatever case. `refusal` as in "is not a status. Choose"."""
    for one in among:
        if text.upper() == one:
            return one
    raise ConfigurationError(f"{text!r} {refusal} one of {', '.join(among)}.")


def head_of(text: str, printed: str) -> tuple[int, str]:
    """The head of a sealed history: a number and a seal. `printed` says where it is from, and of what it consists."""
    matched = _HEAD.fullmatch(text.strip())
    if matched is None:
        raise ConfigurationError(f"{text!r} is no head. Write it as {printed} in 64 hexadecimal digits.")
    return int(matched[1]), matched[2].lower()


def required_reason(reason: str, kept: str) -> str:
    if not reason.strip():
        raise ConfigurationError(f"Say why, with --reason: it is kept {kept}, for whoever asks later.")
    return reason.strip()


def decision(what: str, *, by: str, reason: str) -> str:
    """What is kept with a row: when, what, who (you, unless `by` names another person) and why."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {what} by {decider(by)}: {reason.strip()}"


def decider(by: str) -> str:
    """The person that --by names; without it, you."""
    return by.strip() or user()


def user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        raise ConfigurationError("Say who decides, with --by: this machine does not know your name.") from None
