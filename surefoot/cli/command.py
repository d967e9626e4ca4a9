"""What the commands of operators share: a connection for their verbs, and how a decision is put down.

A database that is away, refuses or has no tables is answered with a sentence; the connection is closed in any case.
"""

import getpass
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from surefoot.cli.options import required_database
from surefoot.errors import ConfigurationError

if TYPE_CHECKING:
    from surefoot.database.connection import Connection

T = TypeVar("T")
Verbs = TypeVar("Verbs")


async def operate(
    verbs: "Callable[[Connection, str], Verbs]",
    work: Callable[[Verbs], Awaitable[T]],
    *,
    database: str | None,
    schema: str,
    name: str,
) -> T:
    """Do `work` with the verbs, made for a connection and a schema; `name` shows up in pg_stat_activity."""
    from surefoot.database.connection import close_quietly, connect, explain, is_database_error

    url = required_database(database)
    connection = await connect(url, name=name)
    try:
        return await work(verbs(connection, schema))
    except Exception as error:
        if is_database_error(error):
            raise explain(error, url) from error
        raise
    finally:
        await close_quietly(connection)


def decision(what: str, *, by: str, reason: str) -> str:
    """What is kept with the row: when, what, who (you, unless `by` says somebody else) and why."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {what} by {by.strip() or user()}: {reason.strip()}"


def user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        raise ConfigurationError("Say who decides, with --by: this machine does not know your name.") from None
